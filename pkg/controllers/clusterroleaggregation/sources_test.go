package clusterroleaggregation

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// An API server whose watch cache has lost a role sends lists without it. Pins AGG-32.
func TestASourceThatTheCacheLacksKeepsItsRules(t *testing.T) {
	edit := aggregating("edit", matching("to", "edit"))
	edit.Rules = []rbacv1.PolicyRule{on("pods", "get"), on("nodes", "get")}
	lacking := labelled(role("b", on("nodes", "get")), "to", "edit")
	for name, test := range map[string]struct {
		source *rbacv1.ClusterRole // the other one
		want   [][]rbacv1.PolicyRule
	}{
		"AGG-32: the other source is as it was": {source: role("a", on("pods", "get"))},
		"AGG-32: the other source has changed": {
			source: role("a", on("pods", "list")),
			want:   [][]rbacv1.PolicyRule{{on("pods", "list"), on("nodes", "get")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			source := labelled(test.source, "to", "edit")
			env := controllertest.New(t, edit, source, lacking)
			a := must.Get(newAggregator(env.Env))(t)
			queue := &controllertest.Queue[string]{}
			a.queue = queue
			env.Cache(t, edit, source)
			must.Succeed(t, a.reconcile(env.Context(), "edit"))
			var rules [][]rbacv1.PolicyRule
			for _, body := range applied(t, env) {
				rules = append(rules, body.Rules)
			}
			if diff := cmp.Diff(test.want, rules); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if delay := queue.TakeDelay("edit"); delay != reconcile.RecheckAfter {
				t.Errorf("it is looked at again after %v: a change of what the cache lacks may come without its old labels", delay)
			}
		})
	}
}

// Pins AGG-32.
func TestWithoutTheLiveSourcesNothingIsApplied(t *testing.T) {
	env, a := start(t, aggregating("edit", matching("to", "edit")), labelled(role("a", on("pods", "get")), "to", "edit"))
	env.Refuse("list clusterroles", errors.New("boom"))
	if err := a.reconcile(env.Context(), "edit"); err == nil || len(env.Writes()) > 0 {
		t.Errorf("got %v, requests %v", err, env.Requests())
	}
}

// Two roles aggregate each other. The sources of the one that is read second cannot be listed: what it has now does not
// stand for them. Pins AGG-32.
func TestWithoutTheLiveSourcesOfASourceNothingIsApplied(t *testing.T) {
	env, a := start(t,
		labelled(aggregating("a", matching("to", "a")), "to", "b"), labelled(aggregating("b", matching("to", "b")), "to", "a"),
		labelled(role("x", on("pods", "get")), "to", "a"), labelled(role("y", on("nodes", "get")), "to", "b"))
	env.Intercept("list clusterroles", func(action clienttesting.Action) error {
		if action.(clienttesting.ListAction).GetListRestrictions().Labels.String() == "to=b" {
			return errors.New("boom")
		}
		return nil
	})
	if err := a.reconcile(env.Context(), "a"); err == nil || len(env.Writes()) > 0 {
		t.Errorf("got %v, requests %v", err, env.Requests())
	}
}
