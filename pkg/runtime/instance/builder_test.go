package instance

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/runtime/supervisor"
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
