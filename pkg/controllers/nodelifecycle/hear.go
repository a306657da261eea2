package nodelifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
)

// requestTimeout limits how long a pass waits for the API server: once to check its own view, and once for
// each silent node.
const requestTimeout = 5 * time.Second

// confirmSilent returns the nodes that are really silent. If the instance has not heard from any node for a while,
// the instance itself may be the cause. It then reads the suspect from the API server. If the observed
// Leases may be stale, it reads them live. If a read fails, no node is confirmed.
func (c *lifecycleController) confirmSilent(working context.Context, silent []string, suspect string) []string {
	logger := klog.FromContext(working)
	ctx, cancel := context.WithTimeout(working, requestTimeout)
	defer cancel()
	if now := c.Clock.Now(); !c.cluster.isOpen(now) {
		if err := c.ask(ctx, suspect, now); err != nil {
			if working.Err() == nil {
				c.cluster.unreached(now)
			}
			logger.V(2).Info("No node is heard of, and the API server does not answer", "err", err)
			return nil
		}
		silent = c.recheckSilent()
	}
	if now := c.Clock.Now(); !c.cluster.areSilent(silent) {
		if err := c.readLeases(ctx, now); err != nil {
			logger.Error(err, "Cannot find out whether nodes are silent", "nodes", len(silent))
			return nil
		}
		silent = c.recheckSilent()
	}
	return silent
}

// recheckSilent returns the nodes that are silent after something has been read.
func (c *lifecycleController) recheckSilent() []string {
	silent, _ := c.cluster.findSilent(c.Clock.Now(), func() {})
	return silent
}

// ask reads a node to check that the API server is reachable.
func (c *lifecycleController) ask(ctx context.Context, name string, now time.Time) error {
	node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil && !controller.Absent(err) {
		return fmt.Errorf("reading node %s: %w", name, err)
	}
	c.cluster.reached(now)
	if err == nil {
		c.cluster.read(node, now)
	}
	return nil
}

// readLeases reads all node Leases through a separate informer, whose first list is consistent. The role
// of this controller does not permit reading Leases. The role of the process, which fills the caches, does.
func (c *lifecycleController) readLeases(ctx context.Context, now time.Time) error {
	filter := controller.Filter{Namespace: corev1.NamespaceNodeLease}
	view := c.Informers.Filtered(filter)
	leases := view.Coordination().V1().Leases()
	informer := leases.Informer()
	defer c.Informers.Release(informer)
	view.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return errors.Join(errors.New("reading the Leases of nodes: the API server did not answer"), context.Cause(ctx))
	}
	all, err := leases.Lister().List(labels.Everything())
	if err != nil {
		return err
	}
	c.cluster.readLeases(all, now)
	return nil
}

// leaseOf returns the cached Lease of a node, nil if there is none.
func (c *lifecycleController) leaseOf(node string) *coordinationv1.Lease {
	lease, err := c.leases.Get(node)
	if err != nil {
		return nil
	}
	return lease
}

// readLeases records Leases as they were at a time.
func (c *cluster) readLeases(leases []*coordinationv1.Lease, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sight.reached(now)
	c.sight.sawLeases(now)
	for _, lease := range leases {
		if r := c.nodes[lease.Name]; r != nil {
			r.renew(lease, now)
		}
	}
}

func (c *cluster) isOpen(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sight.isOpen(now)
}

// cachedLease returns the cached Lease of a node, nil if there is none, and notes that the cache has shown it.
func (c *cluster) cachedLease(r *record) *coordinationv1.Lease {
	lease := c.lease(r.name)
	r.isLeased = r.isLeased || lease != nil
	return lease
}

// lacksLease reports whether the cache lacks a Lease that it has shown: the list that lacked it may have hidden a
// renewal.
func (c *cluster) lacksLease(r *record) bool { return r.isLeased && c.lease(r.name) == nil }

// areSilent reports whether all these nodes had exceeded their grace period when the observed Leases were
// last known to be current. Nothing is known of a node whose Lease the cache lacks.
func (c *cluster) areSilent(names []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		if r := c.nodes[name]; r != nil && (!c.hadFallenSilent(r) || c.lacksLease(r)) {
			return false
		}
	}
	return true
}

// hadFallenSilent reports whether a node had exceeded its grace period when the observed Leases were last known
// to be current. The cache may show a renewal whose event is still to come: after a break of the watch it holds all
// Leases at once, and their events arrive later, in any order.
func (c *cluster) hadFallenSilent(r *record) bool {
	if r.seen.Before(c.sight.leases) {
		r.renew(c.cachedLease(r), c.sight.leases)
	}
	return c.hasFallenSilent(r, c.sight.leases)
}

func (c *cluster) reached(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sight.reached(now)
}

func (c *cluster) unreached(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sight.unreached(now)
}
