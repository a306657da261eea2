package faults

import (
	"slices"
	"strings"
	"testing"

	kcmruntime "kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/pkg/runtime/supervisor"
)

func TestLeaks(t *testing.T) {
	reference := footprint{held: map[string]string{"pods": "2 handlers"}, registries: 2}
	for name, tc := range map[string]struct {
		run  footprint
		want []string
	}{
		"nothing":                 {footprint{held: map[string]string{"pods": "2 handlers"}, registries: 2}, nil},
		"nobody leads in the end": {footprint{}, nil},
		"a cache is not needed":   {footprint{held: map[string]string{}, registries: 2}, nil},
		"a handler":               {footprint{held: map[string]string{"pods": "3 handlers"}, registries: 2}, []string{`of the cache pods, the leader has 3 handlers, in the reference "2 handlers"`}},
		"a cache":                 {footprint{held: map[string]string{"pods": "2 handlers", "nodes": "1 handlers"}, registries: 2}, []string{`of the cache nodes, the leader has 1 handlers, in the reference ""`}},
		"metrics":                 {footprint{held: map[string]string{}, registries: 3}, []string{"the leader has 3 registries of metrics, in the reference 2"}},
		"what was left":           {footprint{left: []string{"goroutines"}}, []string{"goroutines"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := leaks(reference, tc.run); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWhatIsHeldOfCaches(t *testing.T) {
	s := kcmruntime.Status{Informers: []informers.Status{
		{Resource: "pods", Handlers: 2, Refs: 1, Scopes: []string{"a"}},
		{Resource: "nodes"},
	}}
	got := heldOf(&s)
	if len(got) != 1 || got["pods "] != "2 handlers for [a]" {
		t.Errorf("got %q", got)
	}
}

func TestFailuresOfInstances(t *testing.T) {
	s := kcmruntime.Status{Controllers: []supervisor.Status{{Name: "a", Abandoned: 1}, {Name: "b", HandOverError: "panic"}, {Name: "c"}}}
	want := []string{"1 instances of a did not stop", "b handed nothing over: panic"}
	if got := failuresOf(&s); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestPanicsInALog(t *testing.T) {
	log := "all is well\nE Reconcile failed err=\"panic: nil\"\nE Observed a panic\n"
	if got := panicsIn(strings.NewReader(log)); len(got) != 2 {
		t.Errorf("got %q", got)
	}
}

func TestGoroutinesThatLinger(t *testing.T) {
	stacks := map[string]int{"a < b": 2, "k8s.io/klog/v2.(*flushDaemon).run < c": 1}
	want := []string{"2 goroutines are left: a < b"}
	if got := lingers(stacks); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
