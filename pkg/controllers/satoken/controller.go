// Package satoken completes and cleans up Secrets of type
// kubernetes.io/service-account-token. It never makes such a Secret.
//
// The model, in rules:
//
//  1. A key is one incarnation of an object: a ServiceAccount or a token Secret with its
//     UID, and for a Secret also the account that its annotations name.
//  2. A Secret whose account exists gets the data it lacks: the CA bundle (also when it
//     differs from the configured one), the namespace, and a signed token. A token that
//     is there is never replaced.
//  3. A Secret whose account is gone is deleted. Gone is what a live read says: the
//     cache of accounts may lag behind the one of Secrets.
//  4. When a Secret is gone its name is removed from the secrets of its account.
//  5. When an account is gone all its token Secrets are deleted.
//  6. Deletes carry the UID, updates the UID and the resource version of what was looked
//     at. A conflict means that a newer state is on its way and will be looked at.
//  7. A key that keeps failing is dropped after ten retries, until its next event.
//  8. What rule 4 is owed to outlives the instance: the successor is told which Secrets
//     were known, and looks at those that have gone in between.
//
// Without a private key there is nothing to run. Writes are updates and never patches,
// because the default role of the process has no patch on Secrets and ServiceAccounts.
//
// Behaviour: specs/serviceaccount-token-controller.md.
package satoken

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/cabundle"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// maxRetries is how often in a row a failing key is tried again.
const maxRetries = 10

// Descriptor describes serviceaccount-token-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:       "serviceaccount-token-controller",
		Aliases:    []string{"serviceaccount-token"},
		Doc:        "Completes and cleans up service account token Secrets.",
		ClientName: "tokens-controller",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
		},
	}, valueOf, build)
}

// config is what the controller reads of the configuration. The zero value means that
// there is nothing to run.
type config struct {
	// concurrentSyncs is the number of workers for each of the two kinds of keys.
	concurrentSyncs int
	// privateKeyFile is the PEM file with the RSA or ECDSA key that signs tokens.
	privateKeyFile string
	// rootCAFile is the PEM file with the CA bundle; empty means controller.Env.ClusterCA.
	rootCAFile string
}

func valueOf(c *controller.Config) config {
	if c.ServiceAccounts.PrivateKeyFile == "" {
		return config{}
	}
	return config{
		concurrentSyncs: int(*c.Controllers.ServiceAccountToken.ConcurrentSyncs),
		privateKeyFile:  c.ServiceAccounts.PrivateKeyFile,
		rootCAFile:      c.ServiceAccounts.RootCAFile,
	}
}

// Files implements controller.FileReader.
func (c config) Files() []string {
	var files []string
	for _, file := range []string{c.privateKeyFile, c.rootCAFile} {
		if file != "" {
			files = append(files, file)
		}
	}
	return files
}

// ReadsClusterCA implements controller.ClusterCAReader.
func (c config) ReadsClusterCA() bool { return c.privateKeyFile != "" && c.rootCAFile == "" }

type tokenController struct {
	client      kubernetes.Interface
	clock       clock.Clock
	signer      *signer
	ca          []byte
	accounts    corelisters.ServiceAccountLister
	secrets     corelisters.SecretLister
	known       *ledger
	predecessor func() any
	loop        *reconcile.Loop[key]
}

// build returns no controller if there is no key to sign with.
func build(env controller.Env, cfg config) (controller.Controller, error) {
	if cfg.privateKeyFile == "" {
		return nil, nil
	}
	c, err := newController(env, cfg)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func newController(env controller.Env, cfg config) (*tokenController, error) {
	signer, err := loadSigner(cfg.privateKeyFile)
	if err != nil {
		return nil, err
	}
	ca, err := cabundle.Load(cfg.rootCAFile, env.ClusterCA)
	if err != nil {
		return nil, err
	}
	accounts := env.Informers.Core().V1().ServiceAccounts()
	secrets := env.Informers.Filtered(controller.Filter{
		FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken),
	}).Core().V1().Secrets()
	c := &tokenController{
		client:      env.Client,
		clock:       env.Clock,
		signer:      signer,
		ca:          ca,
		accounts:    accounts.Lister(),
		secrets:     secrets.Lister(),
		known:       newLedger(),
		predecessor: env.Predecessor,
	}
	// One queue holds both kinds of keys: they share the name of their metrics.
	c.loop = reconcile.New(env, reconcile.Options[key]{
		Queue:      "serviceaccount_tokens_service",
		Workers:    2 * cfg.concurrentSyncs,
		MaxRetries: maxRetries,
	}, c.reconcile)

	err = watch.ObjectsEvery(accounts.Informer(), 0, watch.Funcs[*corev1.ServiceAccount]{
		Update: func(_ reconcile.Lane, old, account *corev1.ServiceAccount) { c.accountUpdated(old, account) },
		Delete: func(account *corev1.ServiceAccount) { c.loop.Add(accountKey(account)) },
	})
	if err != nil {
		return nil, err
	}
	err = watch.ObjectsEvery(secrets.Informer(), 0, watch.Funcs[*corev1.Secret]{
		Add:    c.secretAdded,
		Update: c.secretUpdated,
		Delete: c.secretDeleted,
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// accountUpdated looks at an account only if it replaced another one that was not seen to
// go. An account that exists is never worked on, so no other event of it is of interest.
func (c *tokenController) accountUpdated(old, account *corev1.ServiceAccount) {
	if old.UID != account.UID {
		c.loop.Add(accountKey(old))
	}
}

func (c *tokenController) secretAdded(lane reconcile.Lane, secret *corev1.Secret) {
	if isToken(secret) {
		c.known.add(secretKey(secret))
		c.loop.Enqueue(lane, secretKey(secret))
	}
}

func (c *tokenController) secretUpdated(lane reconcile.Lane, old, secret *corev1.Secret) {
	// A reference to the Secret that was replaced now names the new one, so it stays.
	if old.UID != secret.UID {
		c.known.remove(old.UID)
	}
	c.secretAdded(lane, secret)
}

func (c *tokenController) secretDeleted(secret *corev1.Secret) {
	if isToken(secret) {
		c.loop.Add(secretKey(secret))
	}
}

// Run implements controller.Controller.
func (c *tokenController) Run(ctx context.Context) error {
	c.takeOver()
	return c.loop.Run(ctx)
}

func (c *tokenController) reconcile(ctx context.Context, k key) error {
	if !k.valid() {
		klog.FromContext(ctx).Error(nil, "Dropping a key that names no account or Secret", "key", k)
		return nil
	}
	switch k.kind {
	case accountKind:
		return c.reconcileAccount(ctx, k)
	case secretKind:
		return c.reconcileSecret(ctx, k)
	default:
		return fmt.Errorf("reconciling %v: unknown kind of key", k)
	}
}
