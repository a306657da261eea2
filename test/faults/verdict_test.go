package faults

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestJudge(t *testing.T) {
	scenario := &Scenario{AtMost: map[string]int{"pods/web-*": 2}, Spare: map[string]int{"pods/spare-*": 1}}
	updates := func(n int) []write {
		return slices.Repeat([]write{{verb: "update", resource: schema.GroupResource{Resource: "pods"}}}, n)
	}
	reference := outcome{
		history: history{created: map[string]int{"pods/web-*": 2}, deleted: map[string]int{"pods/web-*": 1}, most: map[string]int{"pods/web-*": 2}},
		writes:  updates(2),
		final:   state{{"pods/web-*", `"a"`}, {"pods/web-*", `"b"`}},
	}
	for name, c := range map[string]struct {
		change func(*outcome)
		want   []string
	}{
		"nothing else happened": {func(*outcome) {}, nil},
		"fewer writes and deletions": {func(o *outcome) {
			o.writes, o.deleted = nil, nil
		}, nil},
		"another state": {func(o *outcome) {
			o.final = state{{"pods/web-*", `"a"`}, {"pods/web-*", `"c"`}}
		}, []string{`pods/web-* differs:  is "c" instead of "b"`}},
		"an object twice": {func(o *outcome) {
			o.final = state{{"pods/web-*", `"a"`}, {"pods/web-*", `"b"`}, {"pods/web-*", `"b"`}}
		}, []string{`too much: pods/web-* "b"`}},
		"an object less": {func(o *outcome) { o.final = state{{"pods/web-*", `"b"`}} }, []string{`missing: pods/web-* "a"`}},
		"created and deleted beyond the reference": {func(o *outcome) {
			o.created, o.deleted = map[string]int{"pods/web-*": 3}, map[string]int{"pods/web-*": 2, "pods/kept": 1}
		}, []string{"1 pods/kept were deleted, in the reference 0", "2 pods/web-* were deleted, in the reference 1", "3 pods/web-* were created, in the reference 2"}},
		"spare ones": {func(o *outcome) {
			o.created, o.deleted = map[string]int{"pods/spare-*": 1}, map[string]int{"pods/spare-*": 1}
		}, nil},
		"more than spare ones": {func(o *outcome) {
			o.created = map[string]int{"pods/spare-*": 2}
		}, []string{"2 pods/spare-* were created, in the reference 0"}},
		"too many at the same time": {func(o *outcome) {
			o.most = map[string]int{"pods/web-*": 3}
		}, []string{"3 pods/web-* existed at the same time, at most 2 may"}},
		"three times the writes":           {func(o *outcome) { o.writes = updates(6) }, nil},
		"more than three times the writes": {func(o *outcome) { o.writes = updates(7) }, []string{"7 writes were sent, 2 in the reference"}},
		"no end":                           {func(o *outcome) { o.unrest = "it goes on" }, []string{"it goes on"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := reference
			c.change(&o)
			if got := judge(scenario, reference, o); !slices.Equal(got, c.want) {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}
