// Package legacytokencleaner retires the token Secrets that were once generated for each
// service account and are not used any more.
//
// The model, in rules:
//
//  1. Once a day, and at the start, a pass examines all cached token Secrets. There is no
//     queue, and nothing is remembered between passes: all state is in labels of the Secrets.
//  2. A Secret is retired if it was generated, that is, its service account lists it, if it was
//     neither created nor used within the clean-up period, and if no pod refers to it. The API
//     server records the day of use in a label. Nothing is retired before it has done so for
//     the whole period.
//  3. A Secret is first labelled as invalid; from then on the API server rejects its token.
//     After another period it is deleted. Until then, users who need the token can remove the
//     label.
//  4. The cache may be stale. Writes are conditional on the cached version of the Secret, so
//     that a use which the cache does not show prevents them. That no pod refers to a Secret
//     is verified with a live list, once per namespace and pass even if that fails, and only if
//     the cache shows no such pod.
//
// Behaviour: docs/specs/legacy-serviceaccount-token-cleaner-controller.md.
package legacytokencleaner

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// passPeriod is the time between the end of a pass and the next one.
const passPeriod = 24 * time.Hour

// Descriptor describes legacy-serviceaccount-token-cleaner-controller.
func Descriptor() controller.Descriptor {
	secrets, configMaps := corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("configmaps")
	return controller.Describe(controller.Descriptor{
		Name:           "legacy-serviceaccount-token-cleaner-controller",
		Aliases:        []string{"legacy-service-account-token-cleaner"},
		ServiceAccount: "legacy-service-account-token-cleaner",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
			corev1.SchemeGroupVersion.WithResource("pods"),
			secrets,
			configMaps,
		},
		Partial: []schema.GroupVersionResource{secrets, configMaps},
	}, func(c *controller.Config) config {
		return config{period: c.Controllers.LegacyServiceAccountTokenCleaner.CleanUpPeriod.Duration}
	}, newCleaner)
}

// config is what the controller reads of the configuration.
type config struct {
	// period is how long a token must be unused before it is invalidated, and how long it is
	// kept after that.
	period time.Duration
}

type cleaner struct {
	controller.Env
	period   time.Duration
	accounts corelisters.ServiceAccountLister
	secrets  corelisters.SecretLister
	pods     corelisters.PodLister
}

func newCleaner(env controller.Env, cfg config) (*cleaner, error) {
	// serviceaccount-token-controller uses the same filter, so both share one cache.
	secrets := env.Informers.Filtered(controller.Filter{
		FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken),
	}).Core().V1().Secrets()
	accounts, pods := env.Informers.Core().V1().ServiceAccounts(), env.Informers.Core().V1().Pods()
	c := &cleaner{Env: env, period: cfg.period, accounts: accounts.Lister(), secrets: secrets.Lister(), pods: pods.Lister()}
	return c, nil
}

// Run implements controller.Controller.
func (c *cleaner) Run(ctx context.Context) error {
	return reconcile.Run(ctx, c.Env, nil, reconcile.Passes(c.Env, passPeriod, c.pass))
}
