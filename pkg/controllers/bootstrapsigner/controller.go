// Package bootstrapsigner signs the kubeconfig in the ConfigMap kube-public/cluster-info with
// each bootstrap token that is meant for that. A node that joins reads the ConfigMap before it
// trusts anything, and verifies by the signature of its token that this is the right cluster.
//
// The model, in rules:
//
//  1. There is one key. It is reconciled when the ConfigMap or a token changes, when the first
//     of the signing tokens expires, and every ten minutes, since the clock may have been set.
//  2. A token signs if its Secret is complete and named after the token ID, it has not expired,
//     and its usages include signing. Its other usages do not matter.
//  3. Each of them has one entry in the ConfigMap, jws-kubeconfig-<token ID>, that holds the
//     detached JWS of the kubeconfig, byte for byte. Entries of other tokens are removed; that the
//     Secret of one is gone is read live. Everything else in the ConfigMap is preserved; without a
//     kubeconfig, nothing is changed.
//  4. A signature depends only on the kubeconfig and the token, so a ConfigMap that is already
//     signed is not written.
//  5. The update carries the resource version of the cached ConfigMap. After a conflict, the
//     event of the newer version enqueues the key, or, if none follows, the recheck. The same
//     holds after the answer that the ConfigMap is gone. Any other failure is retried.
//
// The secret of a token is never logged.
//
// Behaviour: docs/specs/bootstrap-signer-controller.md.
package bootstrapsigner

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// clusterInfo is the ConfigMap that is signed, and the only key.
var clusterInfo = types.NamespacedName{Namespace: metav1.NamespacePublic, Name: bootstrapapi.ConfigMapClusterInfo}

// Descriptor describes bootstrap-signer-controller.
func Descriptor() controller.Descriptor {
	resources := []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("configmaps"),
		corev1.SchemeGroupVersion.WithResource("secrets"),
	}
	return controller.DescribeFixed(controller.Descriptor{
		Name:           "bootstrap-signer-controller",
		Aliases:        []string{"bootstrapsigner"},
		ServiceAccount: "bootstrap-signer",
		Requires:       resources,
		Partial:        resources,
	}, newSigner)
}

type signer struct {
	controller.Env
	configMaps corelisters.ConfigMapNamespaceLister
	secrets    corelisters.SecretNamespaceLister
	queue      reconcile.Queue[types.NamespacedName] // the loop, except in tests
	loop       *reconcile.Loop[types.NamespacedName]
}

func newSigner(env controller.Env) (*signer, error) {
	configMaps := env.Informers.Filtered(controller.Filter{
		Namespace:     clusterInfo.Namespace,
		FieldSelector: "metadata.name=" + clusterInfo.Name,
	}).Core().V1().ConfigMaps()
	// token-cleaner-controller uses the same filter, so both share one cache.
	secrets := env.Informers.Filtered(controller.Filter{
		Namespace:     metav1.NamespaceSystem,
		FieldSelector: "type=" + string(bootstrapapi.SecretTypeBootstrapToken),
	}).Core().V1().Secrets()
	s := &signer{
		Env:        env,
		configMaps: configMaps.Lister().ConfigMaps(clusterInfo.Namespace),
		secrets:    secrets.Lister().Secrets(metav1.NamespaceSystem),
	}
	s.loop = reconcile.New(env, reconcile.Options[types.NamespacedName]{Queue: "bootstrap_signer_queue", Workers: 1}, s.reconcile)
	s.queue = s.loop
	s.watch(configMaps.Informer(), secrets.Informer())
	return s, nil
}

// Run implements controller.Controller.
func (s *signer) Run(ctx context.Context) error { return s.loop.Run(ctx) }
