package clusterroleaggregation

import (
	"errors"
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// A change reaches the roles that select the labels before or after it. Pins AGG-25 and AGG-26.
func TestChangesOfSourcesReachTheRolesThatSelectThem(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *controllertest.Env){
		"a source is created": func(t *testing.T, env *controllertest.Env) {
			create(t, env, labelled(role("new", on("nodes", "get")), "to", "edit"))
		},
		"a source is deleted": func(t *testing.T, env *controllertest.Env) {
			if err := env.Fake.RbacV1().ClusterRoles().Delete(t.Context(), "source", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		},
		"a source has other rules": func(t *testing.T, env *controllertest.Env) {
			update(t, env, labelled(role("source", on("nodes", "get")), "to", "edit"))
		},
		"a source loses its label": func(t *testing.T, env *controllertest.Env) {
			update(t, env, role("source", on("pods", "get")))
		},
		"another role gets the label": func(t *testing.T, env *controllertest.Env) {
			update(t, env, labelled(role("other", on("nodes", "get")), "to", "edit"))
		},
		"the role has other rules": func(t *testing.T, env *controllertest.Env) {
			r := aggregating("edit", matching("to", "edit"))
			r.Rules = []rbacv1.PolicyRule{on("nodes", "get")}
			update(t, env, r)
		},
		"the role has another selector": func(t *testing.T, env *controllertest.Env) {
			r := aggregating("edit", matching("to", "nothing"))
			r.Rules = []rbacv1.PolicyRule{on("pods", "get")}
			update(t, env, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			edit := aggregating("edit", matching("to", "edit"))
			edit.Rules = []rbacv1.PolicyRule{on("pods", "get")}
			env, a := start(t, edit, labelled(role("source", on("pods", "get")), "to", "edit"), role("other", on("nodes", "get")))
			env.Run(t, a)
			controllertest.Eventually(t, "the first reconcile", func() bool { return a.loop.Inspect().Reconciled >= 1 })
			change(t, env)
			controllertest.Eventually(t, "the rules are applied", func() bool {
				for _, action := range env.Writes() {
					if action.GetVerb() == "patch" {
						return true
					}
				}
				return false
			})
		})
	}
}

// What is forbidden is tried again once the role of the controller changes, and not after its backoff. Pins AGG-26.
func TestARoleThatMayBeWrittenNowIsTriedAgain(t *testing.T) {
	env, a := start(t, aggregating("edit", matching("to", "edit")), labelled(role("source", on("pods", "get")), "to", "edit"), role(ownRole))
	allow := env.Refuse("patch clusterroles edit", errors.New("forbidden"))
	env.Run(t, a)
	env.EventuallyAsTimePasses(t, "it has failed often", time.Second, func() bool { return a.loop.Retries("edit") >= 15 }) // the next is in 80 s
	allow()
	env.AwaitIdle(t)
	env.Fake.ClearActions()
	changed := env.Clock.Now()
	update(t, env, role(ownRole, on("clusterroles", "escalate")))
	env.EventuallyAsTimePasses(t, "it is written", 100*time.Millisecond, func() bool {
		return env.Clock.Since(changed) < 30*time.Second && slices.Contains(env.WriteVerbs(), "patch")
	})
}

func create(t *testing.T, env *controllertest.Env, r *rbacv1.ClusterRole) {
	t.Helper()
	if _, err := env.Fake.RbacV1().ClusterRoles().Create(t.Context(), r, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func update(t *testing.T, env *controllertest.Env, r *rbacv1.ClusterRole) {
	t.Helper()
	if _, err := env.Fake.RbacV1().ClusterRoles().Update(t.Context(), r, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// What concerns no role that aggregates queues nothing. Pins AGG-26.
func TestChangesThatConcernNoAggregateQueueNothing(t *testing.T) {
	_, a := start(t, aggregating("edit", matching("to", "edit")), labelled(role("source", on("pods", "get")), "to", "edit"))
	before := a.loop.Inspect().Depth
	source := labelled(role("source", on("pods", "get")), "to", "edit")
	annotated := source.DeepCopy()
	annotated.Annotations = map[string]string{"a": "b"}
	a.updated(reconcile.Fresh, source, annotated)
	a.updated(reconcile.Fresh, role("other"), role("other", on("pods", "get")))
	if got := a.loop.Inspect().Depth; got != before {
		t.Errorf("%d keys were queued", got-before)
	}
}
