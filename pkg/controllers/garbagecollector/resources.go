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

// look is what one look at what is served has found.
type look struct {
	// found is what there is to watch. Of groups that could not be asked it is what was known
	// before, if that is watched without trouble. It is empty if nothing could be learned.
	found map[schema.GroupVersionResource]*monitored
	// served are the kinds that are served in any version, be there reason to watch them or
	// not. silent are the groups that could not be asked in all of their versions; all of them
	// if served is nil.
	served map[schema.GroupResource]bool
	silent map[string]bool
}

// discover asks what is served.
func (c *collector) discover(ctx context.Context) look {
	logger := klog.FromContext(ctx)
	lists, err := c.discovery.ServerPreferredResources()
	failed, partly := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partly {
		logger.Error(err, "Discovery failed")
		return look{}
	}
	l := look{found: collectable(ctx, lists, c.ignored), served: kindsOf(lists), silent: map[string]bool{}}
	if err == nil || len(l.found) == 0 {
		return l
	}
	logger.Info("Discovery failed for some groups, what was known of them stays", "err", err)
	for gv := range failed {
		l.silent[gv.Group] = true
	}
	for resource, as := range c.known {
		if failed[resource.GroupVersion()] != nil && c.monitors.synced(resource) {
			l.keep(resource, as)
		}
	}
	return l
}

// keep adds a resource in the version in which it is watched, in place of any other version
// that is found only because that one could not be asked.
func (l look) keep(resource schema.GroupVersionResource, as *monitored) {
	maps.DeleteFunc(l.found, func(other schema.GroupVersionResource, _ *monitored) bool {
		return other.GroupResource() == resource.GroupResource()
	})
	l.found[resource] = as
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

// followResources keeps what is watched in line with what is served, until ctx ends.
func (c *collector) followResources(ctx context.Context) {
	if len(c.known) > 0 {
		c.replay(ctx)
	}
	for {
		seen := c.refresh(ctx)
		c.sweep()
		c.forgetVanished(ctx, seen)
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
	c.giveUp(ctx, c.known)
	if err := c.monitors.start(ctx, c.known); err != nil {
		klog.FromContext(ctx).Error(err, "Some inherited resources cannot be watched")
	}
	c.awaitSync(ctx)
	c.sweep()
}

// refresh asks what is served and watches that.
func (c *collector) refresh(ctx context.Context) look {
	seen := c.discover(ctx)
	if len(seen.found) == 0 {
		klog.FromContext(ctx).Info("No resources discovered, what is watched stays as it is")
		c.syncFailed.Inc()
		return look{}
	}
	if sameResources(seen.found, c.known) || !c.watch(ctx, seen.found) {
		return seen
	}
	c.awaitSync(ctx)
	c.known = seen.found
	return seen
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
	logger.V(2).Info("Resources to watch have changed", "added", without(found, c.known), "removed", without(c.known, found))
	meta.MaybeResetRESTMapper(c.mapper)
	// Before another version shows the same objects.
	c.giveUp(ctx, found)
	if err := c.monitors.start(ctx, found); err != nil {
		logger.Error(err, "Not all resources can be watched")
		c.syncFailed.Inc()
		return false
	}
	return true
}

// giveUp ends the monitors that are not wanted, at once: what they have queued is late.
func (c *collector) giveUp(ctx context.Context, wanted map[schema.GroupVersionResource]*monitored) {
	for _, over := range c.monitors.drop(wanted) {
		c.apply(ctx, &change{kind: ended, monitored: over})
	}
}

// sweep tells the graph of kinds that have been shown completely. What waits for the backoff
// of a failure is tried at once then: it may have failed for want of them. The first sweep
// lets the workers begin, once all that has been shown is in the graph.
func (c *collector) sweep() {
	complete := c.monitors.replayed()
	ready := len(c.known) > 0
	if len(complete) == 0 && (!ready || c.startWorker.isOpen()) {
		return
	}
	c.deliver(&change{kind: replayed, lane: reconcile.Backlog, kinds: complete, done: func() {
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
	slices.SortFunc(missing, func(x, y schema.GroupVersionResource) int {
		if x.String() < y.String() {
			return -1
		}
		return 1
	})
	return missing
}
