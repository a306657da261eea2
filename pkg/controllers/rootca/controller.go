// Package rootca publishes the CA bundle of the API server as the ConfigMap
// kube-root-ca.crt in every namespace, where each pod with a service account mounts it.
//
// The model, in rules:
//
//  1. A key is a namespace. It is reconciled when the namespace is added, updated while Active
//     or resynced, when its ConfigMap is changed or deleted, and once more after the ConfigMap
//     was created, or was rejected because the namespace leaves or is gone. While it exists and
//     the cache does not show it, the namespace is requeued, at least every ten seconds.
//  2. The ConfigMap is correct if its data is exactly {ca.crt: bundle} and it carries a
//     description. A correct ConfigMap is not written.
//  3. A missing ConfigMap is created, unless the namespace is being deleted. An incorrect one
//     is updated: its data is replaced as a whole, everything else is kept.
//  4. The bundle is the content of the configured file, read once for each instance: a
//     changed file means a new instance, whose replayed namespaces carry the new bundle
//     everywhere. Without a file it is the CA of the client configuration.
//  5. An empty bundle never replaces one that is published. It is published where there is
//     none, since a pod does not start without the ConfigMap.
//
// Behaviour: docs/specs/root-ca-certificate-publisher-controller.md.
package rootca

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/certificates"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	// configMapName is the name of the ConfigMap in each namespace.
	configMapName = "kube-root-ca.crt"

	// workers is more than one because the first pod of each new namespace waits for
	// this controller, and a new bundle is to reach all namespaces soon.
	workers = 5
)

// Descriptor describes root-ca-certificate-publisher-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "root-ca-certificate-publisher-controller",
		Aliases:        []string{"root-ca-cert-publisher"},
		ServiceAccount: "root-ca-cert-publisher",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("namespaces"),
		},
	}, func(c *controller.Config) config {
		return config{rootCAFile: c.ServiceAccounts.RootCAFile}
	}, newPublisher)
}

// config is what the controller reads of the configuration.
type config struct {
	// rootCAFile is the PEM file with the bundle; empty means controller.Env.ClusterCA.
	rootCAFile string
}

// Files implements controller.FileReader.
func (c config) Files() []string {
	if c.rootCAFile == "" {
		return nil
	}
	return []string{c.rootCAFile}
}

// ReadsClusterCA implements controller.ClusterCAReader.
func (c config) ReadsClusterCA() bool { return c.rootCAFile == "" }

type publisher struct {
	controller.Env
	bundle     string
	namespaces corelisters.NamespaceLister
	configMaps corelisters.ConfigMapLister
	measured   reconcile.Func[string]  // reconcile, with metrics
	queue      reconcile.Queue[string] // the loop, except in tests
	loop       *reconcile.Loop[string]
}

func newPublisher(env controller.Env, cfg config) (*publisher, error) {
	bundle, err := env.CABundle(cfg.rootCAFile)
	if err != nil {
		return nil, err
	}
	namespaces := env.Informers.Core().V1().Namespaces()
	configMaps := env.Informers.Filtered(controller.Filter{
		FieldSelector: "metadata.name=" + configMapName,
	}).Core().V1().ConfigMaps()
	p := &publisher{
		Env:        env,
		bundle:     string(bundle),
		namespaces: namespaces.Lister(),
		configMaps: configMaps.Lister(),
	}
	const help = "Number of namespace syncs happened in root ca cert publisher."
	p.measured = certificates.Measured(env, "root_ca_cert_publisher", help, help, p.reconcile)
	p.loop = reconcile.New(env, reconcile.Options[string]{Queue: "root_ca_cert_publisher", Workers: workers, Namespace: reconcile.OfNamespace}, p.measured)
	p.queue = p.loop
	p.watch(namespaces.Informer(), configMaps.Informer())
	return p, nil
}

// Run implements controller.Controller.
func (p *publisher) Run(ctx context.Context) error { return p.loop.Run(ctx) }
