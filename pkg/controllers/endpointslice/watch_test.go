package endpointslice

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func TestNodeNotifications(t *testing.T) {
	unready := func(n *corev1.Node) *corev1.Node {
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
		return n
	}
	for name, tc := range map[string]struct {
		notify func(*endpointSliceController)
		want   int
	}{
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
