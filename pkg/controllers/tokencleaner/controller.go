// Package tokencleaner deletes the Secrets of bootstrap tokens that have expired.
//
// The model, in rules:
//
//  1. A key is a Secret of type bootstrap.kubernetes.io/token in kube-system. Only its
//     expiration matters: not its name, its usages or other data.
//  2. A token without an expiration stays. One whose expiration is not an RFC 3339 time
//     counts as expired.
//  3. A token that has not expired is enqueued for the moment at which it expires, and every ten
//     minutes until then, since the clock may be set. A changed expiration arrives as an
//     event, which adds a new, possibly earlier time; at the old one there is nothing to do.
//     These times are in memory only: a new instance derives them from the Secrets that are
//     replayed to it.
//  4. An expired token is deleted on condition of its cached UID and resource version. If it
//     has changed, its event enqueues it again, so that a token that was extended at the last
//     moment stays.
//
// The data of a Secret is never logged.
//
// Behaviour: docs/specs/token-cleaner-controller.md.
package tokencleaner

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

// Descriptor describes token-cleaner-controller.
func Descriptor() controller.Descriptor {
	secrets := []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("secrets")}
	return controller.DescribeFixed(controller.Descriptor{
		Name:           "token-cleaner-controller",
		Aliases:        []string{"tokencleaner"},
		ServiceAccount: "token-cleaner",
		Requires:       secrets,
		Partial:        secrets,
	}, newCleaner)
}

type cleaner struct {
	controller.Env
	secrets corelisters.SecretNamespaceLister
	queue   reconcile.Queue[types.NamespacedName] // the loop, except in tests
	loop    *reconcile.Loop[types.NamespacedName]
}

func newCleaner(env controller.Env) (*cleaner, error) {
	// bootstrap-signer-controller uses the same filter, so both share one cache.
	secrets := env.Informers.Filtered(controller.Filter{
		Namespace:     metav1.NamespaceSystem,
		FieldSelector: "type=" + string(bootstrapapi.SecretTypeBootstrapToken),
	}).Core().V1().Secrets()
	c := &cleaner{Env: env, secrets: secrets.Lister().Secrets(metav1.NamespaceSystem)}
	c.loop = reconcile.New(env, reconcile.Options[types.NamespacedName]{Queue: "token_cleaner", Workers: 1}, c.reconcile)
	c.queue = c.loop
	c.watch(secrets.Informer())
	return c, nil
}

// Run implements controller.Controller.
func (c *cleaner) Run(ctx context.Context) error { return c.loop.Run(ctx) }
