package endpointslice

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
)

// Pins EPS-63.
func TestTopologyModeNeedsTheNodesFirst(t *testing.T) {
	service := testService(func(s *corev1.Service) { s.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto"} })
	onB := func(p *corev1.Pod) { p.Spec.NodeName = "node-b" }
	b := newBench(t, defaults, service, testNode("node-a", "zone-a"), testNode("node-b", "zone-b"), testPod(1), testPod(2, onB)).begin(t)
	b.MustReconcile(t)
	for _, e := range b.one(t).Endpoints {
		if e.Hints == nil || len(e.Hints.ForZones) != 1 {
			t.Errorf("%s has no hint", e.TargetRef.Name)
		}
	}
	want := []string{"Normal TopologyAwareHintsEnabled Topology Aware Hints has been enabled, addressType: IPv4"}
	if events := b.RecordedEvents(); !slices.Equal(events, want) {
		t.Errorf("events are %q", events)
	}
}

// Hints that were removed because no Service could have any return when Services can. Pins EPS-76.
func TestHintsReturnWithTheZones(t *testing.T) {
	onB := func(p *corev1.Pod) { p.Spec.NodeName = "node-b" }
	unready := testNode("node-b", "zone-b")
	unready.Status.Conditions[0].Status = corev1.ConditionFalse
	deprecated := func(s *corev1.Service) {
		s.Annotations = map[string]string{corev1.DeprecatedAnnotationTopologyAwareHints: "auto"}
	}
	off := func(s *corev1.Service) {
		topologyMode(s)
		s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints] = "Disabled"
	}
	for name, tc := range map[string]struct {
		mode func(*corev1.Service)
		node *corev1.Node // while there are no hints
		want int          // 1 if the Service is reconciled when there is a second zone
	}{
		"a node without zone":                   {topologyMode, testNode("node-b", ""), 1},
		"a zone without ready nodes":            {topologyMode, unready, 1},
		"the deprecated annotation":             {deprecated, unready, 1},
		"the deprecated annotation comes first": {off, unready, 0},
		"not in topology mode":                  {func(*corev1.Service) {}, unready, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults, testService(tc.mode), testNode("node-a", "zone-a"), tc.node,
				testPod(1), testPod(2, onB)).begin(t)
			hinted := func() (n int) {
				for _, e := range b.one(t).Endpoints {
					if e.Hints != nil {
						n++
					}
				}
				return n
			}
			b.MustReconcile(t)
			b.observed(t)
			if n := hinted(); n != 0 {
				t.Fatalf("%d endpoints have hints", n)
			}
			b.Cache(t, testNode("node-b", "zone-b"))
			want := slices.Repeat([]types.NamespacedName{web}, tc.want)
			if got, err := b.c.examineNodes(t.Context()); err != nil || !slices.Equal(got, want) {
				t.Fatalf("Services to reconcile are %v, want %v, and %v", got, want, err)
			}
			if got, err := b.c.examineNodes(t.Context()); err != nil || len(got) != 0 {
				t.Errorf("when nothing changed, Services to reconcile are %v, and %v", got, err)
			}
			b.MustReconcile(t)
			if n := hinted(); n != 2*tc.want {
				t.Errorf("%d endpoints have hints, want %d", n, 2*tc.want)
			}
		})
	}
}

// Pins EPS-68.
func TestTrafficDistributionWithoutItsGate(t *testing.T) {
	cfg := v1beta1.NewDefault()
	cfg.EmulatedVersion = "1.33" // off by default there
	b := newBench(t, Descriptor().Value(cfg).(config), testService(func(s *corev1.Service) {
		s.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameNode)
	}), testNode("node-a", "zone-a"), testPod(1)).begin(t)
	b.MustReconcile(t)
	if got := b.one(t); got.Endpoints[0].Hints != nil {
		t.Errorf("hints are %+v", got.Endpoints[0].Hints)
	}
}

// The slice is created with its hints. Pins EPS-4, EPS-32 and EPS-36.
func TestPreferSameNodeIsHonoured(t *testing.T) {
	service := testService(func(s *corev1.Service) {
		s.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameNode)
	})
	b := newBench(t, defaults, service, testNode("node-a", "zone-a"), testPod(1)).begin(t)
	b.MustReconcile(t)
	hints := b.one(t).Endpoints[0].Hints
	if hints == nil || len(hints.ForNodes) != 1 || hints.ForNodes[0].Name != "node-a" {
		t.Errorf("hints are %+v", hints)
	}
	if got := b.WriteVerbs(); !slices.Equal(got, []string{"create"}) {
		t.Errorf("writes are %v, want one", got)
	}
}
