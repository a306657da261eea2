// Package serviceaccount makes sure that every active namespace has a ServiceAccount
// named default, without which no pod of the namespace is admitted.
//
// The model, in rules:
//
//  1. A key is a namespace. It is looked at when the namespace appears, when it becomes
//     Active, and when its default account is deleted.
//  2. The account is created if the cache holds the namespace in phase Active and no
//     account named default. An account that is being deleted still counts as present.
//  3. An existing account is never changed or deleted.
//  4. A create is done once the cache shows the account. Until then the namespace is looked
//     at again, also after a create that was refused because the account exists: if the
//     account goes while the watch is interrupted, no event tells.
//  5. A create that is refused because the namespace is terminating has done its work. Any
//     other failure is retried without end: there is no resync that would make up for a
//     lost key.
//
// Behaviour: specs/serviceaccount-controller.md.
package serviceaccount

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

const (
	// accountName is the account that pods run as when they name none.
	accountName = "default"

	// workers is more than one because the first pod of each new namespace waits for
	// this controller, and namespaces are independent of each other.
	workers = 5

	// recheckAfter is when a namespace is looked at again after its account was created.
	// By then the cache shows the account, so this costs no request.
	recheckAfter = 5 * time.Second
)

// Descriptor describes serviceaccount-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "serviceaccount-controller",
		Aliases:        []string{"serviceaccount"},
		Doc:            "Ensures that each active namespace has the ServiceAccount named default.",
		ServiceAccount: "service-account-controller",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("namespaces"),
			corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
		},
	}, func(*controller.Config) config { return config{} }, build)
}

// config is empty: the controller has no options.
type config struct{}

type serviceAccountController struct {
	client     kubernetes.Interface
	namespaces corelisters.NamespaceLister
	accounts   corelisters.ServiceAccountLister
	loop       *reconcile.Loop[string]
}

func build(env controller.Env, _ config) (controller.Controller, error) {
	c, err := newController(env)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func newController(env controller.Env) (*serviceAccountController, error) {
	namespaces, accounts := env.Informers.Core().V1().Namespaces(), env.Informers.Core().V1().ServiceAccounts()
	c := &serviceAccountController{
		client:     env.Client,
		namespaces: namespaces.Lister(),
		accounts:   accounts.Lister(),
	}
	c.loop = reconcile.New(env, reconcile.Options[string]{Queue: "serviceaccount", Workers: workers}, c.reconcile)

	err := watch.ObjectsEvery(namespaces.Informer(), 0, watch.Funcs[*corev1.Namespace]{
		Add: func(lane reconcile.Lane, ns *corev1.Namespace) { c.loop.Enqueue(lane, ns.Name) },
		Update: func(lane reconcile.Lane, old, ns *corev1.Namespace) {
			if becameActive(old, ns) {
				c.loop.Enqueue(lane, ns.Name)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	err = watch.ObjectsEvery(accounts.Informer(), 0, watch.Funcs[*corev1.ServiceAccount]{
		Delete: func(account *corev1.ServiceAccount) {
			if account.Name == accountName {
				c.loop.Add(account.Namespace)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Run implements controller.Controller.
func (c *serviceAccountController) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *serviceAccountController) reconcile(ctx context.Context, namespace string) error {
	ns, err := c.namespaces.Get(namespace)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking up namespace %s: %w", namespace, err)
	}
	account, err := c.accounts.ServiceAccounts(namespace).Get(accountName)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("looking up service account %s/%s: %w", namespace, accountName, err)
	}
	if !needsAccount(ns, account) {
		return nil
	}
	return c.create(ctx, namespace)
}

func (c *serviceAccountController) create(ctx context.Context, namespace string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: accountName, Namespace: namespace}}
	_, err := c.client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	switch {
	case err == nil:
		c.loop.AddAfter(namespace, recheckAfter)
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case apierrors.IsAlreadyExists(err):
		return reconcile.Requeue(fmt.Errorf("the cache does not show service account %s/%s: %w", namespace, accountName, err))
	}
	return fmt.Errorf("creating service account %s/%s: %w", namespace, accountName, err)
}
