package clusterroleaggregation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// role makes a role. Its UID is its name.
func role(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Rules: rules}
}

func on(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{""}, Resources: []string{resource}}
}

func TestAggregate(t *testing.T) {
	type selected = []*rbacv1.ClusterRole
	tests := map[string]struct {
		sources []selected
		want    []rbacv1.PolicyRule
	}{
		"AGG-9: no source": {sources: []selected{nil}},
		"AGG-9b, AGG-17: sources of a selector by name": {
			sources: []selected{{role("b", on("pods", "get")), role("a", on("nodes", "get"))}},
			want:    []rbacv1.PolicyRule{on("nodes", "get"), on("pods", "get")},
		},
		"AGG-9: selectors before names": {
			sources: []selected{{role("b", on("pods", "get"))}, {role("a", on("nodes", "get"))}},
			want:    []rbacv1.PolicyRule{on("pods", "get"), on("nodes", "get")},
		},
		"AGG-9b: not the role itself": {
			sources: []selected{{role("self", on("pods", "get")), role("a", on("nodes", "get"))}},
			want:    []rbacv1.PolicyRule{on("nodes", "get")},
		},
		"AGG-9c: equal rules once, nil and empty lists being equal": {
			sources: []selected{{
				role("a", rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/x"}, Resources: []string{}}),
				role("b", rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/x"}}),
			}},
			want: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/x"}, Resources: []string{}}},
		},
		"AGG-9c: the order within a list counts": {
			sources: []selected{{role("a", on("pods", "get", "list"), on("pods", "list", "get"))}},
			want:    []rbacv1.PolicyRule{on("pods", "get", "list"), on("pods", "list", "get")},
		},
		"AGG-12: rules are not merged, and a source selected twice counts where it is first": {
			sources: []selected{{role("b", on("pods", "get"))}, {role("a", on("pods", "list")), role("b", on("pods", "get"))}},
			want:    []rbacv1.PolicyRule{on("pods", "get"), on("pods", "list")},
		},
		"AGG-9c: what is in one list is not taken for another": {
			sources: []selected{{
				role("a", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"a"}}),
				role("b", rbacv1.PolicyRule{Verbs: []string{"get", "a"}}),
			}},
			want: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"a"}}, {Verbs: []string{"get", "a"}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, aggregate("self", network{"self": test.sources})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
