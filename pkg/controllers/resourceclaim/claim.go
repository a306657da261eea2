package resourceclaim

import (
	"context"
	"fmt"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// recheck is the delay before a claim is reconciled again if the deletion of a consumer may never produce an event: the
// cache does not show the consumer, or not that it uses claims.
const recheck = 30 * time.Second

// reconcileClaim ends the reservations of consumers that are gone, frees the claim with the last of
// them, and deletes it if it was generated for a pod that is done.
func (c *claimController) reconcileClaim(ctx context.Context, key key) error {
	claim, found, err := reconcile.Found(c.claims.ResourceClaims(key.Namespace).Get(key.Name))
	if !found {
		return err
	}
	if settled, retry := c.memory.ofClaims.Settled(claim); !settled { // it was deleted
		c.queue.AddAfter(key, retry)
		return nil
	}
	claim = c.memory.written.Newest(claim, claim)
	remaining, unseen, err := c.consumersOf(ctx, claim)
	if err != nil {
		return err
	}
	if unseen {
		c.queue.AddAfter(key, recheck)
	}
	claim, err = c.release(ctx, claim, remaining)
	if err != nil || len(remaining) > 0 {
		return err
	}
	return c.deleteUnused(ctx, claim)
}

// release ends the reservations of a claim but for those that remain. It returns the claim as it is
// then.
func (c *claimController) release(ctx context.Context, claim *resourcev1.ResourceClaim, remaining []consumer) (*resourcev1.ResourceClaim, error) {
	ends := len(remaining) < len(claim.Status.ReservedFor)
	if !ends && !(isProtected(claim) && claim.DeletionTimestamp != nil && len(remaining) == 0) {
		return claim, nil
	}
	if ends || claim.Status.Allocation != nil {
		updated, err := c.putStatus(ctx, released(claim, remaining))
		if err != nil {
			return nil, stale(err, fmt.Sprintf("releasing claim %s", klog.KObj(claim)))
		}
		claim = updated
	}
	if claim.Status.Allocation != nil || !isProtected(claim) {
		return claim, nil
	}
	return c.unprotect(ctx, claim)
}

func isProtected(claim *resourcev1.ResourceClaim) bool {
	return slices.Contains(claim.Finalizers, resourcev1.Finalizer)
}

// released is a claim with the reservations that remain. If there are none it is deallocated, unless
// it is not protected: then somebody else allocated it.
func released(claim *resourcev1.ResourceClaim, remaining []consumer) *resourcev1.ResourceClaim {
	claim = claim.DeepCopy()
	claim.Status.ReservedFor = remaining
	if len(remaining) == 0 && isProtected(claim) {
		claim.Status.Allocation = nil
	}
	return claim
}

// unprotect removes the finalizer from a claim that is not allocated.
func (c *claimController) unprotect(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	free := claim.DeepCopy()
	free.Finalizers = slices.DeleteFunc(free.Finalizers, func(f string) bool { return f == resourcev1.Finalizer })
	updated, err := c.Client.ResourceV1().ResourceClaims(claim.Namespace).Update(ctx, free, metav1.UpdateOptions{})
	if err != nil {
		c.memory.ofClaims.Answered(claim, err)
		return nil, stale(err, fmt.Sprintf("removing the finalizer of claim %s", klog.KObj(claim)))
	}
	c.memory.written.Wrote(updated, updated)
	return updated, nil
}

// putStatus writes the status of a claim, and returns the claim as it is then.
func (c *claimController) putStatus(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	updated, err := c.Client.ResourceV1().ResourceClaims(claim.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		c.memory.ofClaims.Answered(claim, err)
		return nil, err
	}
	c.memory.written.Wrote(updated, updated)
	return updated, nil
}

// deleteUnused deletes a claim without consumers that was generated for a pod which is done. That of
// a pod that is gone is left to the garbage collector.
func (c *claimController) deleteUnused(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	owner := podOf(claim)
	if owner == nil || claim.DeletionTimestamp != nil {
		return nil
	}
	pod, found, err := reconcile.Found(c.pods.Pods(claim.Namespace).Get(owner.Name))
	if err != nil {
		return fmt.Errorf("lookup pod: %w", err)
	}
	if !found || pod.UID == owner.UID && !isDone(pod) {
		return nil
	}
	if pod.UID != owner.UID {
		if exists, err := c.existsLive(ctx, claim.Namespace, podConsumer(owner)); exists || err != nil {
			return err
		}
	}
	return c.deleteClaim(ctx, claim)
}

// deleteClaim deletes a claim unless it has changed.
func (c *claimController) deleteClaim(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	deleted := c.memory.ofClaims
	deleted.Deleting(claim, claimResource, claim)
	err := c.Client.ResourceV1().ResourceClaims(claim.Namespace).Delete(ctx, claim.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion},
	})
	switch {
	case err == nil:
		klog.FromContext(ctx).V(2).Info("Deleted the generated ResourceClaim of a pod that is done", "claim", klog.KObj(claim))
		return nil
	case apierrors.IsNotFound(err): // or the claim exists, and an admission webhook gave this answer
		deleted.DeleteUnanswered(claim, claimResource, claim)
		c.queue.AddAfter(keyOf(kindClaim, claim), reconcile.RecheckAfter)
		return nil
	}
	deleted.DeleteFailed(claim, claimResource, claim)
	deleted.Answered(claim, err)
	return stale(err, fmt.Sprintf("delete unused generated claim %s", klog.KObj(claim)))
}
