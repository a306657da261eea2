package clusterroleaggregation

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (a *aggregator) watch(informer cache.SharedIndexInformer) {
	watch.Objects(informer, watch.Funcs[*rbacv1.ClusterRole]{
		Add:    a.added,
		Update: a.updated,
		Delete: func(role *rbacv1.ClusterRole) { a.enqueueAggregatesOf(role.Labels) },
	})
}

// added does not look up the roles that aggregate a replayed one: they are replayed as well.
func (a *aggregator) added(lane reconcile.Lane, role *rbacv1.ClusterRole) {
	a.enqueue(lane, role)
	if !lane.IsBacklog() {
		a.enqueueAggregatesOf(role.Labels)
	}
}

func (a *aggregator) updated(lane reconcile.Lane, old, role *rbacv1.ClusterRole) {
	relabelled := !labels.Equals(old.Labels, role.Labels)
	ruled := !equality.Semantic.DeepEqual(old.Rules, role.Rules)
	if lane.IsBacklog() || ruled || !equality.Semantic.DeepEqual(old.AggregationRule, role.AggregationRule) {
		a.enqueue(lane, role)
	}
	if relabelled || ruled {
		a.enqueueAggregatesOf(old.Labels, role.Labels)
	}
}

func (a *aggregator) enqueue(lane reconcile.Lane, role *rbacv1.ClusterRole) {
	if role.AggregationRule != nil {
		a.loop.Enqueue(lane, role.Name)
	}
}

// enqueueAggregatesOf enqueues the roles that select one of these sets of labels.
func (a *aggregator) enqueueAggregatesOf(sets ...labels.Set) {
	aggregating, err := a.roles.aggregating()
	if err != nil {
		klog.Background().Error(err, "Failed to find the ClusterRoles that aggregate others")
		return
	}
	for _, role := range aggregating {
		if selects(role.AggregationRule, sets) {
			a.loop.Add(role.Name)
		}
	}
}
