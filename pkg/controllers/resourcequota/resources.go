package resourcequota

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// needed are the verbs that a resource must support to be counted.
var needed = discovery.SupportsAllVerbs{Verbs: []string{"create", "list", "watch", "delete"}}

// ignored are the resources that are never counted: they are not stored, or not by users.
var ignored = map[schema.GroupResource]bool{
	{Resource: "bindings"}:                                                 true,
	{Resource: "componentstatuses"}:                                        true,
	{Resource: "events"}:                                                   true,
	{Group: "authentication.k8s.io", Resource: "tokenreviews"}:             true,
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}:       true,
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}:      true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}:  true,
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}: true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"}:   true,
	{Group: "events.k8s.io", Resource: "events"}:                           true,
}

// resources are the resources to count, with the version to watch each in.
type resources map[schema.GroupResource]schema.GroupVersionResource

// countable returns the resources of a discovery that are counted.
func countable(ctx context.Context, lists []*metav1.APIResourceList) resources {
	found := resources{}
	for _, list := range discovery.FilteredBy(needed, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Skipping a group version that cannot be parsed", "groupVersion", list.GroupVersion)
			continue
		}
		for _, r := range list.APIResources {
			resource := gv.WithResource(r.Name)
			if kind := resource.GroupResource(); r.Namespaced && !ignored[kind] {
				found[kind] = resource
			}
		}
	}
	return found
}

// keepUndiscovered adds the resources that are watched in group versions whose discovery failed:
// they may still be served.
func (r resources) keepUndiscovered(watched resources, failed map[schema.GroupVersion]error) {
	for kind, resource := range watched {
		if failed[resource.GroupVersion()] != nil {
			r[kind] = resource
		}
	}
}

// discover returns the served resources, nil if discovery failed or found none.
func (c *quotaController) discover(ctx context.Context) resources {
	logger := klog.FromContext(ctx)
	lists, err := c.Discovery.ServerPreferredNamespacedResources()
	failed, partly := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partly {
		logger.Error(err, "Discovery failed")
		return nil
	}
	found := countable(ctx, lists)
	if len(found) == 0 {
		logger.Info("No resources discovered, keeping the present watches")
		return nil
	}
	found[resourceQuotas.GroupResource()] = resourceQuotas // always watched
	if err != nil {
		logger.Info("Discovery failed for some groups, keeping their known resources", "err", err)
		found.keepUndiscovered(c.monitors.watched(), failed)
	}
	return found
}

// followResources keeps the watched resources in sync with the served ones until ctx ends.
func (c *quotaController) followResources(ctx context.Context) error {
	return reconcile.Passes(c.Env, discoveryPeriod, func(ctx, _ context.Context) { c.refresh(ctx) })(ctx)
}

// watchServed discovers the served resources and watches them. It returns the monitors that are new.
func (c *quotaController) watchServed(ctx context.Context) []*monitor {
	found := c.discover(ctx)
	if found == nil {
		return nil
	}
	added, err := c.monitors.follow(found)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to watch some resources")
	}
	return added
}

// refresh watches the served resources. The quotas that limit new ones are reconciled when all
// their objects are known.
func (c *quotaController) refresh(ctx context.Context) {
	added := c.watchServed(ctx)
	if len(added) == 0 {
		return
	}
	c.Informers.StartWithContext(ctx)
	if !c.awaitSync(ctx, added) && ctx.Err() == nil {
		klog.FromContext(ctx).Error(nil, "Timed out waiting for informers to sync, continuing without them",
			"timeout", syncTimeout)
	}
	if ctx.Err() == nil {
		c.reconcileLimiting(added)
	}
}

// awaitSync waits until monitors have synced, up to a time limit.
func (c *quotaController) awaitSync(ctx context.Context, added []*monitor) bool {
	timer := c.Clock.NewTimer(syncTimeout)
	defer timer.Stop()
	for _, m := range added {
		for _, registration := range m.registrations {
			select {
			case <-registration.HasSyncedChecker().Done():
			case <-timer.C():
				return false
			case <-ctx.Done():
				return false
			}
		}
	}
	return true
}
