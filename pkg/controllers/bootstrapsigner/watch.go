package bootstrapsigner

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch enqueues the only key. A deleted ConfigMap needs no work.
func (s *signer) watch(configMaps, secrets cache.SharedIndexInformer) {
	watch.ObjectsEvery(configMaps, 0, watch.Funcs[*corev1.ConfigMap]{
		AddOrUpdate: s.infoChanged,
	})
	watch.ObjectsEvery(secrets, 0, watch.Funcs[*corev1.Secret]{
		AddOrUpdate: s.tokenChanged,
		Delete:      func(secret *corev1.Secret) { s.tokenChanged(reconcile.Gone(secret), secret) },
	})
}

// infoChanged and tokenChanged ignore objects that a server without support for the field
// selectors sends as well.
func (s *signer) infoChanged(lane reconcile.Lane, info *corev1.ConfigMap) {
	if info.Name == clusterInfo.Name {
		s.queue.Enqueue(lane, clusterInfo)
	}
}

func (s *signer) tokenChanged(lane reconcile.Lane, secret *corev1.Secret) {
	if isToken(secret) {
		s.queue.Enqueue(lane, clusterInfo)
	}
}

func isToken(secret *corev1.Secret) bool {
	return secret.Type == bootstrapapi.SecretTypeBootstrapToken
}
