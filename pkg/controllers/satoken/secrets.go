package satoken

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// reconcileSecret completes a Secret, deletes it, or removes the references to a deleted one.
func (c *tokenController) reconcileSecret(ctx context.Context, k key) error {
	secret, _, err := reconcile.Found(c.secrets.Secrets(k.namespace).Get(k.name))
	if err != nil {
		return err
	}
	if secret == nil || secret.UID != k.uid {
		return c.reconcileAbsentSecret(ctx, k)
	}
	if secretKey(secret) != k {
		return nil // it names another account than when the key was queued, and the event of that queued another key
	}
	lacking := needsOf(secret, c.ca)
	account, err := c.findAccount(ctx, k, lacking)
	if err != nil {
		return err
	}
	if account == nil {
		return c.deleteSecret(ctx, k, secret)
	}
	return c.populate(ctx, k, account, secret, lacking)
}

// findAccount returns the account of a Secret, nil if it certainly does not exist.
//
// The cache is not asked which account a Secret is to be bound to that names no UID: it may still show an account that
// was deleted and created again, and a Secret that is bound to the former one is deleted with it.
func (c *tokenController) findAccount(ctx context.Context, k key, lacking needs) (*corev1.ServiceAccount, error) {
	cached, err := c.cachedAccount(k.namespace, k.accountName, k.accountUID)
	if err != nil {
		return nil, err
	}
	if binds := k.accountUID == "" && lacking != (needs{}); cached != nil && !binds {
		return cached, nil
	}
	live, err := c.liveAccount(ctx, k.namespace, k.accountName, k.accountUID)
	if live != nil && (cached == nil || cached.UID != live.UID) {
		c.queue.AddAfter(k, reconcile.RecheckAfter)
	}
	return live, err
}

// reconcileAbsentSecret removes the references to a deleted Secret. The cache is not asked whether there is an account:
// it may be behind that of Secrets, or lack the account, and no event would bring the key back.
func (c *tokenController) reconcileAbsentSecret(ctx context.Context, k key) error {
	err := c.removeReference(ctx, k)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx) // what was interrupted is left to the successor
	case apierrors.IsNotFound(err), errors.Is(err, errUnseen):
		// The account is gone, as the cache will show. Or an admission webhook says so, or a proxy. Or the Secret is there:
		// it may be deleted before the cache shows it again.
		c.queue.AddAfter(k, reconcile.RecheckAfter)
		return nil
	case err != nil:
		return err
	}
	c.known.remove(k.uid)
	return nil
}

// deleteSecret deletes a Secret only in the version that was read, whose annotations led to the decision.
func (c *tokenController) deleteSecret(ctx context.Context, k key, secret *corev1.Secret) error {
	err := c.Client.CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion},
	})
	return c.concluded(k, "deleting", secret.Name, err)
}

// concluded returns the error of a write of a Secret for a key. Nothing is left to do for a Secret that is gone, and
// the event of the change enqueues one that has changed. But an admission webhook may give the same answer, and then
// no event follows: so the key is checked again.
func (c *tokenController) concluded(k key, doing, name string, err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		c.queue.AddAfter(k, reconcile.RecheckAfter)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s secret %s/%s: %w", doing, k.namespace, name, err)
	}
	return nil
}
