package serviceaccount

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (c *serviceAccountController) reconcile(ctx context.Context, namespace string) error {
	ns, found, err := reconcile.Found(c.namespaces.Get(namespace))
	if !found {
		return err
	}
	account, _, err := reconcile.Found(c.accounts.ServiceAccounts(namespace).Get(accountName))
	if err != nil || !needsAccount(ns, account) {
		return err
	}
	return c.create(ctx, namespace)
}

func (c *serviceAccountController) create(ctx context.Context, namespace string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: accountName, Namespace: namespace}}
	_, err := c.Client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	switch {
	case err == nil, apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		c.loop.AddAfter(namespace, recheckAfter)
		return nil
	case apierrors.IsAlreadyExists(err):
		return reconcile.AwaitCache(fmt.Errorf("the cache does not show service account %s/%s: %w", namespace, accountName, err))
	}
	return fmt.Errorf("creating service account %s/%s: %w", namespace, accountName, err)
}
