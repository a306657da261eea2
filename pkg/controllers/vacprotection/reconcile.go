package vacprotection

import (
	"context"
	"errors"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/protection"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (c *protectionController) reconcile(ctx context.Context, name string) error {
	class, found, err := reconcile.Found(c.classes.Get(name))
	if !found {
		return err
	}
	switch {
	case finalizer.IsMissing(class):
		if err := c.change(ctx, class, finalizer.IsMissing, protection.Add); err != nil {
			return fmt.Errorf("protecting volume attributes class %s: %w", name, err)
		}
	case finalizer.Blocks(class):
		used, err := c.isUsed(name)
		if err != nil {
			return fmt.Errorf("looking up what refers to volume attributes class %s: %w", name, err)
		}
		if used {
			return nil
		}
		if err := c.change(ctx, class, finalizer.Blocks, protection.Remove); err != nil {
			return fmt.Errorf("releasing volume attributes class %s: %w", name, err)
		}
	}
	return nil
}

type (
	update = protection.Update[*storagev1.VolumeAttributesClass]
	change = func(context.Context, protection.Finalizer, *storagev1.VolumeAttributesClass, update) error
)

// change changes the finalizers of a class, unless the class is gone. Only a read or the cache proves that it is: an
// admission webhook may also answer a write with NotFound, so the class is then reconciled again. After a conflict the
// cache is behind, for an unknown time, so the change is made to the live class if that still needs it.
func (c *protectionController) change(ctx context.Context, class *storagev1.VolumeAttributesClass, needs func(metav1.Object) bool, apply change) error {
	classes := c.Client.StorageV1().VolumeAttributesClasses()
	err := apply(ctx, finalizer, class, classes.Update)
	if apierrors.IsConflict(err) {
		live, failed := classes.Get(ctx, class.Name, metav1.GetOptions{})
		switch {
		case controller.Absent(failed):
			return nil
		case failed != nil:
			return errors.Join(err, failed)
		case live.UID != class.UID || !needs(live):
			return nil // the event of that queues it
		}
		err = apply(ctx, finalizer, live, classes.Update)
	}
	if apierrors.IsNotFound(err) {
		c.queue.AddAfter(class.Name, reconcile.RecheckAfter)
		return nil
	}
	return err
}

// isUsed reports whether a volume or a claim refers to a class.
func (c *protectionController) isUsed(name string) (bool, error) {
	volumes, err := c.volumes.IndexKeys(classIndex, name)
	if err != nil || len(volumes) > 0 {
		return true, err
	}
	claims, err := c.claims.IndexKeys(classIndex, name)
	return err != nil || len(claims) > 0, err
}
