package garbagecollector

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// needed are the verbs that a resource must support to be collected.
var needed = discovery.SupportsAllVerbs{Verbs: []string{"delete", "list", "watch"}}

// collectable returns the resources of a discovery that can be collected.
func collectable(
	ctx context.Context, lists []*metav1.APIResourceList, ignored map[schema.GroupResource]bool,
) map[schema.GroupVersionResource]*monitored {
	found := map[schema.GroupVersionResource]*monitored{}
	for _, list := range discovery.FilteredBy(needed, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Skipping a group version that cannot be parsed", "groupVersion", list.GroupVersion)
			continue
		}
		for _, r := range list.APIResources {
			resource := gv.WithResource(r.Name)
			if !ignored[resource.GroupResource()] {
				found[resource] = newMonitored(resource, r.Kind)
			}
		}
	}
	return found
}

// discovered is the result of one discovery.
type discovered struct {
	// found are the resources to watch. For groups whose discovery failed they are those known
	// before, also to the standby, if their watches work. It is empty if discovery failed
	// altogether.
	found map[schema.GroupVersionResource]*monitored
	// served are the kinds that are served in any version, whether they are to be watched or
	// not. silent are the groups for which the discovery of a version failed; all groups if
	// served is nil.
	served map[schema.GroupResource]bool
	silent map[string]bool
}

// discover discovers the served resources.
func (c *collector) discover(ctx context.Context) discovered {
	logger := klog.FromContext(ctx)
	lists, err := c.Discovery.ServerPreferredResources()
	failed, partly := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partly {
		logger.Error(err, "Discovery failed")
		return discovered{}
	}
	d := discovered{found: collectable(ctx, lists, c.ignored), served: kindsOf(lists), silent: map[string]bool{}}
	if err == nil || len(d.found) == 0 {
		return d
	}
	logger.Info("Discovery failed for some groups, keeping their known resources", "err", err)
	for gv := range failed {
		d.silent[gv.Group] = true
	}
	known := c.known
	if len(known) == 0 {
		known = c.foreseen
	}
	for resource, as := range known {
		if failed[resource.GroupVersion()] != nil && c.monitors.filled(resource) {
			d.keep(resource, as)
		}
	}
	return d
}

// keep adds a resource in the version in which it is watched, and removes another version that
// was found only because the discovery of that one failed.
func (d discovered) keep(resource schema.GroupVersionResource, as *monitored) {
	maps.DeleteFunc(d.found, func(other schema.GroupVersionResource, _ *monitored) bool {
		return other.GroupResource() == resource.GroupResource()
	})
	d.found[resource] = as
}

// kindsOf returns all resources of a discovery.
func kindsOf(lists []*metav1.APIResourceList) map[schema.GroupResource]bool {
	kinds := map[schema.GroupResource]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			kinds[gv.WithResource(r.Name).GroupResource()] = true
		}
	}
	return kinds
}

// followResources keeps the watched resources in sync with the served ones until ctx ends.
func (c *collector) followResources(ctx context.Context) {
	if len(c.known) > 0 {
		c.replay(ctx)
	}
	for {
		seen := c.refresh(ctx)
		c.deliverReplayed()
		c.forgetVanished(ctx, seen)
		timer := c.Clock.NewTimer(resyncPeriod)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

// replay watches the resources that the predecessor watched, without waiting for discovery.
func (c *collector) replay(ctx context.Context) {
	c.giveUp(ctx, c.known)
	if err := c.monitors.start(ctx, c.known); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to watch some inherited resources")
	}
	c.awaitSync(ctx)
	c.deliverReplayed()
}

// refresh discovers the served resources and watches them.
func (c *collector) refresh(ctx context.Context) discovered {
	seen := c.discover(ctx)
	if len(seen.found) == 0 {
		klog.FromContext(ctx).Info("No resources discovered, keeping the present watches")
		c.syncFailed.Inc()
		return discovered{}
	}
	if c.follows(seen.found) || !c.watch(ctx, seen.found) {
		return seen
	}
	c.awaitSync(ctx)
	c.known = seen.found
	return seen
}

// follows reports whether resources are those known, and are watched: that others could not be watched may have ended
// the watch of some.
func (c *collector) follows(found map[schema.GroupVersionResource]*monitored) bool {
	return sameResources(found, c.known) && sameResources(found, c.monitors.watched())
}

// awaitSync waits for the informers to sync, up to a time limit.
func (c *collector) awaitSync(ctx context.Context) {
	if !c.monitors.waitForSync(ctx, syncTimeout) && ctx.Err() == nil {
		klog.FromContext(ctx).Error(nil, "Timed out waiting for informers to sync, continuing without them",
			"timeout", syncTimeout)
		c.syncFailed.Inc()
	}
}

// watch replaces the monitors by those of the resources found, and reports whether it
// succeeded.
func (c *collector) watch(ctx context.Context, found map[schema.GroupVersionResource]*monitored) bool {
	logger := klog.FromContext(ctx)
	logger.V(2).Info("Resources to watch have changed",
		"added", without(found, c.known), "removed", without(c.known, found))
	meta.MaybeResetRESTMapper(c.Mapper)
	// Before another version shows the same objects.
	c.giveUp(ctx, found)
	if err := c.monitors.start(ctx, found); err != nil {
		logger.Error(err, "Failed to watch some resources")
		c.syncFailed.Inc()
		return false
	}
	return true
}

// giveUp stops the monitors that are not wanted, ahead of the queue: their queued changes are
// stale.
func (c *collector) giveUp(ctx context.Context, wanted map[schema.GroupVersionResource]*monitored) {
	for _, m := range c.monitors.drop(wanted) {
		c.apply(ctx, &change{kind: changeEnded, monitored: m})
	}
}

// deliverReplayed tells the graph which kinds have been replayed: their informers have synced. Nodes that wait for the
// backoff of a failure are then retried at once, since these kinds may have been the cause. The first call lets the
// workers start, once all replayed objects are in the graph.
func (c *collector) deliverReplayed() {
	complete := c.monitors.replayed()
	ready := len(c.known) > 0
	if len(complete) == 0 && (!ready || c.startWorker.isOpen()) {
		return
	}
	kinds := map[schema.GroupResource]bool{}
	for _, monitor := range complete {
		kinds[monitor.monitored.resource.GroupResource()] = true
	}
	c.deliver(&change{kind: changeReplayed, lane: reconcile.Backlog, kinds: kinds, done: func() {
		c.monitors.nowInGraph(complete)
		if c.startWorker.isOpen() {
			c.attempt.hurry()
			c.orphan.hurry()
		}
		if ready {
			c.startWorker.open()
		}
	}})
}

func sameResources(a, b map[schema.GroupVersionResource]*monitored) bool {
	return maps.EqualFunc(a, b, func(*monitored, *monitored) bool { return true })
}

// without returns the resources of a that b lacks, sorted.
func without(a, b map[schema.GroupVersionResource]*monitored) []schema.GroupVersionResource {
	var missing []schema.GroupVersionResource
	for resource := range a {
		if b[resource] == nil {
			missing = append(missing, resource)
		}
	}
	slices.SortFunc(missing, byText)
	return missing
}

func byText(x, y schema.GroupVersionResource) int { return cmp.Compare(x.String(), y.String()) }
