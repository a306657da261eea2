package services

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// createService creates a Service named web that selects app=web.
func createService(t *testing.T, namespace string, edit func(*corev1.Service)) *corev1.Service {
	t.Helper()
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"team": "a"}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	if edit != nil {
		edit(s)
	}
	return must.Get(admin.CoreV1().Services(namespace).Create(t.Context(), s, metav1.CreateOptions{}))(t)
}

func patchService(t *testing.T, namespace, patch string) {
	t.Helper()
	must.Get(admin.CoreV1().Services(namespace).Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
}

func slicesOf(ctx context.Context, namespace string) ([]discoveryv1.EndpointSlice, error) {
	list, err := admin.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b discoveryv1.EndpointSlice) int {
		return cmp.Or(cmp.Compare(a.AddressType, b.AddressType), cmp.Compare(portText(&a), portText(&b)), cmp.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

func portText(s *discoveryv1.EndpointSlice) string {
	var all []string
	for _, p := range s.Ports {
		all = append(all, fmt.Sprintf("%s/%s/%d", *p.Name, *p.Protocol, ptr.Deref(p.Port, 0)))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// endpointText is what the tests compare of an endpoint: its pod and, if not usual,
// its conditions.
func endpointText(e *discoveryv1.Endpoint) string {
	text := "?"
	if e.TargetRef != nil {
		text = e.TargetRef.Name
	}
	for _, c := range []struct {
		name        string
		value       *bool
		unusualWhen bool
	}{{"not-ready", e.Conditions.Ready, false}, {"not-serving", e.Conditions.Serving, false}, {"terminating", e.Conditions.Terminating, true}} {
		if c.value == nil || *c.value == c.unusualWhen {
			text += " " + c.name
		}
	}
	return text
}

// sliceText is "family ports: endpoints".
func sliceText(s *discoveryv1.EndpointSlice) string {
	var all []string
	for i := range s.Endpoints {
		all = append(all, endpointText(&s.Endpoints[i]))
	}
	slices.Sort(all)
	return fmt.Sprintf("%s %s: %s", s.AddressType, portText(s), strings.Join(all, ", "))
}

// waitForSlices waits until the slices of the Service are just these.
func waitForSlices(t *testing.T, namespace string, want ...string) []discoveryv1.EndpointSlice {
	t.Helper()
	var found []discoveryv1.EndpointSlice
	await.That(t, "the slices are as they should be", func(ctx context.Context) (err error) {
		if found, err = slicesOf(ctx, namespace); err != nil {
			return err
		}
		var got []string
		for i := range found {
			got = append(got, sliceText(&found[i]))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
	return found
}

// createPods creates pods named <app>-0 and so on, one on each node in turn, and
// waits until they are Ready.
func createPods(t *testing.T, namespace, app string, count int) []corev1.Pod {
	t.Helper()
	for i := range count {
		cluster.CreatePod(t, namespace, fmt.Sprintf("%s-%d", app, i), app, harness.OnNode(i%nodes))
	}
	pods := cluster.WaitForReadyPods(t, namespace, map[string]string{"app": app}, count)
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods
}

// Pins EPS-28c and EPS-34.
func TestEndpointSliceDescribesPods(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	service := createService(t, namespace, nil)
	waitForSlices(t, namespace, "IPv4 : ")
	pods := createPods(t, namespace, "web", 2)
	createPods(t, namespace, "other", 1)
	slice := waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0, web-1")[0]
	if slice.GenerateName != "web-" || !metav1.IsControlledBy(&slice, service) || !*slice.OwnerReferences[0].BlockOwnerDeletion {
		t.Errorf("the slice is %+v", slice.ObjectMeta)
	}
	labels := map[string]string{discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io", "team": "a"}
	if fmt.Sprint(slice.Labels) != fmt.Sprint(labels) {
		t.Errorf("the labels are %v", slice.Labels)
	}
	if _, err := time.Parse(time.RFC3339Nano, slice.Annotations[corev1.EndpointsLastChangeTriggerTime]); err != nil {
		t.Errorf("the trigger time: %v", err)
	}
	slices.SortFunc(slice.Endpoints, func(a, b discoveryv1.Endpoint) int { return cmp.Compare(a.TargetRef.Name, b.TargetRef.Name) })
	for i, e := range slice.Endpoints {
		target := corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pods[i].Name, UID: pods[i].UID}
		if !slices.Equal(e.Addresses, []string{pods[i].Status.PodIP}) || *e.NodeName != controlplane.NodeName(i) ||
			*e.Zone != fmt.Sprintf("zone-%d", i) || *e.TargetRef != target || e.Hostname != nil || e.Hints != nil {
			t.Errorf("the endpoint of %s is %+v", pods[i].Name, e)
		}
	}
}

func TestEndpointSliceFollowsPods(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createService(t, namespace, nil)
	createPods(t, namespace, "web", 2)
	waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0, web-1")

	cluster.SetReady(t, namespace, "web-0", corev1.ConditionFalse)
	waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0 not-ready not-serving, web-1")
	cluster.SetReady(t, namespace, "web-0", corev1.ConditionTrue)
	waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0, web-1")

	cluster.PatchPod(t, namespace, "web-1", `{"metadata":{"finalizers":["`+harness.Hold+`"]}}`)
	if err := admin.CoreV1().Pods(namespace).Delete(t.Context(), "web-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0, web-1 not-ready terminating")
	cluster.PatchPod(t, namespace, "web-1", harness.NoFinalizers)
	waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0")

	cluster.PatchPod(t, namespace, "web-0", `{"metadata":{"labels":{"app":"other"}}}`)
	waitForSlices(t, namespace, "IPv4 : ")
	cluster.PatchPod(t, namespace, "web-0", `{"metadata":{"labels":{"app":"web"}}}`)
	waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0")
	cluster.PatchPodStatus(t, namespace, "web-0", map[string]any{"phase": corev1.PodSucceeded})
	// A phase alone queues nothing; the next change shows what it means.
	cluster.CreatePod(t, namespace, "web-2", "web", harness.OnNode(2))
	waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-2")
}

func TestEndpointSliceFollowsService(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createService(t, namespace, nil)
	createPods(t, namespace, "web", 1)
	createPods(t, namespace, "other", 1)
	waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0")
	patchService(t, namespace, `{"spec":{"selector":{"app":"other"}}}`)
	waitForSlices(t, namespace, "IPv4 http/TCP/8080: other-0")
	patchService(t, namespace, `{"spec":{"ports":[{"name":"http","port":80,"targetPort":9090,"protocol":"TCP"},{"name":"dns","port":53,"protocol":"UDP"}]}}`)
	waitForSlices(t, namespace, "IPv4 dns/UDP/53,http/TCP/9090: other-0")
	patchService(t, namespace, `{"metadata":{"labels":{"team":"b"}}}`)
	await.That(t, "the slice has the Service's new label", func(ctx context.Context) error {
		found, err := slicesOf(ctx, namespace)
		if err == nil && (len(found) != 1 || found[0].Labels["team"] != "b") {
			err = fmt.Errorf("the slices are %v", found)
		}
		return err
	})
}

// TestEndpointSliceOfRecreatedService: nobody collects the slices of the first one,
// which are the second one's to replace.
// Pins EPS-27.
func TestEndpointSliceOfRecreatedService(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createService(t, namespace, nil)
	createPods(t, namespace, "web", 1)
	first := waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0")[0]
	if err := admin.CoreV1().Services(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	second := createService(t, namespace, nil)
	await.That(t, "the slice belongs to the new Service", func(ctx context.Context) error {
		found, err := slicesOf(ctx, namespace)
		if err == nil && (len(found) != 1 || found[0].UID == first.UID || !metav1.IsControlledBy(&found[0], second)) {
			err = fmt.Errorf("the slices are %v", found)
		}
		return err
	})
	waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0")
}

// Pins EPS-11b, EPS-11c and EPS-46.
func TestEndpointSliceIsRepaired(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createService(t, namespace, nil)
	createPods(t, namespace, "web", 1)
	slice := waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0")[0]
	endpoints := admin.DiscoveryV1().EndpointSlices(namespace)
	patch := func(p string) {
		t.Helper()
		must.Get(endpoints.Patch(t.Context(), slice.Name, types.MergePatchType, []byte(p), metav1.PatchOptions{}))(t)
	}
	patch(`{"endpoints":[]}`)
	waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0")
	patch(`{"metadata":{"labels":{"endpointslice.kubernetes.io/managed-by":"somebody"}}}`)
	await.That(t, "there is another slice", func(ctx context.Context) error {
		found, err := slicesOf(ctx, namespace)
		if err == nil && len(found) != 2 {
			err = fmt.Errorf("there are %d", len(found))
		}
		return err
	})
	if err := endpoints.Delete(t.Context(), slice.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	slice = waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0")[0]
	if err := endpoints.Delete(t.Context(), slice.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.That(t, "the deleted slice is replaced", func(ctx context.Context) error {
		found, err := slicesOf(ctx, namespace)
		if err == nil && (len(found) != 1 || found[0].UID == slice.UID || len(found[0].Endpoints) != 1) {
			err = fmt.Errorf("the slices are %v", found)
		}
		return err
	})
}

// Pins EPS-28a and EPS-50.
func TestEndpointSliceNamedPorts(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createService(t, namespace, func(s *corev1.Service) {
		s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("web")}}
	})
	for name, port := range map[string]int32{"a": 8080, "b": 9090, "none": 0} {
		cluster.CreatePod(t, namespace, name, "web", func(p *corev1.Pod) {
			harness.OnNode(0)(p)
			if port > 0 {
				p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: port}}
			}
		})
	}
	// A pod without the port is an endpoint without ports.
	waitForSlices(t, namespace, "IPv4 : none", "IPv4 http/TCP/8080: a", "IPv4 http/TCP/9090: b")
}

// Pins EPS-34.
func TestEndpointSliceOfHeadlessService(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createService(t, namespace, func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone })
	cluster.CreatePod(t, namespace, "named", "web", func(p *corev1.Pod) {
		harness.OnNode(0)(p)
		p.Spec.Hostname, p.Spec.Subdomain = "first", "web"
	})
	cluster.CreatePod(t, namespace, "stranger", "web", func(p *corev1.Pod) {
		harness.OnNode(1)(p)
		p.Spec.Hostname, p.Spec.Subdomain = "second", "elsewhere"
	})
	slice := waitForSlices(t, namespace, "IPv4 http/TCP/8080: named, stranger")[0]
	if value, there := slice.Labels[corev1.IsHeadlessService]; !there || value != "" {
		t.Errorf("the labels are %v", slice.Labels)
	}
	for _, e := range slice.Endpoints {
		if want := map[string]string{"named": "first", "stranger": ""}[e.TargetRef.Name]; ptr.Deref(e.Hostname, "") != want {
			t.Errorf("the hostname of %s is %v", e.TargetRef.Name, e.Hostname)
		}
	}
}

// Pins EPS-28c.
func TestEndpointSlicePublishesNotReady(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createService(t, namespace, func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true })
	createPods(t, namespace, "web", 2)
	waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0, web-1")
	cluster.SetReady(t, namespace, "web-0", corev1.ConditionFalse)
	waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0 not-serving, web-1")
}

// Pins EPS-26.
func TestEndpointSliceDualStack(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	service := createService(t, namespace, func(s *corev1.Service) {
		s.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
	})
	if len(service.Spec.ClusterIPs) != 2 {
		t.Fatalf("the Service has addresses %v", service.Spec.ClusterIPs)
	}
	pods := createPods(t, namespace, "web", 2)
	waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0, web-1", "IPv6 : ")
	second := "fd00::1:2"
	cluster.PatchPodStatus(t, namespace, "web-1", map[string]any{"podIPs": []any{
		map[string]any{"ip": pods[1].Status.PodIP}, map[string]any{"ip": second},
	}})
	found := waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0, web-1", "IPv6 http/TCP/8080: web-1")
	if got := found[1].Endpoints[0].Addresses; !slices.Equal(got, []string{second}) {
		t.Errorf("the IPv6 addresses are %v", got)
	}
	patchService(t, namespace, `{"spec":{"ipFamilyPolicy":"SingleStack","ipFamilies":["IPv4"],"clusterIPs":["`+service.Spec.ClusterIP+`"]}}`)
	waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0, web-1")
}

// Pins EPS-6.
func TestEndpointSliceHoldsAtMostOneHundred(t *testing.T) {
	t.Parallel()
	const count, most = 120, 100
	namespace := cluster.NamespaceForPods(t)
	createService(t, namespace, nil)
	must.Get(admin.AppsV1().ReplicaSets(namespace).Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To[int32](count),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: harness.PodTemplate("web", "web:1"),
		},
	}, metav1.CreateOptions{}))(t)
	await.That(t, "all pods are endpoints", func(ctx context.Context) error {
		found, err := slicesOf(ctx, namespace)
		if err != nil {
			return err
		}
		pods := map[string]bool{}
		for i := range found {
			if len(found[i].Endpoints) > most {
				return await.Final(fmt.Errorf("a slice holds %d endpoints", len(found[i].Endpoints)))
			}
			for j := range found[i].Endpoints {
				pods[endpointText(&found[i].Endpoints[j])] = true
			}
		}
		if len(pods) != count || len(found) < 2 || strings.Contains(fmt.Sprint(pods), "not-ready") {
			return fmt.Errorf("%d slices hold %d ready endpoints", len(found), len(pods))
		}
		return nil
	})
}

// Pins EPS-36.
func TestEndpointSliceTrafficDistribution(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createService(t, namespace, func(s *corev1.Service) {
		s.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferClose)
	})
	createPods(t, namespace, "web", nodes)
	waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0, web-1, web-2")
	waitForHints(t, namespace, "web-0=zone-0", "web-1=zone-1", "web-2=zone-2")
	patchService(t, namespace, `{"spec":{"trafficDistribution":"PreferSameNode"}}`)
	waitForHints(t, namespace, "web-0=zone-0,node-0", "web-1=zone-1,node-1", "web-2=zone-2,node-2")
	patchService(t, namespace, `{"spec":{"trafficDistribution":null}}`)
	waitForHints(t, namespace, "web-0=", "web-1=", "web-2=")
}

// Pins EPS-35.
func TestEndpointSliceTopologyMode(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	service := createService(t, namespace, func(s *corev1.Service) {
		s.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto"}
	})
	createPods(t, namespace, "web", nodes)
	waitForHints(t, namespace, "web-0=zone-0", "web-1=zone-1", "web-2=zone-2")
	const component = "endpoint-slice-controller "
	cluster.WaitForEvent(t, namespace, service.UID, component+"Normal TopologyAwareHintsEnabled: Topology Aware Hints has been enabled, addressType: IPv4")
	patchService(t, namespace, `{"metadata":{"annotations":null}}`)
	waitForHints(t, namespace, "web-0=", "web-1=", "web-2=")
	cluster.WaitForEvent(t, namespace, service.UID, component+"Warning TopologyAwareHintsDisabled: Topology Aware Hints has been disabled, addressType: IPv4")
}

// waitForHints waits until the endpoints have these hints, written pod=zone,node.
func waitForHints(t *testing.T, namespace string, want ...string) {
	t.Helper()
	await.That(t, "the endpoints have their hints", func(ctx context.Context) error {
		found, err := slicesOf(ctx, namespace)
		if err != nil {
			return err
		}
		var got []string
		for _, s := range found {
			for _, e := range s.Endpoints {
				got = append(got, e.TargetRef.Name+"="+strings.Join(hintsOf(&e), ","))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return errors.New(fmt.Sprint(got))
		}
		return nil
	})
}

func hintsOf(e *discoveryv1.Endpoint) []string {
	var all []string
	if e.Hints == nil {
		return nil
	}
	for _, z := range e.Hints.ForZones {
		all = append(all, z.Name)
	}
	for _, n := range e.Hints.ForNodes {
		all = append(all, n.Name)
	}
	return all
}
