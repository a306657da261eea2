package attachdetach

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

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

// decideAttach decides about a volume that is wanted. It reports a conflict with other nodes only if
// nothing is about to be detached there.
func (c *attachDetachController) decideAttach(ctx context.Context, l *link, v *volume) (act func()) {
	key := l.wanted.keyFor(l.node)
	holders, wait := c.holders(l, v)
	if wait {
		return nil
	}
	matching := v.matching(key)
	switch judgeAttach(l.state, matching != nil && matching.running, len(holders) > 0) {
	case keep:
		l.unwantedSince, l.usedUnseen = time.Time{}, false
		c.addToReport(l)
		c.enqueueUnreported(l, v)
	case reportMultiAttach:
		c.reportMultiAttach(l, holders)
	case attach:
		return c.startAttach(ctx, l, v, key)
	case busy:
	}
	return nil
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
		c.placeQueue.AddAfter(l.place, wait)
		return nil
	}
	if l.unwantedSince.IsZero() {
		l.unwantedSince = now
	}
	verdict := c.verdictOn(l)
	if !verdict.detach {
		c.addToReport(l)
		if verdict.again > 0 {
			c.placeQueue.AddAfter(l.place, verdict.again)
		}
		return nil
	}
	return c.startDetach(ctx, l, v, verdict.why, now)
}

// startDetach starts a detach as soon as the status of the node no longer reports that the volume is attached.
func (c *attachDetachController) startDetach(
	ctx context.Context, l *link, v *volume, why forced, now time.Time,
) (act func()) {
	plugin := c.plugins.pluginOf(l.place, v.known)
	if plugin == "" {
		klog.FromContext(ctx).V(2).Info("Leaving a volume attached whose plugin is not known",
			"volume", l.volume, "node", l.node)
		return nil
	}
	if !c.withdraw(l, v) {
		return nil // this place is enqueued once the status is written
	}
	o, ok := v.start(v.known.keyFor(l.node), detaching, now)
	if !ok {
		c.addToReport(l)
		return nil
	}
	o.node, o.what = l.node, v.known
	if why != notForced {
		c.metrics.forced.WithLabelValues(string(why)).Inc()
	}
	klog.FromContext(ctx).V(2).Info("Detaching a volume", "volume", l.volume, "node", l.node, "forced", why)
	n := c.world.nodes[l.node]
	ask := questions{
		pods:  !l.seen && !n.podsKnown,
		users: why == byTimeout,
		node:  why != notForced || !l.released.holds(n.report.uid, now),
	}
	return func() {
		c.perform(ctx, l.place, o, func() (bool, error) { return c.detach(ctx, l.place, o, plugin, why, ask) })
	}
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
			c.placeQueue.Add(other.place)
			return nil, true
		case other.state == attached:
			holders = append(holders, other)
		}
	}
	return holders, false
}

// isAboutToDetach reports whether an attachment elsewhere is to be detached now, and nothing prevents that.
func (c *attachDetachController) isAboutToDetach(l *link, v *volume) bool {
	if l.isWanted() || l.state == detached || c.world.nodes[l.node].report.failing {
		return false
	}
	if c.plugins.pluginOf(l.place, v.known) == "" {
		return false
	}
	key := v.known.keyFor(l.node)
	if o := v.matching(key); o != nil && o.running || v.backoff(key, detaching, c.Clock.Now()) > 0 {
		return false
	}
	return c.verdictOn(l).detach
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
	mounted := mayBeMounted(n, l.volume, c.world.nodes[l.node].inUse[l.volume], l.state == uncertain && c.hasAttachment(l))
	return judgeDetach(mounted, conditionOf(n), waited, c.disableForceDetachOnTimeout)
}

// hasAttachment reports whether the cache shows the VolumeAttachment of a link.
func (c *attachDetachController) hasAttachment(l *link) bool {
	_, found, err := reconcile.Found(c.attachments.Get(l.vaName))
	return found && err == nil
}
