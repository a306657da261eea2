package selinuxwarning

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/volumes"
)

func (c *warner) reconcile(ctx context.Context, key types.NamespacedName) error {
	pod, found, err := reconcile.Found(c.pods.Pods(key.Namespace).Get(key.Name))
	if err != nil {
		return err
	}
	if !found || pods.IsTerminal(pod) {
		c.uses.remove(key)
		return nil
	}
	c.uses.keepOnly(key, pod.UID)
	e := evaluate(pod, func(volume *corev1.Volume) (volumes.Spec, error) {
		return c.resolver.Resolve(klog.FromContext(ctx), pod, volume)
	})
	for _, name := range e.ambiguous {
		c.Record(ambiguous(pod, name))
	}
	for _, use := range e.uses {
		conflicts, err := c.uses.set(key, pod.UID, use, func() (bool, error) { return c.isMountable(use.driver) })
		if err != nil {
			return err
		}
		if err := c.report(conflicts); err != nil {
			return err
		}
	}
	if len(e.errs) > 0 {
		// None is a failure of the controller: most pods wait for their claims to be bound.
		return reconcile.Requeue(fmt.Errorf("%s failed with: %w", key, utilerrors.NewAggregate(e.errs)))
	}
	return nil
}

// isMountable reports whether volumes are mounted with a label: those of a CSI driver if it says so,
// and all that have no driver, which are those of Fibre Channel and iSCSI.
func (c *warner) isMountable(driver string) (bool, error) {
	if driver == "" {
		return true, nil
	}
	object, found, err := reconcile.Found(c.drivers.Get(driver))
	return found && mountsWithLabel(object), err
}

// report emits an event on the pod of each conflict. Each is reported only once, so a pod that is gone must not keep
// others from hearing of theirs.
func (c *warner) report(conflicts []conflict) error {
	for both := range slices.Chunk(conflicts, 2) {
		if err := c.reportBetween(both); err != nil {
			return err
		}
	}
	return nil
}

// reportBetween reports a conflict of two pods, as each of them sees it, until one of them is gone.
func (c *warner) reportBetween(both []conflict) error {
	for _, one := range both {
		pod, found, err := reconcile.Found(c.pods.Pods(one.pod.Namespace).Get(one.pod.Name))
		if !found || !c.uses.has(one.pod, pod.UID) {
			return err
		}
		c.Record(conflicting(pod, one))
	}
	return nil
}
