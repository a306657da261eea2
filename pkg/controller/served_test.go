package controller

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOffers(t *testing.T) {
	env := Env{Served: func() []*metav1.APIResourceList {
		return []*metav1.APIResourceList{
			{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod"}}},
			{GroupVersion: "not/a/version", APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget"}}},
			{GroupVersion: "a.io/v1", APIResources: []metav1.APIResource{{Name: "widgets/scale", Kind: "Scale"}, {Name: "widgets", Kind: "Widget"}}},
		}
	}}
	for name, tc := range map[string]struct {
		group, resource string
		want            bool
	}{
		"the core group":      {"", "pods", true},
		"a group":             {"a.io", "widgets", true},
		"another resource":    {"a.io", "gadgets", false},
		"of another group":    {"a.io", "pods", false},
		"a group without any": {"b.io", "widgets", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := env.Offers(tc.group, func(r *metav1.APIResource) bool { return r.Name == tc.resource }); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
