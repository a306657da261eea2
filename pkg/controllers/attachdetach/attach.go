package attachdetach

import (
	"context"
	"errors"
	"fmt"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

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
)

// attach requests that a volume be attached, and reports whether its completion has to be waited for. deleted is
// the UID of a VolumeAttachment whose deletion was requested.
func (c *attachDetachController) attach(
	ctx context.Context, at place, o *operation, deleted types.UID,
) (waits bool, err error) {
	switch o.what.plugin {
	case csiPlugin:
		if required, _ := c.plugins.attachRequired(o.what.CSI().Driver); !required {
			return false, errNotAttachable
		}
		return true, c.createVA(ctx, at, o, deleted)
	case iscsiPlugin, fcPlugin:
		return false, nil
	default:
		o.device, err = c.plugins.flex.attach(ctx, o.what.Spec, at.node)
		return false, err
	}
}

// createVA creates the VolumeAttachment of a place unless there is one.
func (c *attachDetachController) createVA(ctx context.Context, at place, o *operation, deleted types.UID) error {
	name := vaNameOf(at)
	va, found, err := reconcile.Found(c.attachments.Get(name))
	if err != nil {
		return fmt.Errorf("kubernetes.io/csi: failed to get volume attachment from lister: %w", err)
	}
	if found && va.UID == deleted && va.DeletionTimestamp == nil {
		if err := c.confirmNotDeleted(ctx, at, name, deleted); err != nil {
			return err
		}
	}
	if found {
		return nil
	}
	created, err := c.Client.StorageV1().VolumeAttachments().Create(ctx, vaFor(at, o.what), metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err): // the cache will show it
		return nil
	case err != nil:
		return fmt.Errorf("kubernetes.io/csi: attacher.Attach failed: %w", err)
	}
	o.uid = created.UID
	return nil
}

// confirmNotDeleted returns an error if the requested deletion of a VolumeAttachment took place, which the
// cache may not show yet.
func (c *attachDetachController) confirmNotDeleted(
	ctx context.Context, at place, name string, deleted types.UID,
) error {
	va, err := c.Client.StorageV1().VolumeAttachments().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return errBeingDeleted
	case err != nil:
		return fmt.Errorf("kubernetes.io/csi: attacher.Attach failed: %w", err)
	case va.UID != deleted || va.DeletionTimestamp != nil:
		return errBeingDeleted
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.world.links[at]; l != nil {
		l.deleted = ""
	}
	return nil
}

// vaFor makes the VolumeAttachment of a place.
func vaFor(at place, what identified) *storagev1.VolumeAttachment {
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: vaNameOf(at)},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: what.CSI().Driver, NodeName: at.node},
	}
	if what.Inline {
		va.Spec.Source.InlineVolumeSpec = &what.PV.Spec
	} else {
		va.Spec.Source.PersistentVolumeName = ptr.To(what.PV.Name)
	}
	return va
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

var errTimedOut = errors.New("timed out")

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
	switch {
	case ended.kind == attaching && err == nil:
		c.world.markAttached(l.place, ended.what, ended.device)
		c.announce(l.node, c.world.delayOfAttached(l.node))
		c.doubt(l)
		for _, pod := range ended.pods {
			c.Record(volumeAttached(pod, ended.what.Name()))
		}
	case ended.kind == attaching && errors.Is(err, errNotAttachable):
		for _, pod := range ended.pods {
			c.Record(notAttachable(pod, ended.what.Name()))
		}
	case ended.kind == attaching:
		c.world.markUncertain(l.place, ended.what)
		for _, pod := range ended.pods {
			c.RecordFailure(ctx, attachFailed(pod, ended.what.Name(), err))
		}
	case err == nil:
		c.world.markDetached(l)
	case errors.As(err, &unconfirmed{}): // no request was sent: it stays attached, and no other node gets it
		l.released = release{} // the next detach reads the node again
	default:
		c.world.markUncertain(l.place, ended.what)
	}
	c.world.tidy(l)
	c.awaken(l.place)
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
