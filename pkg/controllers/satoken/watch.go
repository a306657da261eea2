package satoken

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *tokenController) watch(accounts, secrets cache.SharedIndexInformer) {
	watch.ObjectsEvery(accounts, 0, watch.Funcs[*corev1.ServiceAccount]{
		Update: func(_ reconcile.Lane, old, account *corev1.ServiceAccount) { c.accountUpdated(old, account) },
		Delete: func(account *corev1.ServiceAccount) { c.queue.Add(accountKey(account)) },
	})
	watch.ObjectsEvery(secrets, 0, watch.Funcs[*corev1.Secret]{
		Add:    c.secretAdded,
		Update: c.secretUpdated,
		Delete: c.secretDeleted,
	})
}

// accountUpdated enqueues only the predecessor of a recreated account whose deletion was not
// observed. Existing accounts are not reconciled, so other updates are irrelevant.
func (c *tokenController) accountUpdated(old, account *corev1.ServiceAccount) {
	if old.UID != account.UID {
		c.queue.Add(accountKey(old))
	}
}

func (c *tokenController) secretAdded(lane reconcile.Lane, secret *corev1.Secret) {
	if isToken(secret) {
		c.known.add(secretKey(secret))
		c.queue.Enqueue(lane, secretKey(secret))
	}
}

func (c *tokenController) secretUpdated(lane reconcile.Lane, old, secret *corev1.Secret) {
	// A reference to the replaced Secret now refers to the new one, so it is kept.
	if old.UID != secret.UID {
		c.known.remove(old.UID)
	}
	c.secretAdded(lane, secret)
}

func (c *tokenController) secretDeleted(secret *corev1.Secret) {
	if isToken(secret) {
		c.queue.Add(secretKey(secret))
	}
}
