package attachdetach

import (
	"context"
	"errors"
	"fmt"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/volumes/operations"
)

const (
	// errorGrace is how long errors of a driver do not count, since they may be of an earlier attempt.
	errorGrace = 500 * time.Millisecond
	// driverWait is how long a driver has to attach or detach a volume.
	driverWait = 2 * time.Minute
)

var (
	errNotAttachable = errors.New("the volume needs no attach, or there is no driver that attaches it")
	errBeingDeleted  = errors.New("volume attachment is being deleted")
	errMayBeDeleted  = errors.New("the deletion of the volume attachment had no answer, and may still be executed")
	errTimedOut      = errors.New("timed out")
)

// check ends an operation if its VolumeAttachment shows the outcome, or if it has taken too long. It reports
// whether it did.
func (c *attachDetachController) check(ctx context.Context, l *link, o *operation) (ended bool) {
	va, found, err := reconcile.Found(c.attachments.Get(l.vaName))
	if !found || err != nil {
		va = nil
	}
	waited := c.Clock.Since(o.since)
	var outcome error
	if o.kind == attaching {
		ended, outcome = attachOutcome(va, o.uid, l.deleted, waited)
	} else {
		ended, outcome = detachOutcome(va, o.uid, waited)
	}
	if ended {
		if errors.Is(outcome, errTimedOut) {
			outcome = timedOut(l.place, o)
		}
		c.finish(ctx, l, o, outcome)
		return true
	}
	next := driverWait - waited
	if waited < errorGrace {
		next = errorGrace - waited
	}
	c.placeQueue.AddAfter(l.place, next)
	return false
}

// attachOutcome judges whether an attach that has waited for some time has ended. va is the
// VolumeAttachment as cached, nil if there is none. uid is the UID of the one that the attach created,
// deleted that of one whose deletion was requested.
func attachOutcome(
	va *storagev1.VolumeAttachment, uid, deleted types.UID, waited time.Duration,
) (ended bool, err error) {
	switch {
	case va == nil || uid != "" && va.UID != uid:
	case va.DeletionTimestamp != nil || deleted != "" && va.UID == deleted:
		return true, errBeingDeleted
	case va.Status.Attached:
		return true, nil
	case va.Status.AttachError != nil && waited >= errorGrace:
		return true, errors.New(va.Status.AttachError.Message)
	}
	return waited >= driverWait, errTimedOut
}

// detachOutcome judges whether a detach that has waited for some time has ended. va is the
// VolumeAttachment as cached, nil if there is none, uid the UID of the one that was deleted.
func detachOutcome(va *storagev1.VolumeAttachment, uid types.UID, waited time.Duration) (ended bool, err error) {
	switch {
	case va == nil || va.UID != uid:
		return true, nil
	case va.Status.DetachError != nil && waited >= errorGrace:
		return true, errors.New(va.Status.DetachError.Message)
	}
	return waited >= driverWait, errTimedOut
}

func timedOut(at place, o *operation) error {
	_, id, _ := split(at.volume)
	driver, handle, _ := splitCSI(id)
	if o.kind == attaching {
		return fmt.Errorf("timed out waiting for external-attacher of %s CSI driver to attach volume %s", driver, handle)
	}
	return fmt.Errorf("timed out waiting for external-attacher of unknown CSI driver to detach volume %s", handle)
}

// finish records how an operation ended, and enqueues every place that waited for it.
func (c *attachDetachController) finish(ctx context.Context, l *link, o *operation, err error) {
	now, logger := c.Clock.Now(), klog.FromContext(ctx)
	ended := *o
	c.world.volumes[l.volume].end(o, err, now)
	c.metrics.operations.Observe(metricOf(l.place, ended, err), now.Sub(ended.begun), err)
	if err != nil {
		logger.Error(err, "Operation with a volume failed", "operation", ended.kind, "volume", l.volume, "node", l.node)
	}
	if ended.kind == attaching {
		c.attachEnded(ctx, l, ended, err)
	} else {
		c.detachEnded(l, ended, err)
	}
	c.world.tidy(l)
	c.enqueueBlocked(l.place)
}

func (c *attachDetachController) attachEnded(ctx context.Context, l *link, o operation, err error) {
	switch {
	case err == nil:
		c.world.markAttached(l.place, o.what, o.device)
		c.enqueueReport(l.node, c.world.delayOfAttached(l.node))
		c.doubt(l)
		for _, pod := range o.pods {
			c.Record(volumeAttached(pod, o.what.Name()))
		}
	case errors.Is(err, errNotAttachable):
		for _, pod := range o.pods {
			c.Record(notAttachable(pod, o.what.Name()))
		}
	default:
		c.world.markUncertain(l.place, o.what)
		for _, pod := range o.pods {
			c.RecordFailure(ctx, attachFailed(pod, o.what.Name(), err))
		}
	}
}

func (c *attachDetachController) detachEnded(l *link, o operation, err error) {
	switch {
	case err == nil:
		c.world.markDetached(l)
	case errors.As(err, &unconfirmed{}): // no request was sent: it stays attached, and no other node gets it
		l.released = release{} // the next detach reads the node again
	default:
		c.world.markUncertain(l.place, o.what)
	}
}

func metricOf(at place, o operation, err error) operations.Operation {
	metric := operations.Operation{Plugin: o.what.label, Name: o.kind, Migrated: o.what.Migrated}
	switch {
	case errors.Is(err, errNotAttachable):
		if csi := o.what.CSI(); csi != nil { // the driver of a FlexVolume is the label
			metric.Plugin = "UnknownAttachableVolumePlugin:" + csi.Driver
		}
	case metric.Plugin == "":
		metric.Plugin, _, _ = split(at.volume)
	}
	return metric
}
