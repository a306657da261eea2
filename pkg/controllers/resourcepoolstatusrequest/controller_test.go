package resourcepoolstatusrequest

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func TestWhatIsQueued(t *testing.T) {
	other := slice("p", 1, 1, 1, func(s *resourcev1.ResourceSlice) { s.Spec.Driver = "other.example.com" })
	for name, tc := range map[string]struct {
		cached runtime.Object
		event  func(requests, slices cache.ResourceEventHandler)
		want   int
	}{
		"RPSR-4: added":                {request(), func(r, _ cache.ResourceEventHandler) { r.OnAdd(request(), false) }, 1},
		"RPSR-4, RPSR-29: replayed":    {request(), func(r, _ cache.ResourceEventHandler) { r.OnAdd(request(), true) }, 1},
		"RPSR-4: added with an answer": {request(), func(r, _ cache.ResourceEventHandler) { r.OnAdd(request(answered()), false) }, 0},
		"RPSR-4: updated or resynced":  {request(), func(r, _ cache.ResourceEventHandler) { r.OnUpdate(request(), request()) }, 1},
		"RPSR-4: answered":             {request(), func(r, _ cache.ResourceEventHandler) { r.OnUpdate(request(), request(answered())) }, 0},
		"RPSR-4: deleted":              {request(), func(r, _ cache.ResourceEventHandler) { r.OnDelete(request()) }, 0},
		"RPSR-31: a slice":             {request(), func(_, s cache.ResourceEventHandler) { s.OnAdd(slice("p", 1, 1, 1), false) }, 1},
		"RPSR-31: a slice changes":     {request(), func(_, s cache.ResourceEventHandler) { s.OnUpdate(slice("p", 1, 2, 1), slice("p", 1, 1, 1)) }, 1},
		"RPSR-31: a slice that was of the driver, and is recreated": {request(), func(_, s cache.ResourceEventHandler) { s.OnUpdate(slice("p", 1, 1, 1), other) }, 1},
		"RPSR-31: a slice goes":                 {request(), func(_, s cache.ResourceEventHandler) { s.OnDelete(slice("p", 1, 1, 1)) }, 1},
		"RPSR-31: a slice of another driver":    {request(), func(_, s cache.ResourceEventHandler) { s.OnAdd(other, false) }, 0},
		"RPSR-31: a slice, and an answer is in": {request(answered()), func(_, s cache.ResourceEventHandler) { s.OnAdd(slice("p", 1, 1, 1), false) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := fixture(t, tc.cached)
			requests, slices := &controllertest.Captured{}, &controllertest.Captured{}
			c.watch(requests, slices)
			tc.event(requests.Handler, slices.Handler)
			if depth := c.loop.Inspect().Depth; depth != tc.want {
				t.Errorf("%d keys are queued, want %d", depth, tc.want)
			}
		})
	}
}

// Pins RPSR-1, RPSR-2, RPSR-3 and RPSR-34.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if enabled, why := d.Enabled(cfg); enabled || why != "needs the feature gate DRAResourcePoolStatus" {
		t.Errorf("enabled %v: %s", enabled, why)
	}
	cfg.FeatureGates = map[string]bool{"DRAResourcePoolStatus": true}
	if enabled, why := d.Enabled(cfg); !enabled {
		t.Error(why)
	}
	if d.Name != "resourcepoolstatusrequest-controller" || len(d.Aliases) != 0 || d.ServiceAccount != "resourcepoolstatusrequest-controller" || d.EventSource != "" ||
		d.Requires[0].String() != "resource.k8s.io/v1alpha3, Resource=resourcepoolstatusrequests" {
		t.Errorf("%+v", d)
	}
	c := must.Get(d.New(controllertest.New(t).Env, d.Value(cfg)))(t)
	if s := c.(*statusController).loop.Inspect(); s.Workers != 1 || s.Queue != "resourcepoolstatusrequest" {
		t.Errorf("loop: %+v", s)
	}
}
