// Package satoken completes and cleans up Secrets of type kubernetes.io/service-account-token.
// It never creates such a Secret.
//
// The model, in rules:
//
//  1. A key is one incarnation of an object: a ServiceAccount or a token Secret with its
//     UID, and for a Secret also the account that its annotations name.
//  2. A Secret whose account exists gets the data it lacks: the CA bundle (also when it differs
//     from the configured one), the namespace, and a signed token. An existing token is never
//     replaced. One that names no UID is bound to the account that a live read shows.
//  3. A Secret whose account does not exist is deleted. Only a live read proves that: the cache
//     of accounts may be older than that of Secrets.
//  4. When a Secret has been deleted, its name is removed from the secrets of its account, if a live
//     read shows that there is no Secret of that name.
//  5. When an account has been deleted, which takes a live read too, all its token Secrets are
//     deleted. Of those that name only its name, rule 3 decides.
//  6. What a Secret names may change while a key waits. A key that is not that of the cached
//     Secret is dropped, and deletes and updates carry the resource version that was read. A
//     conflict means that the event of a newer state will follow, or, if none follows, the
//     recheck.
//  7. A failing key is retried with backoff until it succeeds. There is no resync that would make
//     up for a key that was dropped.
//  8. Rule 4 holds across instances: the known Secrets are handed over, and the successor
//     reconciles those that were deleted in between.
//
// Without a private key there is nothing to run. Writes are updates and never patches,
// because the default role of the process has no patch on Secrets and ServiceAccounts.
//
// Behaviour: docs/specs/serviceaccount-token-controller.md.
package satoken

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Descriptor describes serviceaccount-token-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:       "serviceaccount-token-controller",
		Aliases:    []string{"serviceaccount-token"},
		ClientName: "tokens-controller",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
		},
	}, configOf, newController)
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

func configOf(c *controller.Config) config {
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
	controller.Env
	signer   *signer
	ca       []byte
	accounts corelisters.ServiceAccountLister
	secrets  corelisters.SecretLister
	tokens   cache.Indexer // of the Secrets, with the index by account
	known    *seenSecrets
	loop     *reconcile.Loop[key] // one for both kinds of keys: they share the name of its metrics
	queue    reconcile.Queue[key] // the loop, except in tests
}

// newController returns nil if there is no key to sign with.
func newController(env controller.Env, cfg config) (*tokenController, error) {
	if cfg.privateKeyFile == "" {
		return nil, nil
	}
	signer, err := loadSigner(cfg.privateKeyFile)
	if err != nil {
		return nil, err
	}
	ca, err := env.CABundle(cfg.rootCAFile)
	if err != nil {
		return nil, err
	}
	accounts := env.Informers.Core().V1().ServiceAccounts()
	secrets := env.Informers.Filtered(tokenSecrets).Core().V1().Secrets()
	c := &tokenController{
		Env: env, signer: signer, ca: ca, known: newSeenSecrets(),
		accounts: accounts.Lister(), secrets: secrets.Lister(), tokens: secrets.Informer().GetIndexer(),
	}
	index.Ensure(secrets.Informer(), tokensByAccount, accountIndexKeys)
	c.loop = reconcile.New(env, reconcile.Options[key]{
		Queue: "serviceaccount_tokens_service", Workers: 2 * cfg.concurrentSyncs,
		Namespace: func(k key) string { return k.namespace },
	}, c.reconcile)
	c.queue = c.loop
	c.watch(accounts.Informer(), secrets.Informer())
	return c, nil
}

// Run implements controller.Controller.
func (c *tokenController) Run(ctx context.Context) error {
	c.takeOver()
	return c.loop.Run(ctx)
}
