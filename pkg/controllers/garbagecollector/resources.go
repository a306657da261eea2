package garbagecollector

import (
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

// needed are the verbs of resources that can be collected.
var needed = discovery.SupportsAllVerbs{Verbs: []string{"delete", "list", "watch"}}

// collectable picks the resources out of a discovery that can be collected.
func collectable(ctx context.Context, lists []*metav1.APIResourceList, ignored map[schema.GroupResource]bool) map[schema.GroupVersionResource]*monitored {
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

// discover returns what is served. Of groups that cannot be asked it is what was known
// before, if it is watched without trouble. It is empty if nothing could be learned.
func (c *collector) discover(ctx context.Context) map[schema.GroupVersionResource]*monitored {
	logger := klog.FromContext(ctx)
	lists, err := c.discovery.ServerPreferredResources()
	found := collectable(ctx, lists, c.ignored)
	if err == nil || len(found) == 0 {
		if err != nil {
			logger.Error(err, "Discovery failed")
		}
		return found
	}
	failed, partly := discovery.GroupDiscoveryFailedErrorGroups(err)
	if !partly {
		logger.Error(err, "Discovery failed in part")
		return found
	}
	logger.Info("Discovery failed for some groups, what was known of them stays", "err", err)
	for resource, as := range c.known {
		if failed[resource.GroupVersion()] != nil && c.monitors.synced(resource) {
			found[resource] = as
		}
	}
	return found
}

// followResources keeps what is watched in line with what is served, until ctx ends.
func (c *collector) followResources(ctx context.Context) {
	if len(c.known) > 0 {
		c.replay(ctx)
	}
	for {
		c.refresh(ctx)
		c.sweep()
		timer := c.clock.NewTimer(resyncPeriod)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

// replay watches what the predecessor watched. It does not wait for discovery.
func (c *collector) replay(ctx context.Context) {
	if _, err := c.monitors.sync(ctx, c.known); err != nil {
		klog.FromContext(ctx).Error(err, "Some inherited resources cannot be watched")
	}
	c.awaitSync(ctx)
	c.sweep()
}

// refresh asks what is served and watches that.
func (c *collector) refresh(ctx context.Context) {
	found := c.discover(ctx)
	if len(found) == 0 {
		klog.FromContext(ctx).Info("No resources discovered, what is watched stays as it is")
		c.syncFailed.Inc()
		return
	}
	if sameResources(found, c.known) || !c.watch(ctx, found) {
		return
	}
	c.awaitSync(ctx)
	c.known = found
}

// awaitSync waits for the informers, for a limited time.
func (c *collector) awaitSync(ctx context.Context) {
	if !c.monitors.waitForSync(ctx, syncTimeout) && ctx.Err() == nil {
		klog.FromContext(ctx).Error(nil, "Not all resources could be listed in time, going on without them", "timeout", syncTimeout)
		c.syncFailed.Inc()
	}
}

// watch makes the monitors those of the resources found, and reports whether it could.
func (c *collector) watch(ctx context.Context, found map[schema.GroupVersionResource]*monitored) bool {
	logger := klog.FromContext(ctx)
	before := c.monitors.watched()
	maps.Copy(before, c.known)
	logger.V(2).Info("Resources to watch have changed", "added", without(found, c.known), "removed", without(c.known, found))
	meta.MaybeResetRESTMapper(c.mapper)
	_, err := c.monitors.sync(ctx, found)
	if vanished := without(before, found); len(vanished) > 0 {
		c.forget(vanished)
	}
	if err != nil {
		logger.Error(err, "Not all resources can be watched")
		c.syncFailed.Inc()
		return false
	}
	return true
}

// forget takes resources out of the graph that have no monitor any more.
func (c *collector) forget(vanished []schema.GroupVersionResource) {
	resources := map[schema.GroupVersionResource]bool{}
	for _, resource := range vanished {
		resources[resource] = true
		delete(c.unswept, resource)
	}
	c.deliver(&change{kind: unmonitored, resources: resources})
}

// sweep makes up for deletions that were missed before the replay, where that is complete.
// The first one lets the workers begin, once all that has been shown is in the graph.
func (c *collector) sweep() {
	complete := map[schema.GroupVersionResource]bool{}
	for resource := range c.unswept {
		if c.monitors.synced(resource) {
			complete[resource] = true
			delete(c.unswept, resource)
		}
	}
	waiting := !c.startWorker.isOpen() && len(c.known) > 0
	if waiting || len(complete) > 0 {
		c.deliver(&change{kind: replayed, lane: reconcile.Backlog, resources: complete, done: c.startWorker.open})
	}
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
	slices.SortFunc(missing, func(x, y schema.GroupVersionResource) int {
		if x.String() < y.String() {
			return -1
		}
		return 1
	})
	return missing
}
