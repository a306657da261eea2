package tokencleaner

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch enqueues tokens. A deleted one needs no work.
func (c *cleaner) watch(secrets cache.SharedIndexInformer) {
	watch.ObjectsEvery(secrets, 0, watch.Funcs[*corev1.Secret]{
		AddOrUpdate: c.enqueue,
	})
}

func (c *cleaner) enqueue(lane reconcile.Lane, secret *corev1.Secret) {
	if isToken(secret) {
		c.queue.Enqueue(lane, reconcile.KeyOf(secret))
	}
}

// isToken reports whether a Secret is a bootstrap token. The cache holds no other, unless the
// server does not support the field selector.
func isToken(secret *corev1.Secret) bool {
	return secret.Type == bootstrapapi.SecretTypeBootstrapToken
}
