package garbagecollector

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// vanishedAfter is for how long a kind must have been found to be gone before its objects do
// not count any more. It spans an aggregated API server that is replaced, or a definition
// that is deleted and created again.
const vanishedAfter = 5 * time.Minute

var customResourceDefinitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// vanishing are the kinds that were found to be gone at every look since a time.
type vanishing map[schema.GroupResource]time.Time

// update takes account of the kinds that are found to be gone now, and returns those that
// have been for long enough.
func (v vanishing) update(gone map[schema.GroupResource]bool, now time.Time) map[schema.GroupResource]bool {
	for kind := range v {
		if !gone[kind] {
			delete(v, kind)
		}
	}
	vanished := map[schema.GroupResource]bool{}
	for kind := range gone {
		since, known := v[kind]
		if !known {
			v[kind], since = now, now
		}
		if now.Sub(since) >= vanishedAfter {
			vanished[kind] = true
		}
	}
	return vanished
}

// forgetVanished has the objects of kinds forgotten that are served in no version any more.
func (c *collector) forgetVanished(ctx context.Context, seen look) {
	gone := map[schema.GroupResource]bool{}
	for kind, resource := range c.graph.unwatchedKinds() {
		if seen.lacks(kind) && c.isGone(ctx, resource) {
			gone[kind] = true
		}
	}
	vanished := c.vanishing.update(gone, c.clock.Now())
	if len(vanished) == 0 {
		return
	}
	klog.FromContext(ctx).Info("Forgetting objects of kinds that are gone", "kinds", vanished, "after", vanishedAfter)
	c.apply(ctx, &change{kind: forgotten, lane: reconcile.Backlog, kinds: vanished})
}

// lacks reports that a group was asked, in all of its versions, and does not have a kind.
func (l look) lacks(kind schema.GroupResource) bool {
	return l.served != nil && !l.silent[kind.Group] && !l.served[kind]
}

// isGone reports that the API server has no resource of a kind, and that there is no
// definition of it either: while there is, its objects are still stored and can come back.
func (c *collector) isGone(ctx context.Context, resource schema.GroupVersionResource) bool {
	_, err := c.metadata.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
	if !noSuchResource(err) {
		return false
	}
	_, err = c.metadata.Resource(customResourceDefinitions).Get(ctx, resource.GroupResource().String(), metav1.GetOptions{})
	return apierrors.IsNotFound(err) && !noSuchResource(err)
}
