package attachdetach

import (
	"context"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
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
// cache may not show yet, or if it may take place later.
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
	l := c.world.links[at]
	switch {
	case l == nil:
	case c.Clock.Now().Before(l.late):
		return errMayBeDeleted
	default:
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
