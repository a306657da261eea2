package clusterroleaggregation

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
