// Package clustertrustbundle publishes the CA bundle of the API server as the ClusterTrustBundle
// of the signer kubernetes.io/kube-apiserver-serving, for pods that mount what a signer trusts.
//
// The model, in rules:
//
//  1. There is one key. It is reconciled at the start, whenever a ClusterTrustBundle of the
//     signer changes, on a resync, and once more after one was created: if that is deleted while
//     the watch is interrupted, there is no event. While one exists and the cache does not show
//     it, the key is requeued, at least every ten seconds. Those of other signers, or of none,
//     are ignored.
//  2. The name of the ClusterTrustBundle follows from the bundle, so that another bundle is
//     another object. It is created if it is missing, and gets the bundle back if that was
//     changed.
//  3. All others of the signer are deleted, once the right one is there: whoever reads what the
//     signer trusts never finds nothing.
//  4. The bundle is the content of the configured file, read once for each instance: a changed
//     file means a new instance. Without a file it is the CA of the client configuration; if
//     there is none either, there is nothing to run. What it contains twice is published once.
//  5. The API is beta in one version and alpha in an older one. The better one that is served
//     is used; the runtime knows which, waits for one, and replaces the instance if it changes.
//
// Behaviour: docs/specs/kube-apiserver-serving-clustertrustbundle-publisher-controller.md.
package clustertrustbundle

import (
	"context"
	"fmt"

	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/cert"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/certificates"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	// signerName is the signer whose trust is published.
	signerName = "kubernetes.io/kube-apiserver-serving"

	// key is the only one.
	key = ""
)

// Descriptor describes kube-apiserver-serving-clustertrustbundle-publisher-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "kube-apiserver-serving-clustertrustbundle-publisher-controller",
		ServiceAccount: "kube-apiserver-serving-clustertrustbundle-publisher",
		ClusterScoped:  true,
		Gate:           gates.ClusterTrustBundle,
		Alternatives: []schema.GroupVersionResource{
			certificatesv1beta1.SchemeGroupVersion.WithResource("clustertrustbundles"),
			certificatesv1alpha1.SchemeGroupVersion.WithResource("clustertrustbundles"),
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
	name, trust string // of the ClusterTrustBundle as it should be
	bundles     bundles
	measured    reconcile.Func[string] // reconcile, with metrics
	loop        *reconcile.Loop[string]
}

// newPublisher returns none if there is no bundle to publish.
func newPublisher(env controller.Env, cfg config) (*publisher, error) {
	bundle, err := env.CABundle(cfg.rootCAFile)
	if err != nil || len(bundle) == 0 {
		return nil, err
	}
	if _, err := cert.NewPoolFromBytes(bundle); err != nil {
		return nil, fmt.Errorf("failed to create a static CA content provider for the kube-apiserver-serving signer: %w", err)
	}
	bundle = withoutRepetitions(bundle)
	p := &publisher{Env: env, name: nameOf(bundle), trust: string(bundle)}
	p.measured = certificates.Measured(env, "clustertrustbundle_publisher",
		"Number of syncs that occurred in cluster trust bundle publisher.", "The time it took to sync a cluster trust bundle.", p.reconcile)
	p.loop = reconcile.New(env, reconcile.Options[string]{Queue: "ca_cert_publisher_cluster_trust_bundles", Workers: 1}, p.measured)
	p.bundles = newBundles(env, func(lane reconcile.Lane) { p.loop.Enqueue(lane, key) })
	p.loop.Enqueue(reconcile.Backlog, key)
	return p, nil
}

// Run implements controller.Controller.
func (p *publisher) Run(ctx context.Context) error { return p.loop.Run(ctx) }
