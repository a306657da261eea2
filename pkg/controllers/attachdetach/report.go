package attachdetach

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/requests"
	"kcmd.dev/pkg/controllers/kit/writes"
)

const (
	// reportPeriod is the minimum time between two writes of volumesAttached of a node.
	reportPeriod = 100 * time.Millisecond
	// reportDelay is the time in which changes of volumesAttached become one write.
	reportDelay = 10 * time.Millisecond
	// lastReportRetry is the longest time after which a write that has failed is repeated.
	lastReportRetry = 10 * time.Second
	// gatherPeriod stands in for reportDelay if nobody waits for the change, or more volumes are being attached to the
	// node.
	gatherPeriod = time.Second
	// releaseLifetime is how long the answer to a write stands in for a live read of the node.
	releaseLifetime = 10 * time.Second
)

// release records that the answer to a status write showed a volume neither in volumesAttached nor in volumesInUse. A
// kubelet that has not yet reported a volume in use cannot mount it afterwards.
type release struct {
	uid types.UID
	at  time.Time
}

// holds reports whether a release is one of the Node with the UID, and recent.
func (r release) holds(uid types.UID, now time.Time) bool {
	return !r.at.IsZero() && r.uid == uid && now.Sub(r.at) <= releaseLifetime
}

// report is what a node has been told about its attached volumes.
type report struct {
	// known reports whether shown is what the API server has, in the Node of that UID, as of the
	// version. It is false before anything was read or written, and after a write that failed: that one
	// may have been executed.
	known   bool
	uid     types.UID
	version string
	shown   []corev1.AttachedVolume
	// sending reports whether a write is under way, sent is its content. seen reports whether a state was taken from
	// the cache since it was sent.
	sending, seen bool
	sent          []corev1.AttachedVolume
	// failing reports whether the last write failed. It is repeated.
	failing bool
	last    time.Time
	// late is until when a write may be executed that had no answer. It may report again what a later one withdraws.
	late time.Time
}

// reportBackoff delays writes that have failed, separately for each node, without a common limit: a status that is not
// written keeps volumes from being detached, and many nodes may be waiting.
func reportBackoff() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](reportPeriod, lastReportRetry)
}

// mayShow reports whether a kubelet may be told that a volume is attached.
func (r report) mayShow(name corev1.UniqueVolumeName) bool {
	is := func(v corev1.AttachedVolume) bool { return v.Name == name }
	return !r.known || slices.ContainsFunc(r.shown, is) || r.sending && slices.ContainsFunc(r.sent, is)
}

// see takes over what a Node shows, unless something newer is known. Versions are compared only for a while after a
// write: in a cluster that is restored from a backup, they go back.
func (r *report) see(n *corev1.Node, now time.Time) {
	if r.uid == n.UID && !controller.IsOlder(r.version, n.ResourceVersion) && now.Sub(r.last) < writes.Timeout {
		return
	}
	if r.uid != n.UID {
		r.known = !r.sending && !r.failing // else the write may have been to this one
	}
	r.uid, r.version, r.shown, r.seen = n.UID, n.ResourceVersion, n.Status.VolumesAttached, true
}

// answered takes over what the answer to a write shows. Only what was seen meanwhile can be newer: a higher version
// from before is one of the cluster before it was restored from a backup.
func (r *report) answered(written *corev1.Node, list []corev1.AttachedVolume) {
	if r.seen && (r.uid != written.UID || controller.IsOlder(written.ResourceVersion, r.version)) {
		return
	}
	r.uid, r.version, r.shown = written.UID, written.ResourceVersion, list
}

// left is a report as it is handed over. What a write that has failed left behind is not known to the successor either.
func (r report) left() report {
	return report{known: r.known && !r.sending, uid: r.uid, version: r.version, shown: r.shown, last: r.last, late: r.late}
}

// takenOver is a report of the predecessor together with what the cache shows of the node.
func (r report) takenOver(n *corev1.Node, now time.Time) report {
	known := r.known
	r.see(n, now)
	r.known = r.known && known
	return r
}

// volumesAttached is what is to be reported for a node, in order of names.
func (w *world) volumesAttached(n *node) []corev1.AttachedVolume {
	var list []corev1.AttachedVolume
	for name, l := range n.links {
		if l.listed {
			list = append(list, corev1.AttachedVolume{Name: name, DevicePath: w.volumes[name].devicePath})
		}
	}
	slices.SortFunc(list, func(a, b corev1.AttachedVolume) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// isCurrent reports whether a node shows what is to be reported.
func (w *world) isCurrent(n *node) bool {
	if !n.report.known {
		return false
	}
	shown := slices.Clone(n.report.shown)
	slices.SortFunc(shown, func(a, b corev1.AttachedVolume) int { return cmp.Compare(a.Name, b.Name) })
	return slices.Equal(shown, w.volumesAttached(n))
}

// reportAgain has the report of a node written again, since the node shows another one than was thought.
func (c *attachDetachController) reportAgain(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.world.nodes[name]; n != nil {
		n.report.known = false
		c.enqueueReport(name, reportDelay)
	}
}

// addToReport adds an attached volume to the report of its node.
func (c *attachDetachController) addToReport(l *link) {
	if l.state == attached && !l.listed {
		l.listed, l.released = true, release{}
		c.enqueueReport(l.node, reportDelay)
	}
}

// enqueueReport enqueues the write of the status of a node after a delay, or relies on one that is already scheduled.
// After a failed write, a retry is scheduled anyway.
func (c *attachDetachController) enqueueReport(name string, delay time.Duration) {
	n := c.world.nodes[name]
	if n == nil || n.report.failing {
		return
	}
	c.nodeQueue.AddAfter(name, max(delay, reportPeriod-c.Clock.Since(n.report.last)))
}

// delayOfAttached is how long the report of a volume that was attached may wait for others that are being attached to
// the node.
func (w *world) delayOfAttached(node string) time.Duration {
	for name := range w.nodes[node].links {
		if o := w.volumes[name].running(node); o != nil && o.kind == attaching {
			return gatherPeriod
		}
	}
	return reportDelay
}

// delayOfWithdrawal is how long a volume that is to be detached may stay reported: only briefly if it is wanted on
// another node.
func (v *volume) delayOfWithdrawal() time.Duration {
	for _, l := range v.links {
		if l.isWanted() {
			return reportDelay
		}
	}
	return gatherPeriod
}

// reconcileNode writes which volumes are attached to a node, if that has changed, and enqueues the places that wait
// for the write.
func (c *attachDetachController) reconcileNode(ctx context.Context, name string) error {
	target, list, err := c.prepareReport(name)
	if target == nil || err != nil {
		return err
	}
	written, err := c.writeReport(ctx, target, list)
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.world.nodes[name]
	repeated := n.report.failing
	n.report.sending, n.report.sent, n.report.last = false, nil, c.Clock.Now()
	n.report.known, n.report.failing = err == nil, err != nil
	switch {
	case err == nil:
		n.report.answered(written, list)
		n.release(written, list, n.report.last)
	case requests.MayHaveCreated(err):
		n.report.late = n.report.last.Add(requests.LateWithin)
	}
	// What changed while the write was sent was left to it, see enqueueReport.
	if repeated && !n.report.failing && !c.world.isCurrent(n) {
		c.enqueueReport(name, reportDelay)
	}
	c.afterReport(name)
	if err != nil {
		return fmt.Errorf("reporting the volumes that are attached to node %s: %w", name, err)
	}
	return nil
}

// release records which volumes a Node has released at this time: those that are neither in the list that was written
// nor in use by the answer. While another write may come late, the answer does not prove it.
func (n *node) release(written *corev1.Node, list []corev1.AttachedVolume, at time.Time) {
	if at.Before(n.report.late) {
		return
	}
	kept := sets.New(written.Status.VolumesInUse...)
	for _, v := range list {
		kept.Insert(v.Name)
	}
	for name, l := range n.links {
		if !l.listed && !kept.Has(name) {
			l.released = release{written.UID, at}
		}
	}
}

// prepareReport returns the node to write and what to write, nil if there is nothing to do. A node that
// is not in the cache needs no report.
func (c *attachDetachController) prepareReport(
	name string,
) (target *corev1.Node, list []corev1.AttachedVolume, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.world.nodes[name]
	if n == nil {
		return nil, nil, nil
	}
	target, found, err := reconcile.Found(c.nodes.Get(name))
	if err != nil {
		return nil, nil, err
	}
	if !found {
		n.report = report{known: true}
		c.afterReport(name)
		return nil, nil, nil
	}
	n.report.see(target, c.Clock.Now())
	if c.world.isCurrent(n) {
		n.report.failing = false
		c.afterReport(name)
		return nil, nil, nil
	}
	list = c.world.volumesAttached(n)
	n.report.sending, n.report.seen, n.report.sent = true, false, list
	return target, list, nil
}

// afterReport enqueues the attachments of a node that no pod needs, and the places that wait for them.
func (c *attachDetachController) afterReport(name string) {
	n := c.world.nodes[name]
	for _, l := range n.links {
		if !l.isWanted() && l.state != detached && !l.listed {
			c.enqueueBlocked(l.place)
		}
	}
	c.world.tidyNode(name)
}

// writeReport replaces volumesAttached of a node, on condition of its UID.
func (c *attachDetachController) writeReport(
	ctx context.Context, target *corev1.Node, list []corev1.AttachedVolume,
) (*corev1.Node, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": target.UID},
		"status":   map[string]any{"volumesAttached": list},
	})
	if err != nil {
		return nil, err
	}
	written, err := c.Client.CoreV1().Nodes().Patch(ctx, target.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("waiting for the cache to show that it is gone: %w", err)
	}
	return written, err
}
