package endpointslice

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// situation is all that the library decides on.
type situation struct {
	service *corev1.Service
	pods    []*corev1.Pod
	slices  []*discoveryv1.EndpointSlice
	nodes   []*corev1.Node
	epoch   uint64
}

func newSituation() *situation {
	return &situation{
		service: testService(),
		pods:    []*corev1.Pod{testPod(1), testPod(2)},
		slices:  []*discoveryv1.EndpointSlice{testSlice("a"), testSlice("b")},
		nodes:   []*corev1.Node{testNode("node-a", "zone-a")},
		epoch:   1,
	}
}

func (s *situation) digest(t *testing.T, in *inputs) uint64 {
	t.Helper()
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, node := range s.nodes {
		if err := nodes.Add(node); err != nil {
			t.Fatal(err)
		}
	}
	in.nodes = corelisters.NewNodeLister(nodes)
	return in.digest(s.service, s.pods, s.slices, s.epoch)
}

// Pins EPS-60.
func TestDigestFollowsWhatTheLibraryReads(t *testing.T) {
	for name, tc := range map[string]struct {
		before, change func(*situation)
		same           bool
	}{
		"nothing":                 {nil, func(*situation) {}, true},
		"order of pods":           {nil, func(s *situation) { s.pods[0], s.pods[1] = s.pods[1], s.pods[0] }, true},
		"order of slices":         {nil, func(s *situation) { s.slices[0], s.slices[1] = s.slices[1], s.slices[0] }, true},
		"resource version of pod": {nil, func(s *situation) { s.pods[0].ResourceVersion = "2" }, true},
		"restart of a container":  {nil, func(s *situation) { s.pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}} }, true},
		"time of readiness":       {nil, func(s *situation) { s.pods[0].Status.Conditions[0].LastTransitionTime = metav1.Now() }, true},
		"later deletion":          {deleted(1), deleted(2), true},
		"phase to Pending":        {nil, func(s *situation) { s.pods[0].Status.Phase = corev1.PodPending }, true},
		"unrelated node":          {nil, func(s *situation) { s.nodes = append(s.nodes, testNode("node-b", "zone-b")) }, true},

		"Service":           {nil, func(s *situation) { s.service.ResourceVersion = "2" }, false},
		"recreated Service": {nil, func(s *situation) { s.service.UID = "another" }, false},
		"topology":          {nil, func(s *situation) { s.epoch++ }, false},
		"slice":             {nil, func(s *situation) { s.slices[0].ResourceVersion = "2" }, false},
		"recreated slice":   {nil, func(s *situation) { s.slices[0].UID = "another" }, false},
		"slice gone":        {nil, func(s *situation) { s.slices = s.slices[:1] }, false},
		"pod gone":          {nil, func(s *situation) { s.pods = s.pods[:1] }, false},
		"recreated pod":     {nil, func(s *situation) { s.pods[0].UID = "another" }, false},
		"readiness":         {nil, func(s *situation) { s.pods[0].Status.Conditions[0].Status = corev1.ConditionFalse }, false},
		"deletion":          {nil, func(s *situation) { s.pods[0].DeletionTimestamp = ptr.To(metav1.Now()) }, false},
		"failed":            {nil, func(s *situation) { s.pods[0].Status.Phase = corev1.PodFailed }, false},
		"succeeded":         {nil, func(s *situation) { s.pods[0].Status.Phase = corev1.PodSucceeded }, false},
		"pod IPs":           {nil, func(s *situation) { s.pods[0].Status.PodIPs[0].IP = "10.9.9.9" }, false},
		"order of pod IPs":  {podIPs("10.0.0.1", "fd00::1"), podIPs("fd00::1", "10.0.0.1"), false},
		"pod IPs swapped": {nil, func(s *situation) {
			s.pods[0].Status.PodIPs, s.pods[1].Status.PodIPs = s.pods[1].Status.PodIPs, s.pods[0].Status.PodIPs
		}, false},
		"pod IP":                  {nil, func(s *situation) { s.pods[0].Status.PodIP = "" }, false},
		"node of pod":             {nil, func(s *situation) { s.pods[0].Spec.NodeName = "node-b" }, false},
		"hostname":                {nil, func(s *situation) { s.pods[0].Spec.Hostname = "h" }, false},
		"subdomain":               {nil, func(s *situation) { s.pods[0].Spec.Subdomain = "web" }, false},
		"node gone, without zone": {func(s *situation) { s.nodes[0].Labels = nil }, func(s *situation) { s.nodes = nil }, false},
		"node gone":               {nil, func(s *situation) { s.nodes = nil }, false},
		"zone of node":            {nil, func(s *situation) { s.nodes[0].Labels[corev1.LabelTopologyZone] = "zone-b" }, false},
		"node lost its zone":      {nil, func(s *situation) { s.nodes[0].Labels = nil }, false},
		"hostnames exchanged":     {hostnames("a", "b"), hostnames("b", "a"), false},
	} {
		t.Run(name, func(t *testing.T) {
			in := newInputs(nil)
			before, changed := newSituation(), newSituation()
			if tc.before != nil {
				tc.before(before)
			}
			tc.change(changed)
			if got := before.digest(t, in) == changed.digest(t, in); got != tc.same {
				t.Errorf("same = %v, want %v", got, tc.same)
			}
		})
	}
}

func deleted(second int64) func(*situation) {
	return func(s *situation) { s.pods[0].DeletionTimestamp = ptr.To(metav1.Unix(second, 0)) }
}

func podIPs(first, second string) func(*situation) {
	return func(s *situation) { s.pods[0].Status.PodIPs = []corev1.PodIP{{IP: first}, {IP: second}} }
}

func hostnames(first, second string) func(*situation) {
	return func(s *situation) { s.pods[0].Spec.Hostname, s.pods[1].Spec.Hostname = first, second }
}

func TestInputsAreUpToDateByKey(t *testing.T) {
	in := newInputs(nil)
	if in.upToDate(web, 0) {
		t.Error("an unknown Service is up to date")
	}
	in.markUpToDate(web, 1)
	if !in.upToDate(web, 1) || in.upToDate(web, 2) || in.upToDate(types.NamespacedName{Namespace: "m", Name: "web"}, 1) {
		t.Error("upToDate must hold for this key and digest only")
	}
	in.forget(web)
	if in.upToDate(web, 1) {
		t.Error("a forgotten Service is up to date")
	}
}
