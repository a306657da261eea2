package endpointslice

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/endpointslice/metrics"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/controllertest"
)

var web = types.NamespacedName{Namespace: "n", Name: "web"}

type sliceChange = func(*discoveryv1.EndpointSlice)

func generation(g int64) sliceChange {
	return func(s *discoveryv1.EndpointSlice) { s.Generation = g }
}

func service(name string) sliceChange {
	return func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = name }
}

var defaults = config{concurrentSyncs: 5, maxEndpoints: 100, preferSame: true}

// bench is a controller on a fake API server, with its caches filled.
type bench struct {
	*controllertest.Env
	c *endpointSliceController
}

func newBench(t testing.TB, config config, objects ...runtime.Object) *bench {
	t.Helper()
	env := controllertest.New(t, objects...)
	env.StampWrites("endpointslices")
	c, err := newController(env.Env, config)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{env, c}
}

// begin fills the caches and readies the controller for single reconciles.
func (b *bench) begin(t testing.TB) *bench {
	t.Helper()
	b.Start(t)
	if err := b.c.begin(b.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) reconcile(t testing.TB) {
	t.Helper()
	if err := b.c.reconcile(b.Context(), "n/web"); err != nil {
		t.Fatalf("reconcile: %v", err)
	}
}

// stored returns the slices that the API server holds.
func (b *bench) stored(t testing.TB) []discoveryv1.EndpointSlice {
	t.Helper()
	list, err := b.Fake.Tracker().List(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), "n")
	if err != nil {
		t.Fatal(err)
	}
	return list.(*discoveryv1.EndpointSliceList).Items
}

// one returns the only slice that the API server holds.
func (b *bench) one(t testing.TB) *discoveryv1.EndpointSlice {
	t.Helper()
	stored := b.stored(t)
	if len(stored) != 1 {
		t.Fatalf("%d slices stored, want 1: %+v", len(stored), stored)
	}
	return &stored[0]
}

// observed waits until the cache shows every stored slice as it is.
func (b *bench) observed(t testing.TB) {
	t.Helper()
	controllertest.Eventually(t, "the cache shows what is stored", func() bool {
		cached, err := b.c.slices.Of("n", "web")
		stored := b.stored(t)
		if err != nil || len(cached) != len(stored) {
			return false
		}
		for i := range stored {
			if !slices.ContainsFunc(cached, func(c *discoveryv1.EndpointSlice) bool {
				return c.UID == stored[i].UID && c.ResourceVersion == stored[i].ResourceVersion
			}) {
				return false
			}
		}
		return true
	})
}

// put changes an object in a cache.
func (b *bench) put(t testing.TB, obj any) {
	t.Helper()
	core := b.Informers.Core().V1()
	var err error
	switch obj.(type) {
	case *corev1.Service:
		err = core.Services().Informer().GetIndexer().Update(obj)
	case *corev1.Pod:
		err = core.Pods().Informer().GetIndexer().Update(obj)
	case *corev1.Node:
		err = core.Nodes().Informer().GetIndexer().Update(obj)
	case *discoveryv1.EndpointSlice:
		err = b.Informers.Discovery().V1().EndpointSlices().Informer().GetIndexer().Update(obj)
	default:
		t.Fatalf("no cache for a %T", obj)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func syncs(t testing.TB, result string) float64 {
	t.Helper()
	n, err := testutil.GetCounterMetricValue(metrics.EndpointSliceSyncs.WithLabelValues(result))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func testService(change ...func(*corev1.Service)) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "web", UID: "service", ResourceVersion: "1",
			CreationTimestamp: metav1.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
			Labels:            map[string]string{"team": "a"},
		},
		Spec: corev1.ServiceSpec{
			Selector:   map[string]string{"app": "web"},
			ClusterIP:  "10.0.0.1",
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:      []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	for _, c := range change {
		c(service)
	}
	return service
}

func testPod(i int, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: fmt.Sprintf("web-%d", i), UID: types.UID(fmt.Sprintf("pod-%d", i)),
			ResourceVersion: "1", Labels: map[string]string{"app": "web"},
		},
		Spec: corev1.PodSpec{NodeName: "node-a"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			PodIP:      fmt.Sprintf("10.1.%d.%d", i/250, i%250+1),
			PodIPs:     []corev1.PodIP{{IP: fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func testNode(name, zone string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func testSlice(name string, change ...func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: name, UID: types.UID(name), Generation: 1, ResourceVersion: "1",
			Labels: map[string]string{
				"team": "a", discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: managedBy,
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Service", Name: "web", UID: "service",
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
	for _, c := range change {
		c(slice)
	}
	return slice
}
