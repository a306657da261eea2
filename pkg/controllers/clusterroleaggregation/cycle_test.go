package clusterroleaggregation

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Roles that aggregate one another are reconciled at the same time, again and again, each time before the caches show
// what was written. Each is written once, and a rule that no source has any more goes.
func TestRolesThatAggregateOneAnother(t *testing.T) {
	pods, nodes, secrets := on("pods", "get"), on("nodes", "get"), on("secrets", "get")
	with := func(r *rbacv1.ClusterRole, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		r.Rules = rules
		return r
	}
	sources := []runtime.Object{labelled(role("s", pods), "to", "a"), labelled(role("t", nodes), "to", "b")}
	for name, test := range map[string]struct {
		aggregating []*rbacv1.ClusterRole
		want        map[string][]rbacv1.PolicyRule
	}{
		"AGG-31: two without rules": {
			[]*rbacv1.ClusterRole{
				labelled(aggregating("a", matching("to", "a")), "to", "b"),
				labelled(aggregating("b", matching("to", "b")), "to", "a"),
			},
			map[string][]rbacv1.PolicyRule{"a": {nodes, pods}, "b": {pods, nodes}},
		},
		"AGG-31: a rule that somebody gave one of them": {
			[]*rbacv1.ClusterRole{
				with(labelled(aggregating("a", matching("to", "a")), "to", "b"), nodes, pods, secrets),
				with(labelled(aggregating("b", matching("to", "b")), "to", "a"), pods, nodes),
			},
			map[string][]rbacv1.PolicyRule{"a": {nodes, pods}, "b": {pods, nodes}},
		},
		"AGG-31: a rule that their source had once": {
			[]*rbacv1.ClusterRole{
				with(labelled(aggregating("a", matching("to", "a")), "to", "b"), nodes, pods, secrets),
				with(labelled(aggregating("b", matching("to", "b")), "to", "a"), secrets, pods, nodes),
			},
			map[string][]rbacv1.PolicyRule{"a": {nodes, pods}, "b": {pods, nodes}},
		},
		"AGG-31: a ring of three, the rules of one in another order": {
			[]*rbacv1.ClusterRole{
				with(labelled(aggregating("a", matching("to", "a")), "to", "c"), pods, nodes),
				with(labelled(aggregating("b", matching("to", "b")), "to", "a"), nodes, pods),
				with(labelled(aggregating("c", matching("to", "c")), "to", "b"), pods, nodes),
			},
			map[string][]rbacv1.PolicyRule{"a": {nodes, pods}, "b": {pods, nodes}, "c": {nodes, pods}},
		},
		"AGG-12, AGG-31: a role that aggregates them and is not one of them": {
			[]*rbacv1.ClusterRole{
				labelled(aggregating("a", matching("to", "a")), "to", "b"),
				labelled(aggregating("b", matching("to", "b")), "to", "a"),
				with(aggregating("outside", matching("to", "a")), secrets),
			},
			map[string][]rbacv1.PolicyRule{"a": {nodes, pods}, "b": {pods, nodes}, "outside": {pods, nodes}},
		},
		"AGG-12: a role that aggregates one that aggregates": {
			[]*rbacv1.ClusterRole{
				with(labelled(aggregating("a", matching("to", "a")), "to", "x"), secrets),
				aggregating("x", matching("to", "x")),
			},
			map[string][]rbacv1.PolicyRule{"a": {pods}, "x": {pods}},
		},
		"AGG-9b, AGG-31: a role that selects itself": {
			[]*rbacv1.ClusterRole{with(labelled(aggregating("a", matching("to", "a")), "to", "a"), secrets)},
			map[string][]rbacv1.PolicyRule{"a": {pods}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append([]runtime.Object{}, sources...)
			for _, r := range test.aggregating {
				objects = append(objects, r)
			}
			env := controllertest.New(t, objects...)
			a := must.Get(newAggregator(env.Env))(t)
			const rounds = 5
			for round := range rounds {
				env.CatchUp(t, &rbacv1.ClusterRole{})
				for _, r := range test.aggregating {
					must.Succeed(t, a.reconcile(env.Context(), r.Name))
				}
				if got := patched(env); round == rounds-1 && len(got) > 0 {
					t.Errorf("after %d rounds they are still written: %v", round, env.Requests())
				}
			}
			got := map[string][]rbacv1.PolicyRule{}
			for _, r := range test.aggregating {
				got[r.Name] = controllertest.MustStored[*rbacv1.ClusterRole](t, env, "", r.Name).Rules
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
}

// A change of a source reaches all that aggregate one another, and then nothing is left to do. Pins AGG-31.
func TestRolesThatAggregateOneAnotherFollowTheirSources(t *testing.T) {
	pods, nodes, secrets := on("pods", "get"), on("nodes", "get"), on("secrets", "get")
	env, a := start(t,
		labelled(aggregating("a", matching("to", "a")), "to", "c"),
		labelled(aggregating("b", matching("to", "b")), "to", "a"),
		labelled(aggregating("c", matching("to", "c")), "to", "b"),
		labelled(role("s", pods), "to", "a"), labelled(role("t", nodes), "to", "b"),
	)
	have := func(what string, a, b, c []rbacv1.PolicyRule) {
		t.Helper()
		controllertest.Eventually(t, what, func() bool {
			for name, want := range map[string][]rbacv1.PolicyRule{"a": a, "b": b, "c": c} {
				if got := controllertest.MustStored[*rbacv1.ClusterRole](t, env, "", name).Rules; !cmp.Equal(got, want) {
					return false
				}
			}
			return true
		})
		env.AwaitIdle(t)
	}
	env.Run(t, a)
	have("they have the rules of both sources",
		[]rbacv1.PolicyRule{nodes, pods}, []rbacv1.PolicyRule{pods, nodes}, []rbacv1.PolicyRule{nodes, pods})
	update(t, env, labelled(role("s", secrets), "to", "a"))
	have("the rule that a source lost is gone",
		[]rbacv1.PolicyRule{nodes, secrets}, []rbacv1.PolicyRule{secrets, nodes}, []rbacv1.PolicyRule{nodes, secrets})
	update(t, env, role("t", nodes))
	have("a source that is not selected any more does not count",
		[]rbacv1.PolicyRule{secrets}, []rbacv1.PolicyRule{secrets}, []rbacv1.PolicyRule{secrets})
	update(t, env, labelled(role("t", nodes), "to", "b"))
	update(t, env, labelled(controllertest.MustStored[*rbacv1.ClusterRole](t, env, "", "c").DeepCopy(), "to", "nothing"))
	have("the ring is broken",
		[]rbacv1.PolicyRule{nodes, secrets}, []rbacv1.PolicyRule{nodes}, []rbacv1.PolicyRule{nodes, secrets})
}

// Whether the rules of a source count, or those of its sources, may change with its aggregationRule alone. Pins AGG-31.
func TestARoleThatAggregatesNoMoreCountsWithItsRules(t *testing.T) {
	b := labelled(aggregating("b", matching("to", "b")), "to", "a")
	b.Rules = []rbacv1.PolicyRule{on("secrets", "get")}
	env, a := start(t, labelled(aggregating("a", matching("to", "a")), "to", "b"), b)
	plain := b.DeepCopy()
	plain.AggregationRule = nil
	// Before b is written, which would have removed its rules.
	env.Refuse("patch clusterroles b", errors.New("outage"))
	env.Run(t, a)
	controllertest.Eventually(t, "both were looked at", func() bool {
		return a.loop.Retries("b") > 0 && a.loop.Inspect().Reconciled >= 2
	})
	update(t, env, plain)
	controllertest.Eventually(t, "what aggregates it has its rules", func() bool {
		return cmp.Equal(controllertest.MustStored[*rbacv1.ClusterRole](t, env, "", "a").Rules, b.Rules)
	})
}
