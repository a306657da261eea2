// Package serviceaccount ensures that every active namespace has a ServiceAccount named
// default, without which no pod is admitted to the namespace.
//
// The model, in rules:
//
//  1. A key is a namespace. It is reconciled when the namespace is added, when it becomes
//     Active, and when its default account is deleted.
//  2. The account is created if the cached namespace is Active and no account named default is
//     cached. An account that is being deleted still counts as present.
//  3. An existing account is never changed or deleted.
//  4. A create is complete once the cache shows the account. Until then the namespace is
//     requeued, even after an AlreadyExists error, then at least every ten seconds: if the account
//     is deleted while the watch is interrupted, there is no event.
//  5. A create that is rejected because the namespace is terminating or gone is no failure, but
//     the namespace is reconciled once more: the API server may still know only the namespace of
//     that name which was there before. Any other failure is retried without limit: there is no
//     resync that would make up for a lost key.
//
// Behaviour: docs/specs/serviceaccount-controller.md.
package serviceaccount

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	// accountName is the default account of pods.
	accountName = "default"

	// workers is more than one because the first pod of each new namespace waits for
	// this controller, and namespaces are independent of each other.
	workers = 5
)

// Descriptor describes serviceaccount-controller.
func Descriptor() controller.Descriptor {
	return controller.DescribeFixed(controller.Descriptor{
		Name:           "serviceaccount-controller",
		Aliases:        []string{"serviceaccount"},
		ServiceAccount: "service-account-controller",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("namespaces"),
			corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
		},
	}, newController)
}

type serviceAccountController struct {
	controller.Env
	namespaces corelisters.NamespaceLister
	accounts   corelisters.ServiceAccountLister
	queue      reconcile.Queue[string] // the loop, except in tests
	loop       *reconcile.Loop[string]
}

func newController(env controller.Env) (*serviceAccountController, error) {
	namespaces, accounts := env.Informers.Core().V1().Namespaces(), env.Informers.Core().V1().ServiceAccounts()
	c := &serviceAccountController{
		Env:        env,
		namespaces: namespaces.Lister(),
		accounts:   accounts.Lister(),
	}
	c.loop = reconcile.New(env, reconcile.Options[string]{Queue: "serviceaccount", Workers: workers, Namespace: reconcile.OfNamespace}, c.reconcile)
	c.queue = c.loop
	c.watch(namespaces.Informer(), accounts.Informer())
	return c, nil
}

// Run implements controller.Controller.
func (c *serviceAccountController) Run(ctx context.Context) error { return c.loop.Run(ctx) }
