package pvbinder

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/volumes"
)

func (c *binderController) reconcileClaim(ctx context.Context, key types.NamespacedName) error {
	claim := c.claims.get(key.String())
	if claim == nil {
		return nil
	}
	if fixed := withMigrationAnnotation(claim); fixed != nil {
		var err error
		if claim, err = c.updateClaim(ctx, fixed); err != nil {
			return fmt.Errorf("updating the annotations of claim %s: %w", key, err)
		}
	}
	named := c.volumes.get(claim.Spec.VolumeName)
	plan := judgeClaim(claim, named, c.vac)
	if plan.missing || plan.misbound {
		if err := c.confirm(ctx, claim, plan); err != nil {
			return err
		}
	}
	if plan.action == findVolume {
		return c.match(ctx, claim)
	}
	return c.carryOut(ctx, claim, named, plan)
}

// carryOut does what was decided about a claim.
func (c *binderController) carryOut(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume, plan claimPlan,
) error {
	switch plan.action {
	case bindClaim:
		return c.bind(ctx, v, claim)
	case declareLost:
		return c.setClaimLost(ctx, claim, plan)
	case leavePending:
		c.recordAll(plan.event)
		return c.setClaimPhase(ctx, claim, corev1.ClaimPending, nil)
	case setClass:
		return c.assignClass(ctx, claim, plan.class)
	case provision:
		return c.provision(claim)
	default:
		c.recordAll(plan.event)
		return plan.err
	}
}

// setClaimLost writes the phase Lost once.
func (c *binderController) setClaimLost(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, plan claimPlan,
) error {
	if claim.Status.Phase == corev1.ClaimLost {
		return nil
	}
	return c.setClaimPhase(ctx, claim, corev1.ClaimLost, plan.event)
}

// confirm reads a volume live if the store does not contain it, or shows it bound to another claim, and the
// status of the claim would be cleared because of that: the cache may only be late.
func (c *binderController) confirm(ctx context.Context, claim *corev1.PersistentVolumeClaim, plan claimPlan) error {
	phase := corev1.ClaimPending
	if plan.action == declareLost {
		phase = corev1.ClaimLost
	}
	if claim.Status.Phase == phase {
		return nil
	}
	live, err := c.Client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	missing := controller.Absent(err)
	switch {
	case err != nil && !missing:
		return fmt.Errorf("checking whether volume %s of claim %s exists: %w", claim.Spec.VolumeName, keyOf(claim), err)
	case missing && plan.missing, !missing && plan.misbound && isMisbound(claim, live):
		return nil
	default:
		return reconcile.Requeue(errors.New("the cache does not show the volume of the claim as it is"))
	}
}

// match looks for a volume for a claim and binds it, or does what is possible without one.
func (c *binderController) match(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	delayed, err := volume.IsDelayBindingMode(claim, c.classes)
	if err != nil {
		return err
	}
	found, err := c.findAndReserve(ctx, claim, delayed)
	if found == nil {
		if err != nil {
			return err
		}
		facts, err := c.factsOf(claim, delayed)
		if err != nil {
			return err
		}
		return c.carryOut(ctx, claim, nil, judgeUnmatched(claim, facts))
	}
	if err == nil {
		err = c.bind(ctx, found, claim)
	}
	if err != nil {
		c.timings.fail(operationProvision, claim.UID)
		return err
	}
	c.timings.complete(operationProvision, claim.UID)
	return nil
}

// findAndReserve finds a volume for a claim and reserves it. Only one worker does so at a time: two would choose the
// same volume. It returns nil if there is none. If reserving it fails, it returns the volume and the error.
func (c *binderController) findAndReserve(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, delayed bool,
) (*corev1.PersistentVolume, error) {
	c.reserving.Lock()
	defer c.reserving.Unlock()
	found, err := c.volumes.find(claim, delayed, c.vac)
	if err != nil {
		return nil, fmt.Errorf("error finding PV for claim %q: %w", keyOf(claim), err)
	}
	if found == nil {
		return nil, nil
	}
	return c.reserve(ctx, found, claim)
}

// factsOf finds out what the decision about a claim without a volume depends on.
func (c *binderController) factsOf(claim *corev1.PersistentVolumeClaim, delayed bool) (unmatched, error) {
	facts := unmatched{delayed: delayed}
	if lacksClass(claim) {
		classes, err := c.classes.List(labels.Everything())
		if err != nil {
			c.classMetrics.assigned.Inc()
			c.classMetrics.failed.Inc()
			return facts, err
		}
		if class := defaultClass(classes); class != nil {
			facts.defaultClass = class.Name
		}
	}
	if delayed && !volume.IsDelayBindingProvisioning(claim) {
		pods, err := c.pods.Of(reconcile.KeyOf(claim))
		if err != nil {
			return facts, err
		}
		for _, pod := range pods {
			if !volumes.IsTerminated(pod) && pod.Spec.NodeName == "" {
				facts.waiting = append(facts.waiting, pod.Name)
			}
		}
	}
	return facts, nil
}

// assignClass gives a claim the default class. The event of the update leads to the next step.
func (c *binderController) assignClass(ctx context.Context, claim *corev1.PersistentVolumeClaim, class string) error {
	claim = claim.DeepCopy()
	claim.Spec.StorageClassName = &class
	c.classMetrics.assigned.Inc()
	_, err := c.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		c.classMetrics.failed.Inc()
		c.claims.refused(keyOf(claim), claim, err)
		return fmt.Errorf("can't update PersistentVolumeClaim[%q]: %w", keyOf(claim), err)
	}
	return nil
}

// namespaceOf returns the namespace of the claim of a volume. A volume is not released or
// reclaimed while the controller is paused there: the claim may be about to be restored.
func (c *binderController) namespaceOf(volume string) string {
	v := c.volumes.get(volume)
	if v == nil || v.Spec.ClaimRef == nil {
		return ""
	}
	return v.Spec.ClaimRef.Namespace
}

func (c *binderController) reconcileVolume(ctx context.Context, name string) error {
	v := c.volumes.get(name)
	if v == nil {
		return nil
	}
	if fixed := withMigrationAndFinalizers(v); fixed != nil {
		var err error
		if v, err = c.updateVolume(ctx, fixed); err != nil {
			return fmt.Errorf("updating the annotations and finalizers of volume %s: %w", name, err)
		}
	}
	claim, err := c.claimOf(ctx, v)
	if err != nil {
		return err
	}
	return c.followClaim(ctx, v, claim)
}

// followClaim does for a volume what its claim, nil if there is none, requires.
func (c *binderController) followClaim(
	ctx context.Context, v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim,
) error {
	action := judgeVolume(v, claim)
	if action != release || !isRecycled(v) {
		c.stopRecycle(v.Name, v.UID)
	}
	var err error
	switch action {
	case setAvailable:
		_, err = c.setPhase(ctx, v, corev1.VolumeAvailable, nil)
	case setBound:
		_, err = c.setPhase(ctx, v, corev1.VolumeBound, nil)
	case release:
		if !isOver(v) {
			if v, err = c.setPhase(ctx, v, corev1.VolumeReleased, nil); err != nil {
				return err
			}
		}
		err = c.reclaim(ctx, v)
	case unbind:
		err = c.unbind(ctx, v)
	case reportMismatch:
		c.recordAll(volumeMismatch(v, claim), claimMismatch(v, claim))
	case wakeClaim:
		c.claimQueue.Enqueue(reconcile.Fresh, reconcile.KeyOf(claim))
	default:
		klog.FromContext(ctx).Error(nil, "Unknown action", "action", action)
	}
	return err
}

// unbind makes a volume available again.
func (c *binderController) unbind(ctx context.Context, v *corev1.PersistentVolume) error {
	v, err := c.updateVolume(ctx, unbound(v))
	if err != nil {
		return fmt.Errorf("unbinding volume %s: %w", v.Name, err)
	}
	_, err = c.setPhase(ctx, v, corev1.VolumeAvailable, nil)
	return err
}
