package garbagecollector

import (
	"context"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/customresources"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// vanishedAfter is how long a kind must have been gone before its objects are forgotten. It is
// long enough to replace an aggregated API server, or to delete and recreate a definition.
const vanishedAfter = 5 * time.Minute

// vanishing are the kinds that every check since a time has found to be gone.
type vanishing map[schema.GroupResource]time.Time

// update records the kinds that are gone now, and returns those that have been gone for
// vanishedAfter.
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

// forgetVanished removes the objects of kinds that are gone from the graph.
func (c *collector) forgetVanished(ctx context.Context, seen discovered) {
	gone := map[schema.GroupResource]bool{}
	for kind, resource := range c.graph.unwatchedKinds() {
		if seen.lacks(kind) && c.isGone(ctx, resource) {
			gone[kind] = true
		}
	}
	vanished := c.vanishing.update(gone, c.Clock.Now())
	if len(vanished) == 0 {
		return
	}
	klog.FromContext(ctx).Info("Forgetting objects of kinds that are gone",
		"kinds", slices.Collect(maps.Keys(vanished)), "after", vanishedAfter)
	c.apply(ctx, &change{kind: changeForgotten, lane: reconcile.Backlog, kinds: vanished})
}

// lacks reports whether discovery of all versions of a group succeeded and does not have a
// kind.
func (d discovered) lacks(kind schema.GroupResource) bool {
	return d.served != nil && !d.silent[kind.Group] && !d.served[kind]
}

// isGone reports whether the API server has neither a resource nor a definition of a kind:
// while there is a definition, the objects are stored and can be served again.
func (c *collector) isGone(ctx context.Context, resource schema.GroupVersionResource) bool {
	_, err := c.Metadata.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
	if !noSuchResource(err) {
		return false
	}
	definition := resource.GroupResource().String()
	_, err = c.Metadata.Resource(customresources.Definitions).Get(ctx, definition, metav1.GetOptions{})
	return controller.Absent(err)
}

// isElsewhere reports whether the objects of a kind are not where it had some: its definition has another scope now. As
// that cannot be changed, the former definition was deleted, and all objects with it.
func (c *collector) isElsewhere(ctx context.Context, was location) bool {
	d, err := customresources.Read(ctx, c.Dynamic, was.resource.GroupResource())
	return err == nil && d != nil && d.IsEstablished(was.namespace == "")
}
