package satoken

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// reconcileSecret completes a Secret, or deletes it, or cleans up after it.
func (c *tokenController) reconcileSecret(ctx context.Context, k key) error {
	secret, err := c.secrets.Secrets(k.namespace).Get(k.name)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("looking up secret %s/%s: %w", k.namespace, k.name, err)
	}
	if secret == nil || secret.UID != k.uid {
		return c.reconcileAbsentSecret(ctx, k)
	}
	account, err := c.findAccount(ctx, k)
	if err != nil {
		return err
	}
	if account == nil {
		return c.deleteSecret(ctx, k.namespace, k.name, k.uid)
	}
	return c.populate(ctx, account, secret)
}

// findAccount returns the account of a Secret, nil if it is gone for certain.
func (c *tokenController) findAccount(ctx context.Context, k key) (*corev1.ServiceAccount, error) {
	account, err := c.cachedAccount(k.namespace, k.accountName, k.accountUID)
	if err != nil || account != nil {
		return account, err
	}
	return c.liveAccount(ctx, k.namespace, k.accountName, k.accountUID)
}

// reconcileAbsentSecret removes the references to a Secret that is gone. An account that
// is not in the cache is not worth a request: it is gone with its references, or so new
// that it cannot have any.
func (c *tokenController) reconcileAbsentSecret(ctx context.Context, k key) error {
	account, err := c.cachedAccount(k.namespace, k.accountName, k.accountUID)
	if err != nil {
		return err
	}
	if account != nil {
		err = c.removeReference(ctx, k)
	}
	if ctx.Err() != nil {
		// What was cut short is left to the successor.
		return context.Cause(ctx)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Removing the reference to a deleted secret failed", "key", k)
	}
	c.known.remove(k.uid)
	return nil
}

// deleteSecret deletes one incarnation of a Secret.
func (c *tokenController) deleteSecret(ctx context.Context, namespace, name string, uid types.UID) error {
	err := c.client.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(uid)),
	})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("deleting secret %s/%s: %w", namespace, name, err)
}
