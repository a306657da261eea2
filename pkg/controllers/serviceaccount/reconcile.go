package serviceaccount

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
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
	return reconcile.AfterCreate(c.queue, namespace, fmt.Sprintf("service account %s/%s", namespace, accountName), err)
}
