package daemonset

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// counts is the part of the status that counts nodes.
type counts struct {
	desired, current, misscheduled, ready, updated, available, unavailable int32
}

// count counts the nodes.
func (o *observation) count() counts {
	var c counts
	for i := range o.sites {
		s := &o.sites[i]
		pod := s.first()
		switch {
		case !s.run && pod != nil:
			c.misscheduled++
		case s.run:
			c.desired++
		}
		if !s.run || pod == nil {
			continue
		}
		c.current++
		if pods.IsReady(pod) {
			c.ready++
			if o.isAvailable(pod) {
				c.available++
			}
		}
		if o.isUpdated(pod) {
			c.updated++
		}
	}
	c.unavailable = c.desired - c.available
	return c
}

func countsOf(s appsv1.DaemonSetStatus) counts {
	return counts{
		desired:      s.DesiredNumberScheduled,
		current:      s.CurrentNumberScheduled,
		misscheduled: s.NumberMisscheduled,
		ready:        s.NumberReady,
		updated:      s.UpdatedNumberScheduled,
		available:    s.NumberAvailable,
		unavailable:  s.NumberUnavailable,
	}
}

// withCounts returns a copy of a set that has the counts in its status.
func withCounts(ds *appsv1.DaemonSet, c counts, observedGeneration int64) *appsv1.DaemonSet {
	out := ds.DeepCopy()
	s := &out.Status
	s.ObservedGeneration = observedGeneration
	s.DesiredNumberScheduled = c.desired
	s.CurrentNumberScheduled = c.current
	s.NumberMisscheduled = c.misscheduled
	s.NumberReady = c.ready
	s.UpdatedNumberScheduled = c.updated
	s.NumberAvailable = c.available
	s.NumberUnavailable = c.unavailable
	return out
}

// urgent reports whether somebody may be waiting for a status: because a change of the spec was
// observed, a count reached the desired number, pods are no longer ready or available though all were, or the last
// misscheduled pod is gone.
func urgent(was, is counts, newGeneration bool) bool {
	reached := func(was, is int32, desired int32) bool { return was != is && is == desired }
	lost := func(was, is int32, desired int32) bool { return was == desired && is < was }
	return newGeneration ||
		reached(was.current, is.current, is.desired) ||
		reached(was.ready, is.ready, is.desired) ||
		reached(was.updated, is.updated, is.desired) ||
		reached(was.available, is.available, is.desired) ||
		lost(was.ready, is.ready, was.desired) ||
		lost(was.available, is.available, was.desired) ||
		reached(was.misscheduled, is.misscheduled, 0)
}

// report updates the status, after a short delay if the change is not urgent, and enqueues the
// set for when a pod becomes available.
func (c *daemonSetController) report(ctx context.Context, o *observation, observedGeneration int64) error {
	was, ds := countsOf(o.ds.Status), o.ds
	is := o.count()
	newGeneration := ds.Status.ObservedGeneration < observedGeneration
	changed := was != is || newGeneration
	if changed && (urgent(was, is, newGeneration) || !c.owners.PutOff(ds, is, writes.CountsWindow)) {
		if err := c.writeStatus(ctx, ds, is, observedGeneration); err != nil {
			return fmt.Errorf("error storing status for daemon set %s: %w", klog.KObj(ds), err)
		}
	}
	if after, ok := c.nextAvailability(o, is); ok {
		c.owners.EnqueueAfter(ds, after)
	}
	return nil
}

// nextAvailability returns when a pod may become available next, and false if none will by time alone. A rollout that
// surges waits for pods that are not counted.
func (c *daemonSetController) nextAvailability(o *observation, is counts) (time.Duration, bool) {
	seconds := o.ds.Spec.MinReadySeconds
	if after, ok := pods.NextAvailabilityCheck(o.claimed, seconds, o.now, c.Clock); ok {
		return after, true
	}
	return time.Duration(seconds) * time.Second, seconds > 0 && is.ready != is.available
}

// writeStatus updates the counts. After any error it retries once with the live object.
func (c *daemonSetController) writeStatus(
	ctx context.Context, ds *appsv1.DaemonSet, is counts, observedGeneration int64,
) error {
	klog.FromContext(ctx).V(4).Info("Updating status", "daemonSet", klog.KObj(ds), "counts", fmt.Sprintf("%+v", is))
	client := c.Client.AppsV1().DaemonSets(ds.Namespace)
	written, err := client.UpdateStatus(ctx, withCounts(ds, is, observedGeneration), metav1.UpdateOptions{})
	if err != nil {
		live, getErr := client.Get(ctx, ds.Name, metav1.GetOptions{})
		if getErr != nil {
			return getErr
		}
		if live.UID != ds.UID {
			return reconcile.Requeue(fmt.Errorf("it was recreated: got uid %s, wanted %s", live.UID, ds.UID))
		}
		written, err = client.UpdateStatus(ctx, withCounts(live, is, observedGeneration), metav1.UpdateOptions{})
		if err != nil {
			return err
		}
	}
	c.owners.WroteStatus(ds, written)
	return nil
}
