package clusterroleaggregation

import (
	"time"

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
		a.permitted(role)
	}
}

func (a *aggregator) updated(lane reconcile.Lane, old, role *rbacv1.ClusterRole) {
	relabelled := !labels.Equals(old.Labels, role.Labels)
	ruled := !equality.Semantic.DeepEqual(old.Rules, role.Rules)
	reselects := !equality.Semantic.DeepEqual(old.AggregationRule, role.AggregationRule)
	recreated := old.UID != role.UID // while the watch was interrupted: writes were refused until now
	if lane.IsBacklog() || ruled || recreated || reselects {
		a.enqueue(lane, role)
	}
	if relabelled || ruled || reselects {
		a.enqueueAggregatesOf(old.Labels, role.Labels)
	}
	if ruled {
		a.permitted(role)
	}
}

// permitted enqueues the roles that could not be written: a change of its own role may have permitted the controller
// to. The API server learns of it by a watch, too.
func (a *aggregator) permitted(role *rbacv1.ClusterRole) {
	if role.Name != ownRole {
		return
	}
	all, err := a.roles.aggregating()
	if err != nil {
		klog.Background().Error(err, "Failed to find the ClusterRoles that aggregate others")
	}
	for _, role := range all {
		if a.loop.Retries(role.Name) > 0 {
			a.queue.AddAfter(role.Name, time.Second)
		}
	}
}

func (a *aggregator) enqueue(lane reconcile.Lane, role *rbacv1.ClusterRole) {
	if role.AggregationRule != nil {
		a.queue.Enqueue(lane, role.Name)
	}
}

// enqueueAggregatesOf enqueues the roles that select one of these sets of labels.
func (a *aggregator) enqueueAggregatesOf(sets ...labels.Set) {
	found, err := a.roles.aggregatesOf(sets)
	if err != nil {
		klog.Background().Error(err, "Failed to find the ClusterRoles that aggregate one that has changed")
	}
	for _, role := range found {
		a.queue.Add(role.Name)
	}
}
