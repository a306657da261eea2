package benchmark

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/benchmark/report"
)

const (
	services       = 200
	serviceGroups  = 4  // each Service selects the pods of one of as many Deployments
	servicePods    = 50 // of each of these Deployments
	slicesInterval = 10 * time.Millisecond
)

// runServices shares few pods among many Services: a pod that changes concerns all
// Services of its group, as in a cluster where each has a hundred. The time to create the
// Services is mostly that of the API server, so the time after the last one is another result.
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
	seen, stop, err := s.followEndpoints(ctx)
	if err != nil {
		return err
	}
	defer stop()
	n := scaled(services, s.options.Scale)
	last := report.Result{
		Scenario: s.scenario, Phase: "services-last", Mode: string(s.mode), Subject: s.name, Round: s.round,
		Size: "the same, from the last creation on", Units: 1, Unit: "Service", Figures: map[string]float64{},
	}
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
			began := time.Now()
			err = s.untilEvery(ctx, slicesInterval, "all have their endpoints", seen.complete(n))
			last.Figures[report.Wall] = time.Since(began).Seconds()
			return err
		},
		check: seen.describe,
	}
	if err := s.measure(ctx, created); err != nil {
		return err
	}
	s.record(last)
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
			return s.untilEvery(ctx, slicesInterval, "all have the new endpoints", seen.complete(n))
		},
		check: seen.describe,
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

// endpointsSeen is what a watch has shown of the pods of a namespace, their EndpointSlices and Endpoints.
// Asking the API server for all of them again and again would take longer than what is measured.
type endpointsSeen struct {
	pods      corelisters.PodLister
	slices    discoverylisters.EndpointSliceLister
	endpoints corelisters.EndpointsLister
}

func (s *stage) followEndpoints(ctx context.Context) (_ endpointsSeen, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithNamespace(load))
	core, discovery := factory.Core().V1(), factory.Discovery().V1()
	seen := endpointsSeen{core.Pods().Lister(), discovery.EndpointSlices().Lister(), core.Endpoints().Lister()}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			err = errors.Join(err, fmt.Errorf("the cache of %s is not filled", kind))
		}
	}
	return seen, func() {
		cancel()
		factory.Shutdown()
	}, err
}

// readyPods returns the UIDs of the ready pods by the group they belong to.
func (e endpointsSeen) readyPods() (map[string]sets.Set[types.UID], error) {
	pods, err := e.pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	groups := map[string]sets.Set[types.UID]{}
	for _, p := range pods {
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

// complete returns nil when the EndpointSlices of each of n Services name its ready pods and no others, and
// its Endpoints as many.
func (e endpointsSeen) complete(n int) func(context.Context) error {
	return func(context.Context) error {
		slices, err := e.slices.List(labels.Everything())
		if err != nil {
			return err
		}
		endpoints, err := e.endpoints.List(labels.Everything())
		if err != nil {
			return err
		}
		pods, err := e.readyPods()
		if err != nil {
			return err
		}
		found, addresses := endpointsByService(slices), addressesByService(endpoints)
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

func endpointsByService(slices []*discoveryv1.EndpointSlice) map[string]sets.Set[types.UID] {
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

func addressesByService(endpoints []*corev1.Endpoints) map[string]int {
	found := map[string]int{}
	for _, e := range endpoints {
		for _, subset := range e.Subsets {
			found[e.Name] += len(subset.Addresses)
		}
	}
	return found
}

// describe counts what there is at the end.
func (e endpointsSeen) describe(context.Context) (string, error) {
	slices, err := e.slices.List(labels.Everything())
	if err != nil {
		return "", err
	}
	endpoints, err := e.endpoints.List(labels.Everything())
	if err != nil {
		return "", err
	}
	addresses := addressesByService(endpoints)
	t := tally{}
	for service, uids := range endpointsByService(slices) {
		t.add("Services with %d endpoints and %d addresses", uids.Len(), addresses[service])
	}
	return t.String(), nil
}
