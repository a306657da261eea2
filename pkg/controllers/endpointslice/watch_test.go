package endpointslice

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

func TestNodeNotifications(t *testing.T) {
	unready := func(n *corev1.Node) *corev1.Node {
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
		return n
	}
	type test struct {
		notify func(*endpointSliceController)
		want   int
	}
	updated := func(change func(*corev1.Node), want int) test {
		node := testNode("a", "z")
		change(node)
		return test{func(c *endpointSliceController) { c.nodeFuncs().Update(reconcile.Fresh, testNode("a", "z"), node) }, want}
	}
	for name, tc := range map[string]test{
		"replayed":      {func(c *endpointSliceController) { c.nodeFuncs().Add(reconcile.Backlog, testNode("a", "z")) }, 0},
		"EPS-12: added": {func(c *endpointSliceController) { c.nodeFuncs().Add(reconcile.Fresh, testNode("a", "z")) }, 1},
		"EPS-17: several": {func(c *endpointSliceController) {
			c.nodeFuncs().Add(reconcile.Fresh, testNode("a", "z"))
			c.nodeFuncs().Delete(testNode("b", "z"))
		}, 1},
		"EPS-12: heartbeat": {func(c *endpointSliceController) {
			c.nodeFuncs().Update(reconcile.Fresh, testNode("a", "z"), testNode("a", "z"))
		}, 0},
		"EPS-12: not ready": {func(c *endpointSliceController) {
			c.nodeFuncs().Update(reconcile.Fresh, testNode("a", "z"), unready(testNode("a", "z")))
		}, 1},
		"EPS-12, EPS-48: zone": {func(c *endpointSliceController) {
			c.nodeFuncs().Update(reconcile.Fresh, testNode("a", ""), testNode("a", "z"))
		}, 1},
		"EPS-80: of the control plane": updated(func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "" }, 1),
		"EPS-80: of a master":          updated(func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/master"] = "" }, 1),
		"EPS-80: another role":         updated(func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/worker"] = "" }, 0),
		"EPS-80: CPUs": updated(func(n *corev1.Node) {
			n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("8")
		}, 1),
		"EPS-80: as many CPUs": updated(func(n *corev1.Node) {
			n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("4000m")
		}, 0),
		"EPS-80: memory": updated(func(n *corev1.Node) {
			n.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("1Gi")
		}, 0),
	} {
		t.Run(name, func(t *testing.T) {
			c := newBench(t, defaults).c
			tc.notify(c)
			if s := c.topologyLoop.Inspect(); s.Depth != tc.want {
				t.Errorf("queue holds %d keys, want %d", s.Depth, tc.want)
			}
		})
	}
}

// Endpoints have the zone of their node, and the node has it later than the pods, or is seen later. Pins EPS-77.
func TestZonesQueueTheServicesOfPodsOnTheNode(t *testing.T) {
	zoned := func(zone string) *corev1.Node { return testNode("node-a", zone) }
	added := func(lane reconcile.Lane, node *corev1.Node) func(*endpointSliceController) {
		return func(c *endpointSliceController) { c.nodeFuncs().Add(lane, node) }
	}
	updated := func(old, node *corev1.Node) func(*endpointSliceController) {
		return func(c *endpointSliceController) { c.nodeFuncs().Update(reconcile.Fresh, old, node) }
	}
	for name, tc := range map[string]struct {
		notify func(*endpointSliceController)
		want   int
	}{
		"replayed":       {added(reconcile.Backlog, zoned("z")), 0},
		"added":          {added(reconcile.Fresh, zoned("z")), 1},
		"of another":     {added(reconcile.Fresh, testNode("node-b", "z")), 0},
		"zone":           {updated(zoned(""), zoned("z")), 1},
		"same zone":      {updated(zoned("z"), zoned("z")), 0},
		"without a zone": {updated(zoned("z"), zoned("")), 1},
		"deleted":        {func(c *endpointSliceController) { c.nodeFuncs().Delete(zoned("z")) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			stray := controllertest.Backend("n", "stray", 3)
			c := newBench(t, defaults, testService(), testPod(1), testPod(2), stray).begin(t).c
			tc.notify(c)
			if s := c.podLoop.Inspect(); s.Depth != tc.want {
				t.Errorf("queue holds %d changes, want %d", s.Depth, tc.want)
			}
		})
	}
}

func TestSliceNotifications(t *testing.T) {
	c := newBench(t, defaults).c
	funcs := c.sliceFuncs()
	funcs.Add(reconcile.Backlog, testSlice("s"))
	if !c.written.Tracker.Has(testSlice("s")) {
		t.Error("a replayed slice is not tracked")
	}
	funcs.Delete(testSlice("s"))
	if c.written.Tracker.Has(testSlice("s")) {
		t.Error("a deleted slice is tracked")
	}
	// No Service can be told from it, which must not end in a key.
	funcs.Add(reconcile.Fresh, testSlice("s", func(s *discoveryv1.EndpointSlice) { delete(s.Labels, discoveryv1.LabelServiceName) }))
	if s := c.serviceLoop.Inspect(); s.Depth != 0 {
		t.Errorf("queue holds %d keys: notifications of slices are never due at once", s.Depth)
	}
}

// Pins EPS-66.
func TestObservedWriteResumesTheServiceThatWaitsForIt(t *testing.T) {
	for name, notify := range map[string]func(*endpointSliceController){
		"created": func(c *endpointSliceController) { c.sliceFuncs().Add(reconcile.Fresh, testSlice("s")) },
		"updated": func(c *endpointSliceController) {
			c.sliceFuncs().Update(reconcile.Fresh, testSlice("s"), testSlice("s"))
		},
		"deleted": func(c *endpointSliceController) { c.sliceFuncs().Delete(testSlice("s")) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults)
			b.c.written.Tracker.Update(testSlice("s"))
			notify(b.c)
			if s := b.c.serviceLoop.Inspect(); s.Depth != 0 {
				t.Fatalf("queue holds %d keys although nothing waits", s.Depth)
			}
			b.c.written.Tracker.Update(testSlice("s"))
			if !b.c.written.Stale(b.Context(), web, nil) {
				t.Fatal("the cache is not stale")
			}
			notify(b.c)
			if s := b.c.serviceLoop.Inspect(); s.Depth != 1 {
				t.Errorf("queue holds %d keys, want the Service", s.Depth)
			}
		})
	}
}
