package benchmark

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
)

const (
	services       = 200
	serviceGroups  = 4  // each Service selects the pods of one of as many Deployments
	servicePods    = 50 // of each of these Deployments
	slicesInterval = 5 * pollInterval
)

// runServices shares few pods among many Services: a pod that changes concerns all
// Services of its group, as in a cluster where each has a hundred.
func runServices(ctx context.Context, s *stage) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.namespace(ctx, load); err != nil {
		return err
	}
	if err := createDeployments(ctx, s.client, load, serviceGroups, servicePods); err != nil {
		return err
	}
	complete := deploymentsComplete(s.client, load, serviceGroups)
	if err := s.until(ctx, "all pods are available", complete); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	n := scaled(services, s.options.Scale)
	created := phase{
		name: "services", size: fmt.Sprintf("%d Services of %d pods created", n, servicePods), units: float64(n), unit: "Service",
		work: func(ctx context.Context, _ map[string]float64) error {
			err := each(ctx, n, func(ctx context.Context, i int) error {
				_, err := s.client.CoreV1().Services(load).Create(ctx, newService(i), metav1.CreateOptions{})
				return err
			})
			if err != nil {
				return err
			}
			return s.untilEvery(ctx, slicesInterval, "all have their endpoints", s.endpointsComplete(n))
		},
		check: s.describeEndpoints,
	}
	if err := s.measure(ctx, created); err != nil {
		return err
	}
	return s.measure(ctx, phase{
		name: "endpoints", size: fmt.Sprintf("all %d pods behind %d Services replaced", serviceGroups*servicePods, n), units: float64(n * servicePods), unit: "endpoint",
		work: func(ctx context.Context, _ map[string]float64) error {
			err := each(ctx, serviceGroups, func(ctx context.Context, i int) error {
				patch := `{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`
				_, err := s.client.AppsV1().Deployments(load).Patch(ctx, numbered("web", i), types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
				return err
			})
			if err != nil {
				return err
			}
			if err := s.until(ctx, "all pods are replaced", complete); err != nil {
				return err
			}
			return s.untilEvery(ctx, slicesInterval, "all have the new endpoints", s.endpointsComplete(n))
		},
		check: s.describeEndpoints,
	})
}

func newService(i int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: numbered("service", i)},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"group": numbered("group", i%serviceGroups)},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}
}

// readyPods returns the UIDs of the ready pods by the group they belong to.
func (s *stage) readyPods(ctx context.Context) (map[string]sets.Set[types.UID], error) {
	list, err := s.client.CoreV1().Pods(load).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	groups := map[string]sets.Set[types.UID]{}
	for _, p := range list.Items {
		if p.DeletionTimestamp != nil || p.Status.PodIP == "" {
			continue
		}
		group := p.Labels["group"]
		if groups[group] == nil {
			groups[group] = sets.New[types.UID]()
		}
		groups[group].Insert(p.UID)
	}
	return groups, nil
}

// endpointsComplete returns nil when the EndpointSlices of each of n Services name its
// ready pods and no others, and its Endpoints as many.
func (s *stage) endpointsComplete(n int) func(context.Context) error {
	return func(ctx context.Context) error {
		slices, err := s.client.DiscoveryV1().EndpointSlices(load).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		endpoints, err := s.client.CoreV1().Endpoints(load).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		pods, err := s.readyPods(ctx)
		if err != nil {
			return err
		}
		found, addresses := endpointsByService(slices.Items), addressesByService(endpoints.Items)
		for i := range n {
			service := newService(i)
			want := pods[service.Spec.Selector["group"]]
			if got := found[service.Name]; want.Len() != servicePods || !got.Equal(want) {
				return fmt.Errorf("%s has %d endpoints, not the same as the %d pods", service.Name, got.Len(), want.Len())
			}
			if got := addresses[service.Name]; got != servicePods {
				return fmt.Errorf("%s has %d addresses", service.Name, got)
			}
		}
		return nil
	}
}

func endpointsByService(slices []discoveryv1.EndpointSlice) map[string]sets.Set[types.UID] {
	found := map[string]sets.Set[types.UID]{}
	for _, slice := range slices {
		service := slice.Labels[discoveryv1.LabelServiceName]
		if found[service] == nil {
			found[service] = sets.New[types.UID]()
		}
		for _, e := range slice.Endpoints {
			// An endpoint that is not ready is that of a pod on its way out.
			if e.TargetRef != nil && ptr.Deref(e.Conditions.Ready, true) {
				found[service].Insert(e.TargetRef.UID)
			}
		}
	}
	return found
}

func addressesByService(endpoints []corev1.Endpoints) map[string]int {
	found := map[string]int{}
	for _, e := range endpoints {
		for _, subset := range e.Subsets {
			found[e.Name] += len(subset.Addresses)
		}
	}
	return found
}

func (s *stage) describeEndpoints(ctx context.Context) (string, error) {
	slices, err := s.client.DiscoveryV1().EndpointSlices(load).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	endpoints, err := s.client.CoreV1().Endpoints(load).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	t := tally{}
	for service, uids := range endpointsByService(slices.Items) {
		t.add("Services with %d endpoints and %d addresses", uids.Len(), addressesByService(endpoints.Items)[service])
	}
	return t.String(), nil
}
