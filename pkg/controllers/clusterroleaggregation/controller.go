// Package clusterroleaggregation gives ClusterRoles with an aggregationRule the rules of the
// ClusterRoles that it selects. That is how admin, edit and view get theirs.
//
// The model, in rules:
//
//  1. The rules of a role are those of its sources: for each of its selectors in order, the
//     roles with matching labels, by name. A rule that equals an earlier one is left out.
//     Instead of the rules of a source that aggregates the role in turn, those of its sources count.
//  2. A role that has these rules already is not written. Otherwise its sources are listed from the
//     API server: the cache proves no absence, and a role would lose the rules of a source that it
//     lacks. The rules are applied with a forced server-side apply, which removes rules that others
//     added. It carries the UID of the role, so that it creates none.
//  3. A change of a role, also into another one of its name, reconciles the role itself and the
//     roles that select its labels, the old or the new ones. Both are found through indexes.
//  4. A role that aggregates may be the source of another one. The event of the write brings
//     that one up to date.
//
// Behaviour: docs/specs/clusterrole-aggregation-controller.md.
package clusterroleaggregation

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	controllerName = "clusterrole-aggregation-controller"
	workers        = 5
	// ownRole is the role of the controller's service account.
	ownRole = "system:controller:" + controllerName
)

// Descriptor describes clusterrole-aggregation-controller.
func Descriptor() controller.Descriptor {
	return controller.DescribeFixed(controller.Descriptor{
		Name:           controllerName,
		Aliases:        []string{"clusterrole-aggregation"},
		ServiceAccount: controllerName,
		ClusterScoped:  true,
		Requires:       []schema.GroupVersionResource{rbacv1.SchemeGroupVersion.WithResource("clusterroles")},
	}, newAggregator)
}

type aggregator struct {
	controller.Env
	roles roles
	queue reconcile.Queue[string] // the loop, except in tests
	loop  *reconcile.Loop[string]
}

func newAggregator(env controller.Env) (*aggregator, error) {
	informer := env.Informers.Rbac().V1().ClusterRoles().Informer()
	a := &aggregator{Env: env, roles: newRoles(informer)}
	a.loop = reconcile.New(env, reconcile.Options[string]{Queue: "ClusterRoleAggregator", Workers: workers}, a.reconcile)
	a.queue = a.loop
	a.watch(informer)
	return a, nil
}

// Run implements controller.Controller.
func (a *aggregator) Run(ctx context.Context) error { return a.loop.Run(ctx) }
