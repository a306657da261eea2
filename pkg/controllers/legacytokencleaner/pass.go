package legacytokencleaner

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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// pass cleans once, and logs why it could not.
func (c *cleaner) pass(ctx, working context.Context) {
	if err := c.clean(ctx, working); err != nil {
		klog.FromContext(ctx).Error(err, "Looking for unused tokens failed, the next try is in a day")
	}
}

// clean examines all Secrets once. No further one is started once ctx has ended; requests use the
// context working.
func (c *cleaner) clean(ctx, working context.Context) error {
	now := c.Clock.Now().UTC()
	from, err := c.trackedFrom(working)
	if err != nil {
		return err
	}
	if now.Before(from.Add(c.period)) {
		return nil
	}
	secrets, err := c.secrets.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing token secrets in the cache: %w", err)
	}
	slices.SortFunc(secrets, func(a, b *corev1.Secret) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	used := newUsage(c)
	for _, secret := range secrets {
		if ctx.Err() != nil {
			return nil
		}
		if c.Pauses.Hold(secret.Namespace) {
			continue
		}
		next, err := c.next(ctx, secret, used, now.Add(-c.period))
		if ctx.Err() != nil {
			return nil // an error may be that of the interrupted list alone
		}
		if err == nil {
			err = c.take(working, next, secret, now)
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "Retiring an unused token failed", "secret", klog.KObj(secret))
		}
	}
	return nil
}

func (c *cleaner) trackedFrom(ctx context.Context) (time.Time, error) {
	tracking, err := c.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, trackingConfigMap, metav1.GetOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("reading config map %s/%s: %w", metav1.NamespaceSystem, trackingConfigMap, err)
	}
	from, err := trackedFrom(tracking)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading config map %s/%s: %w", metav1.NamespaceSystem, trackingConfigMap, err)
	}
	return from, nil
}

// next returns what to do with a Secret. The checks without a request come first.
func (c *cleaner) next(ctx context.Context, secret *corev1.Secret, used *usage, cutoff time.Time) (step, error) {
	idle, err := unused(secret, cutoff)
	if !idle {
		return wait, err
	}
	next := nextStep(secret, cutoff)
	if next == wait {
		return wait, nil
	}
	account, found, err := reconcile.Found(c.accounts.ServiceAccounts(secret.Namespace).Get(secret.Annotations[corev1.ServiceAccountNameKey]))
	if !found || !generated(secret, account) {
		return wait, err
	}
	if inUse, err := used.refersTo(ctx, secret.Namespace, secret.Name); err != nil || inUse {
		return wait, err
	}
	return next, nil
}

func (c *cleaner) take(ctx context.Context, next step, secret *corev1.Secret, now time.Time) error {
	logger := klog.FromContext(ctx).WithValues("secret", klog.KObj(secret))
	switch next {
	case invalidate:
		err := c.invalidate(ctx, secret, dayOf(now))
		if apierrors.IsConflict(err) {
			return nil // it may be in use again
		}
		if err != nil {
			return fmt.Errorf("labelling secret %s/%s as invalid: %w", secret.Namespace, secret.Name, err)
		}
		logger.Info("Marked an unused token as invalid", "since", dayOf(now))
	case remove:
		err := c.Client.CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion},
		})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("deleting secret %s/%s: %w", secret.Namespace, secret.Name, err)
		}
		logger.Info("Deleted an unused token", "invalidSince", secret.Labels[invalidSinceLabel])
	case wait:
	}
	return nil
}

// invalidate labels a Secret, unless it has changed since it was cached.
func (c *cleaner) invalidate(ctx context.Context, secret *corev1.Secret, day string) error {
	patch, err := json.Marshal(corev1apply.Secret(secret.Name, secret.Namespace).
		WithUID(secret.UID).
		WithResourceVersion(secret.ResourceVersion).
		WithLabels(map[string]string{invalidSinceLabel: day}))
	if err != nil {
		return fmt.Errorf("serializing the patch: %w", err)
	}
	_, err = c.Client.CoreV1().Secrets(secret.Namespace).Patch(ctx, secret.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
