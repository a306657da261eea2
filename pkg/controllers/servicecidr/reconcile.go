package servicecidr

import (
	"context"
	"encoding/json"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (c *cidrController) reconcile(ctx context.Context, name string) error {
	cidr, found, err := reconcile.Found(c.cidrs.Get(name))
	switch {
	case !found:
		c.holders.set(name, "")
		return err
	case cidr.DeletionTimestamp != nil:
		return c.release(ctx, cidr)
	}
	return c.guard(ctx, cidr)
}

// guard ensures that a ServiceCIDR has the finalizer and the condition Ready. If it may be gone, its status is not
// written: if it is gone, that would fail, too.
func (c *cidrController) guard(ctx context.Context, cidr *networkingv1.ServiceCIDR) error {
	if finalizer.IsMissing(cidr) {
		if found, err := c.patchFinalizers(ctx, cidr, "finalizers"); err != nil || !found {
			return err
		}
	}
	if err := c.show(ctx, cidr, ready); err != nil {
		c.RecordFailure(ctx, cannotBeReady(cidr))
		return err
	}
	return nil
}

// release removes the finalizer from a ServiceCIDR once no address depends on it.
func (c *cidrController) release(ctx context.Context, cidr *networkingv1.ServiceCIDR) error {
	held, err := c.held(rangeOf(cidr))
	if err != nil {
		return err
	}
	if held {
		return c.show(ctx, cidr, terminating)
	}
	if rest := grace - c.Clock.Since(cidr.DeletionTimestamp.Time); rest > 0 {
		c.queue.AddAfter(cidr.Name, min(rest, grace)) // a clock that is behind may be set right before the rest is over
		return nil
	}
	if !finalizer.Blocks(cidr) {
		return nil
	}
	if held, err = c.heldLive(ctx, cidr); err != nil {
		return fmt.Errorf("finding out what depends on ServiceCIDR %s: %w", cidr.Name, err)
	}
	if held {
		c.queue.AddAfter(cidr.Name, reconcile.RecheckAfter) // the cache does not show yet by what
		return c.show(ctx, cidr, terminating)
	}
	if released, err := c.patchFinalizers(ctx, cidr, "$deleteFromPrimitiveList/finalizers"); err != nil || !released {
		return err
	}
	klog.FromContext(ctx).Info("Let a ServiceCIDR go: no address depends on it", "serviceCIDR", cidr.Name)
	return nil
}

// patchFinalizers adds the finalizer to a ServiceCIDR or removes it. It reports false if the answer is that the
// ServiceCIDR does not exist. An admission webhook may send the same answer, so the ServiceCIDR is reconciled again
// later. A conflict is returned: the name belongs to another ServiceCIDR by now, or somebody has changed this one.
func (c *cidrController) patchFinalizers(
	ctx context.Context, cidr *networkingv1.ServiceCIDR, field string,
) (bool, error) {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": cidr.UID, field: []string{string(finalizer)}},
	})
	if err != nil {
		return false, fmt.Errorf("encoding the finalizers of a ServiceCIDR: %w", err)
	}
	_, err = c.Client.NetworkingV1().ServiceCIDRs().Patch(ctx, cidr.Name, types.StrategicMergePatchType, body,
		metav1.PatchOptions{})
	if err == nil {
		return true, nil
	}
	if apierrors.IsNotFound(err) {
		c.queue.AddAfter(cidr.Name, reconcile.RecheckAfter)
		return false, nil
	}
	return false, fmt.Errorf("changing the finalizers of ServiceCIDR %s: %w", cidr.Name, err)
}
