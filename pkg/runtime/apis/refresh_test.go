package apis

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds are mapped by what was discovered last: at the start, and every 30 s from then on. Pins MGR-62.
func TestTheMapperFollowsDiscovery(t *testing.T) {
	f := follow(t)
	maps := func(r schema.GroupVersionResource) bool {
		t.Helper()
		// Not by its kind, which would be looked for before the period is over.
		kind, err := f.view.Load().mapper.KindFor(r)
		if err != nil && !meta.IsNoMatchError(err) {
			t.Error(err)
		}
		return kind.Kind == "Kind"
	}
	changes := func() {
		t.Helper()
		select {
		case <-f.Changed():
		case <-time.After(time.Minute):
			t.Fatal("nothing changed")
		}
	}
	f.asks()
	changes()
	if !maps(deployments) || maps(widgets) {
		t.Error("at the start, something else is mapped than what is served")
	}

	f.server.serve(widgets)
	f.step(suspectPause)
	f.step(refreshPeriod - suspectPause - time.Millisecond)
	select {
	case <-f.server.asked:
		t.Error("the API server is asked before the period is over")
	default:
	}
	if !maps(deployments) || maps(widgets) {
		t.Error("the API server is asked for each kind")
	}
	f.step(time.Millisecond)
	f.asks()
	changes()
	if maps(deployments) || !maps(widgets) {
		t.Error("what was discovered anew is not what is mapped")
	}
}
