package instance

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/connection"
	"kcmd.dev/pkg/runtime/events"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
)

// What is built while a change is prepared, but does not belong to it, may outlive the change.
func TestWhoseCachesAreThoseOfAChange(t *testing.T) {
	b := &Builder{}
	next := supervisor.Spec{Term: 2}
	b.Offer(&Offer{
		Specs: map[string]supervisor.Spec{"changes": next},
		Whole: func(schema.GroupVersionResource) bool { return true },
	})
	for _, c := range []struct {
		controller string
		spec       supervisor.Spec
		want       bool
	}{
		{"changes", next, true},
		{"changes", supervisor.Spec{Term: 1}, false},
		{"stays", next, false},
	} {
		if got := b.whole(c.controller, c.spec) != nil; got != c.want {
			t.Errorf("%s in term %d: %t", c.controller, c.spec.Term, got)
		}
	}
	if b.Offer(nil); b.whole("changes", next) != nil {
		t.Error("the change is still offered")
	}
}

// until is a controller that runs until its context ends.
type until struct{}

func (until) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// An instance can be abandoned before the goroutine that runs it has begun. Pins MGR-180.
func TestAnInstanceThatBeginsAfterItWasClosedShowsNoMetrics(t *testing.T) {
	for name, closed := range map[string]bool{"before": true, "after": false} {
		t.Run(name, func(t *testing.T) {
			i := &instance{
				controller: until{}, connection: &connection.Connection{}, scope: informers.New(informers.Options{}).NewScope(informers.ScopeOptions{Name: "a"}),
				fence: clients.NewFence(), metrics: telemetry.NewRegistry(), recorder: &events.Recorder{},
				builder: &Builder{hub: telemetry.NewHub()},
			}
			if closed {
				i.Close()
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := i.Run(ctx, nil); (err != nil) != closed {
				t.Fatal(err)
			}
			if !closed {
				i.Close()
			}
			if n := i.builder.hub.Attached(); n != 0 {
				t.Errorf("the metrics of %d instances are shown", n)
			}
		})
	}
}
