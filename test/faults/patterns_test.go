package faults

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/faults/results"
)

// The patterns of faults at writes, and of those of caches.
var (
	atWrites = []string{
		"killed before", "killed after", "restarted", "off and on", "handed over",
		"answer lost", "conflict", "invalid", "forbidden", "too many requests", "internal error", "denied by a webhook",
	}
	ofCaches = []string{"behind", "unobserved", "restarted in the past", "taken over behind"}
)

// Every write meets every pattern, and so does every kind in every step; each fault can be told by its name.
func TestEveryFaultIsListed(t *testing.T) {
	s := &Scenario{Controllers: replicaSet().Controllers, Steps: make([]Step, 2)}
	pod := write{verb: "create", resource: schema.GroupResource{Resource: "pods"}}
	reference := outcome{
		writes: []write{pod, {verb: "update", resource: schema.GroupResource{Group: "apps", Resource: "replicasets"}, subresource: "status"}, pod},
		reads:  []string{"pods", "replicasets.apps"},
	}
	names := map[string]bool{}
	patterns := map[string]int{}
	for _, f := range faultsOf(s, reference) {
		if names[f.name()] {
			t.Errorf("there are two %s", f.name())
		}
		names[f.name()] = true
		patterns[f.pattern]++
	}
	for _, pattern := range atWrites {
		if patterns[pattern] != 3 {
			t.Errorf("%s: %d faults for three writes", pattern, patterns[pattern])
		}
	}
	for _, pattern := range ofCaches {
		if patterns[pattern] != 4 {
			t.Errorf("%s: %d faults for two kinds in two steps", pattern, patterns[pattern])
		}
	}
	for _, name := range []string{"killed-after/create-pods-1", "killed-after/create-pods-2", "behind/replicasets.apps-in-step-2", "conflict/update-replicasets-status-1"} {
		if !names[name] {
			t.Errorf("there is no %s", name)
		}
	}
}

// Every pattern is in a family, in which it is counted.
func TestEveryPatternIsInAFamily(t *testing.T) {
	var inFamilies []string
	for _, family := range results.Families() {
		inFamilies = append(inFamilies, family.Patterns...)
	}
	patterns := slices.Concat(atWrites, ofCaches)
	slices.Sort(inFamilies)
	slices.Sort(patterns)
	if !slices.Equal(inFamilies, patterns) {
		t.Errorf("in families are %q, want %q", inFamilies, patterns)
	}
}

// The sample has faults of every pattern, and of every scenario.
func TestTheSampleIsSpread(t *testing.T) {
	patterns, scenarios := map[string]bool{}, map[string]bool{}
	for _, s := range Scenarios() {
		scenarios[s.Name] = true
		if len(sample[s.Name]) == 0 {
			t.Errorf("the sample has no fault of %s", s.Name)
		}
	}
	for name, faults := range sample {
		if !scenarios[name] {
			t.Errorf("there is no scenario %s", name)
		}
		for _, f := range faults {
			pattern, _, _ := strings.Cut(f, "/")
			patterns[strings.ReplaceAll(pattern, "-", " ")] = true
		}
	}
	for _, pattern := range slices.Concat(atWrites, ofCaches) {
		if !patterns[pattern] {
			t.Errorf("the sample has no fault of the pattern %q", pattern)
		}
	}
}
