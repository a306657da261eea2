package satoken

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// reconcileAccount deletes the token Secrets of an account, if a live read shows that it is gone: a list that lacks it
// looks like its deletion. Those that name no UID belong to whichever account has the name now: whether one does is
// found out for each of them.
func (c *tokenController) reconcileAccount(ctx context.Context, k key) error {
	account, err := c.cachedAccount(k.namespace, k.name, k.uid)
	if err != nil || account != nil {
		return err
	}
	secrets, err := index.Append[*corev1.Secret](nil, c.tokens, tokensByAccount, accountIndexKey(k.namespace, k.name))
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to list the token secrets of a deleted service account", "key", k)
		return nil
	}
	var bound []*corev1.Secret
	for _, secret := range tokensOf(k.account(), secrets) {
		if of := secretKey(secret); of.accountUID != k.uid {
			c.queue.Add(of)
			continue
		}
		bound = append(bound, secret)
	}
	if len(bound) == 0 {
		return nil
	}
	if account, err = c.liveAccount(ctx, k.namespace, k.name, k.uid); err != nil {
		return err
	}
	if account != nil {
		c.queue.AddAfter(k, reconcile.RecheckAfter) // it may be deleted before the cache shows it again
		return nil
	}
	var failures []error
	for _, secret := range bound {
		failures = append(failures, c.deleteSecret(ctx, k, secret))
	}
	return errors.Join(failures...)
}

// tokensOf selects the token Secrets of one incarnation of an account. A Secret that names
// the account without its UID belongs to every incarnation.
func tokensOf(account *corev1.ServiceAccount, secrets []*corev1.Secret) []*corev1.Secret {
	var tokens []*corev1.Secret
	for _, secret := range secrets {
		if serviceaccount.IsServiceAccountToken(secret, account) {
			tokens = append(tokens, secret)
		}
	}
	return tokens
}

// cachedAccount returns an account from the cache, nil if there is none of that name and UID.
func (c *tokenController) cachedAccount(namespace, name string, uid types.UID) (*corev1.ServiceAccount, error) {
	account, found, err := reconcile.Found(c.accounts.ServiceAccounts(namespace).Get(name))
	if !found {
		return nil, err
	}
	if !hasUID(account, uid) {
		return nil, nil
	}
	return account, nil
}

// liveAccount reads an account live. It returns nil if there is none of that name and UID.
func (c *tokenController) liveAccount(
	ctx context.Context, namespace, name string, uid types.UID,
) (*corev1.ServiceAccount, error) {
	account, err := c.Client.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
	if controller.Absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading service account %s/%s: %w", namespace, name, err)
	}
	if !hasUID(account, uid) {
		return nil, nil
	}
	return account, nil
}
