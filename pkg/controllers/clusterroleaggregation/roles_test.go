package clusterroleaggregation

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func matching(pairs ...string) metav1.LabelSelector {
	s := metav1.LabelSelector{MatchLabels: map[string]string{}}
	for n := 0; n < len(pairs); n += 2 {
		s.MatchLabels[pairs[n]] = pairs[n+1]
	}
	return s
}

func where(key string, operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

func TestSelectorsFindRolesByALabelIfTheyRequireOne(t *testing.T) {
	for name, test := range map[string]struct {
		selector metav1.LabelSelector
		want     string
	}{
		"a pair":             {selector: matching("a", "1"), want: "a=1"},
		"one of two pairs":   {selector: matching("a", "1", "b", "2"), want: "a=1"},
		"in one value":       {selector: where("a", metav1.LabelSelectorOpIn, "1"), want: "a=1"},
		"in several values":  {selector: where("a", metav1.LabelSelectorOpIn, "1", "2")},
		"not in":             {selector: where("a", metav1.LabelSelectorOpNotIn, "1")},
		"exists":             {selector: where("a", metav1.LabelSelectorOpExists)},
		"AGG-12: everything": {},
	} {
		t.Run(name, func(t *testing.T) {
			selector, err := metav1.LabelSelectorAsSelector(&test.selector)
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := requiredLabel(selector); got != test.want || ok != (test.want != "") {
				t.Errorf("got %q, %t, want %q", got, ok, test.want)
			}
		})
	}
}

func TestSelects(t *testing.T) {
	for name, test := range map[string]struct {
		selectors []metav1.LabelSelector
		sets      []labels.Set
		want      bool
	}{
		"labels match":        {[]metav1.LabelSelector{matching("a", "1")}, []labels.Set{{"a": "1", "b": "2"}}, true},
		"labels do not match": {[]metav1.LabelSelector{matching("a", "1")}, []labels.Set{{"a": "2"}}, false},
		"former labels match": {[]metav1.LabelSelector{matching("a", "1")}, []labels.Set{{"a": "1"}, nil}, true},
		"second selector":     {[]metav1.LabelSelector{matching("a", "1"), matching("b", "2")}, []labels.Set{{"b": "2"}}, true},
		"AGG-12: everything":  {[]metav1.LabelSelector{{}}, []labels.Set{nil}, true},
		"AGG-9a: invalid":     {[]metav1.LabelSelector{where("a", "Like")}, []labels.Set{nil}, true},
		"labels are none":     {[]metav1.LabelSelector{matching("name", "a")}, []labels.Set{{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := selects(&rbacv1.AggregationRule{ClusterRoleSelectors: test.selectors}, test.sets); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

// What an event costs does not depend on how many roles aggregate others. Pins AGG-26.
func TestAnEventDoesNotCostMoreTheMoreRolesAggregateOthers(t *testing.T) {
	cost := func(others int) float64 {
		env := controllertest.New(t)
		a := must.Get(newAggregator(env.Env))(t)
		for n := range others {
			to := fmt.Sprint(n)
			env.Cache(t, aggregating("other-"+to, matching("to", to), matching("and", "another", "to", to)))
		}
		env.Cache(t, aggregating("edit", matching("to", "edit")))
		old := labelled(role("source"), "to", "edit", "a", "b")
		role := labelled(role("source", on("pods", "get")), "to", "edit", "a", "b")
		return testing.AllocsPerRun(10, func() { a.updated(reconcile.Fresh, old, role) })
	}
	if few, many := cost(10), cost(500); many > 2*few {
		t.Errorf("an event makes %v allocations with 10 others, and %v with 500", few, many)
	}
}

func TestARoleIsFoundByTheLabelsThatItSelects(t *testing.T) {
	type selectors = []metav1.LabelSelector
	type sets = []labels.Set
	to := map[string]string{"to": "edit"}
	for name, test := range map[string]struct {
		selectors selectors
		sets      sets
		want      bool
	}{
		"AGG-26: one label":             {selectors{matching("to", "edit")}, sets{to}, true},
		"AGG-26: another one":           {selectors{matching("to", "view")}, sets{to}, false},
		"AGG-26: two labels":            {selectors{matching("a", "1", "to", "edit")}, sets{{"a": "1", "to": "edit"}}, true},
		"AGG-26: one of two is missing": {selectors{matching("a", "1", "to", "edit")}, sets{to}, false},
		"AGG-26: each in one version":   {selectors{matching("a", "1", "to", "edit")}, sets{{"a": "1"}, to}, false},
		"AGG-26: the former labels":     {selectors{matching("to", "edit")}, sets{to, nil}, true},
		"AGG-26: the second selector":   {selectors{matching("to", "view"), matching("to", "edit")}, sets{to}, true},
		"AGG-26: one of many values":    {selectors{where("to", metav1.LabelSelectorOpIn, "edit", "view")}, sets{to}, true},
		"AGG-26: any value":             {selectors{where("to", metav1.LabelSelectorOpExists)}, sets{to}, true},
		"AGG-26: no such label":         {selectors{where("a", metav1.LabelSelectorOpDoesNotExist)}, sets{to}, true},
		"AGG-12, AGG-26: everything":    {selectors{{}}, sets{nil}, true},
		"AGG-9a, AGG-26: invalid":       {selectors{where("a", "Like")}, sets{nil}, true},
		"AGG-26: nothing":               {nil, sets{to}, false},
	} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t)
			a := must.Get(newAggregator(env.Env))(t)
			env.Cache(t, aggregating("edit", test.selectors...), role("plain"))
			if got := must.Get(a.roles.aggregatesOf(test.sets))(t); len(got) > 0 != test.want {
				t.Errorf("got %v, want %t", controllertest.Names(got), test.want)
			}
		})
	}
}
