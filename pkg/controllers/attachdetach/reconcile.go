package attachdetach

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller/concurrent"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// reconcile brings one volume on one node closer to what is wanted. It decides under the lock, and sends
// requests without it.
func (c *attachDetachController) reconcile(ctx context.Context, at place) error {
	if act := c.decide(ctx, at); act != nil {
		act()
	}
	return nil
}

// decide returns what to do about a place now, nil if that is nothing.
func (c *attachDetachController) decide(ctx context.Context, at place) (act func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.world.links[at]
	if l == nil {
		return nil
	}
	v := c.world.volumes[at.volume]
	if o := v.running(at.node); o != nil {
		if !o.waiting || !c.check(ctx, l, o) {
			return nil
		}
		if l = c.world.links[at]; l == nil {
			return nil
		}
	}
	defer c.world.tidy(l)
	if l.isWanted() {
		return c.decideAttach(ctx, l, v)
	}
	return c.decideDetach(ctx, l, v)
}

// decideDetach decides whether to detach a volume that no pod on the node needs any more. It checks the
// operations first, because one that is running or has just failed can change the rest of what is known.
func (c *attachDetachController) decideDetach(ctx context.Context, l *link, v *volume) (act func()) {
	now, key := c.Clock.Now(), v.known.keyFor(l.node)
	if l.state == detached {
		return nil
	}
	if o := v.matching(key); o != nil && o.running {
		return nil // this place is enqueued when the operation ends
	}
	if wait := v.backoff(key, detaching, now); wait > 0 {
		c.places.AddAfter(l.place, wait)
		return nil
	}
	if l.unwantedSince.IsZero() {
		l.unwantedSince = now
	}
	verdict := c.verdictOn(l)
	if !verdict.detach {
		c.list(l)
		if verdict.again > 0 {
			c.places.AddAfter(l.place, verdict.again)
		}
		return nil
	}
	plugin := c.plugins.pluginOf(l.place, v.known)
	if plugin == "" {
		klog.FromContext(ctx).V(2).Info("Leaving a volume attached whose plugin is not known", "volume", l.volume, "node", l.node)
		return nil
	}
	if !c.withdraw(l, v) {
		return nil // this place is enqueued once the status is written
	}
	o, ok := v.start(key, detaching, now)
	if !ok {
		c.list(l)
		return nil
	}
	o.node, o.what = l.node, v.known
	if verdict.why != notForced {
		c.metrics.forced.WithLabelValues(string(verdict.why)).Inc()
	}
	klog.FromContext(ctx).V(2).Info("Detaching a volume", "volume", l.volume, "node", l.node, "forced", verdict.why)
	n := c.world.nodes[l.node]
	ask := questions{
		pods: !l.seen && !n.podsKnown,
		node: verdict.why != notForced || !l.released.holds(n.report.uid, now),
	}
	return func() {
		c.perform(ctx, l.place, o, func() (bool, error) { return c.detach(ctx, l.place, o, plugin, verdict.why, ask) })
	}
}

// withdraw reports whether the kubelet of a node does not find a volume reported any more, and has that written
// otherwise.
func (c *attachDetachController) withdraw(l *link, v *volume) (done bool) {
	l.listed = false
	report := c.world.nodes[l.node].report
	if report.mayShow(l.volume) {
		c.announce(l.node, v.delayOfWithdrawal())
		return false
	}
	return !report.sending // the cache can show a write before it is answered
}

// verdictOn judges an attachment that nobody wants by what is known of its node.
func (c *attachDetachController) verdictOn(l *link) detachVerdict {
	n, _, err := reconcile.Found(c.nodes.Get(l.node))
	if err != nil {
		n = nil
	}
	waited := c.Clock.Since(l.unwantedSince)
	if l.unwantedSince.IsZero() {
		waited = 0
	}
	return judgeDetach(c.world.nodes[l.node].inUse[l.volume], conditionOf(n), waited, c.disableForceDetachOnTimeout)
}

// decideAttach decides about a volume that is wanted. Before it is found to be attached elsewhere,
// what can be detached there is.
func (c *attachDetachController) decideAttach(ctx context.Context, l *link, v *volume) (act func()) {
	key := l.wanted.keyFor(l.node)
	holders, wait := c.holders(l, v)
	if wait {
		return nil
	}
	matching := v.matching(key)
	switch judgeAttach(l.state, matching != nil && matching.running, len(holders) > 0) {
	case keep:
		l.unwantedSince = time.Time{}
		c.list(l)
		c.awakenUntold(l, v)
	case reportMultiAttach:
		c.reportMultiAttach(l, holders)
	case attach:
		return c.startAttach(ctx, l, v, key)
	case busy:
	}
	return nil
}

// holders returns the other links by which a single-node volume is attached. If one of them is about to be
// detached, it returns wait instead; this link is enqueued when the detach ends.
func (c *attachDetachController) holders(l *link, v *volume) (holders []*link, wait bool) {
	if l.wanted.allowsMultiple() {
		return nil, false
	}
	for _, other := range v.links {
		switch {
		case other == l:
		case c.isAboutToDetach(other, v):
			c.places.Add(other.place)
			return nil, true
		case other.state == attached:
			holders = append(holders, other)
		}
	}
	return holders, false
}

// isAboutToDetach reports whether an attachment elsewhere is to be detached now, and nothing keeps that from
// being done.
func (c *attachDetachController) isAboutToDetach(l *link, v *volume) bool {
	if l.isWanted() || l.state == detached || c.world.nodes[l.node].report.failing || c.plugins.pluginOf(l.place, v.known) == "" {
		return false
	}
	key := v.known.keyFor(l.node)
	if o := v.matching(key); o != nil && o.running || v.backoff(key, detaching, c.Clock.Now()) > 0 {
		return false
	}
	return c.verdictOn(l).detach
}

// reportMultiAttach tells the pods that want a volume that it is in use elsewhere, once.
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

// startAttach begins to attach a volume, or has it tried again after its backoff.
func (c *attachDetachController) startAttach(ctx context.Context, l *link, v *volume, key string) (act func()) {
	now := c.Clock.Now()
	o, ok := v.start(key, attaching, now)
	if !ok {
		if wait := v.backoff(key, attaching, now); wait > 0 {
			c.places.AddAfter(l.place, wait)
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
func (c *attachDetachController) perform(ctx context.Context, at place, o *operation, send func() (waits bool, err error)) {
	var waits bool
	var err error
	if panicked := concurrent.Catch(func() { waits, err = send() }); panicked != nil {
		err = panicked
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && waits {
		o.waiting, o.since = true, c.Clock.Now()
		c.places.Add(at)
		return
	}
	c.finish(ctx, c.world.links[at], o, err)
}

// awaken enqueues every place that an operation or an attachment of the volume was blocking.
func (c *attachDetachController) awaken(at place) {
	c.places.Add(at)
	v := c.world.volumes[at.volume]
	if v == nil || !v.exclusive {
		return
	}
	for _, other := range v.links {
		if other.node == at.node {
			continue
		}
		if other.isWanted() || other.state != detached {
			c.places.Add(other.place)
		}
	}
}

// awakenUntold enqueues the places where a volume for one node is wanted, and no pod was told that it is in use. They may
// wait for a detach that does not take place, since the volume is wanted again where it is.
func (c *attachDetachController) awakenUntold(l *link, v *volume) {
	if !v.exclusive {
		return
	}
	for _, other := range v.links {
		if other != l && other.isWanted() && other.state != attached && !other.multiAttach {
			c.places.Add(other.place)
		}
	}
}
