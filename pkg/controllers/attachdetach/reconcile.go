package attachdetach

import (
	"context"
	"maps"
	"slices"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller/concurrent"
)

// reconcile brings one volume on one node closer to what is wanted. It decides under the lock, and sends
// requests without it.
func (c *attachDetachController) reconcile(ctx context.Context, at place) error {
	if act := c.decide(ctx, at); act != nil {
		act()
	}
	return nil
}

// withdraw removes a volume from the report of its node. It returns true once node.status.volumesAttached no longer
// lists the volume; until then it schedules the write, unless one without the volume is under way.
func (c *attachDetachController) withdraw(l *link, v *volume) (done bool) {
	l.listed = false
	report := c.world.nodes[l.node].report
	if report.mayShow(l.volume) {
		c.enqueueReport(l.node, v.delayOfWithdrawal())
		return false
	}
	return !report.sending // the cache can show a write before it is answered
}

// reportMultiAttach records once, on the pods that want a volume, that it is in use elsewhere.
func (c *attachDetachController) reportMultiAttach(l *link, holders []*link) {
	if l.multiAttach {
		return
	}
	var users []podRef
	for _, holder := range holders {
		users = slices.AppendSeq(users, maps.Values(holder.pods))
	}
	l.multiAttach = true
	for _, pod := range l.pods {
		c.Record(multiAttach(pod, l.wanted.Name(), users))
	}
}

// startAttach begins to attach a volume, or enqueues it for the end of its backoff.
func (c *attachDetachController) startAttach(ctx context.Context, l *link, v *volume, key string) (act func()) {
	now := c.Clock.Now()
	o, ok := v.start(key, attaching, now)
	if !ok {
		if wait := v.backoff(key, attaching, now); wait > 0 {
			c.placeQueue.AddAfter(l.place, wait)
		}
		return nil
	}
	o.node, o.what = l.node, l.wanted
	o.pods = slices.Collect(maps.Values(l.pods))
	deleted := l.deleted
	klog.FromContext(ctx).V(2).Info("Attaching a volume", "volume", l.volume, "node", l.node)
	return func() {
		c.perform(ctx, l.place, o, func() (bool, error) { return c.attach(ctx, l.place, o, deleted) })
	}
}

// perform sends the requests of an operation, which then ends unless it has to wait. A panic is a failure
// of the operation.
func (c *attachDetachController) perform(
	ctx context.Context, at place, o *operation, send func() (waits bool, err error),
) {
	var waits bool
	var err error
	if panicked := concurrent.Catch(func() { waits, err = send() }); panicked != nil {
		err = panicked
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && waits {
		o.waiting, o.since = true, c.Clock.Now()
		c.placeQueue.Add(at)
		return
	}
	c.finish(ctx, c.world.links[at], o, err)
}

// enqueueBlocked enqueues every place that an operation or an attachment of the volume was blocking.
func (c *attachDetachController) enqueueBlocked(at place) {
	c.placeQueue.Add(at)
	v := c.world.volumes[at.volume]
	if v == nil || !v.exclusive {
		return
	}
	for _, other := range v.links {
		if other.node == at.node {
			continue
		}
		if other.isWanted() || other.state != detached {
			c.placeQueue.Add(other.place)
		}
	}
}

// enqueueUnreported enqueues the places where a volume for one node is wanted, and its use elsewhere was not reported.
// They may wait for a detach that does not take place, since the volume is wanted again where it is attached.
func (c *attachDetachController) enqueueUnreported(l *link, v *volume) {
	if !v.exclusive {
		return
	}
	for _, other := range v.links {
		if other != l && other.isWanted() && other.state != attached && !other.multiAttach {
			c.placeQueue.Add(other.place)
		}
	}
}
