package endpointslice

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Pins EPS-28a.
func TestNamedPortsThatResolveDifferentlyMakeTwoSlices(t *testing.T) {
	port := func(number int32) []corev1.ContainerPort {
		return []corev1.ContainerPort{{Name: "web", ContainerPort: number, Protocol: corev1.ProtocolTCP}}
	}
	sidecar := func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Ports: port(2)}}
	}
	b := newBench(t, defaults,
		testService(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("web") }), testNode("node-a", "zone-a"),
		testPod(1, func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{{Ports: port(1)}} }), testPod(2, sidecar)).begin(t)
	b.MustReconcile(t)
	var got []string
	for _, slice := range b.stored(t) {
		got = append(got, fmt.Sprintf("%s:%d", slice.Endpoints[0].TargetRef.Name, *slice.Ports[0].Port))
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"web-1:1", "web-2:2"}) {
		t.Errorf("slices are %v", got)
	}
}

// Pins EPS-6 and EPS-29c.
func TestSlicesHoldAtMostMaxEndpoints(t *testing.T) {
	objects := []runtime.Object{testService(), testNode("node-a", "zone-a")}
	for i := range 7 {
		objects = append(objects, testPod(i))
	}
	b := newBench(t, config{concurrentSyncs: 1, maxEndpoints: 3, preferSame: true}, objects...).begin(t)
	b.MustReconcile(t)
	if n := len(b.stored(t)); n != 3 {
		t.Errorf("%d slices, want 3", n)
	}
}

// packed is a Service whose five pods are in a slice of four and one of one.
func packed(t *testing.T) (b *bench, full, other *discoveryv1.EndpointSlice) {
	t.Helper()
	objects := []runtime.Object{testService(), testNode("node-a", "zone-a")}
	for i := range 5 {
		objects = append(objects, testPod(i))
	}
	b = newBench(t, config{concurrentSyncs: 1, maxEndpoints: 4, preferSame: true}, objects...).begin(t)
	b.MustReconcile(t)
	b.observed(t)
	b.Requests()
	stored := b.stored(t)
	if len(stored) == 2 && len(stored[0].Endpoints) < len(stored[1].Endpoints) {
		slices.Reverse(stored)
	}
	if len(stored) != 2 || len(stored[0].Endpoints) != 4 || len(stored[1].Endpoints) != 1 {
		t.Fatalf("stored are %+v", stored)
	}
	return b, stored[0], stored[1]
}

// podOf is the pod of an endpoint, by its number in the slice.
func podOf(t *testing.T, slice *discoveryv1.EndpointSlice, n int, changes ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	var i int
	if _, err := fmt.Sscanf(slice.Endpoints[n].TargetRef.Name, "web-%d", &i); err != nil {
		t.Fatal(err)
	}
	return testPod(i, changes...)
}

// endpointsOf are the numbers of endpoints of the stored slices, by their names.
func (b *bench) endpointsOf(t *testing.T) map[string]int {
	t.Helper()
	sizes := map[string]int{}
	for _, slice := range b.stored(t) {
		sizes[slice.Name] = len(slice.Endpoints)
	}
	return sizes
}

func TestSlicesChangeAsLittleAsPossible(t *testing.T) {
	toPort := func(port int32) *corev1.Service {
		return testService(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(port) })
	}
	for name, test := range map[string]struct {
		change      func(b *bench, full, other *discoveryv1.EndpointSlice)
		full, other int    // how many endpoints the slices have then, -1 without slice
		fullWritten string // the verb, none if it stays as it is
		alsoWritten string // the verb for the other one
	}{
		"EPS-29a: a pod goes": {func(b *bench, full, _ *discoveryv1.EndpointSlice) {
			b.Uncache(t, podOf(t, full, 0))
		}, 3, 1, "update", ""},
		"EPS-29a: a pod changes": {func(b *bench, _, other *discoveryv1.EndpointSlice) {
			b.Cache(t, podOf(t, other, 0, unready))
		}, 4, 1, "", "update"},
		"EPS-29a: a slice is empty": {func(b *bench, _, other *discoveryv1.EndpointSlice) {
			b.Uncache(t, podOf(t, other, 0))
		}, 4, -1, "", "delete"},
		"EPS-29b: the fullest that is written is filled": {func(b *bench, full, other *discoveryv1.EndpointSlice) {
			b.Uncache(t, podOf(t, full, 0))
			b.Cache(t, podOf(t, other, 0, unready), testPod(8))
		}, 4, 1, "update", "update"},
		"EPS-29d: slices that would fit into one stay": {func(b *bench, full, _ *discoveryv1.EndpointSlice) {
			b.Uncache(t, podOf(t, full, 0), podOf(t, full, 1), podOf(t, full, 2))
		}, 1, 1, "update", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b, full, other := packed(t)
			test.change(b, full, other)
			b.MustReconcile(t)
			want := map[string]int{full.Name: test.full}
			if test.other >= 0 {
				want[other.Name] = test.other
			}
			if got := b.endpointsOf(t); !maps.Equal(got, want) {
				t.Errorf("the slices have %v endpoints, want %v", got, want)
			}
			var requests []string
			for slice, verb := range map[string]string{full.Name: test.fullWritten, other.Name: test.alsoWritten} {
				if verb != "" {
					requests = append(requests, verb+" endpointslices "+slice)
				}
			}
			b.WantRequestsInAnyOrder(t, requests...)
			b.observed(t)
			b.MustReconcile(t)
			b.WantRequests(t)
		})
	}
	t.Run("EPS-30: of other ports", func(t *testing.T) {
		b, full, other := packed(t)
		b.Uncache(t, podOf(t, other, 0))
		b.Cache(t, toPort(9))
		b.MustReconcile(t)
		slice := b.one(t) // under the name of one of them, see EPS-33
		if *slice.Ports[0].Port != 9 || len(slice.Endpoints) != 4 || slice.Name != full.Name && slice.Name != other.Name {
			t.Errorf("stored is %+v", slice)
		}
		b.WantRequests(t, "update endpointslices", "delete endpointslices")
	})
}
