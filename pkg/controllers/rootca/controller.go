// Package rootca publishes the CA bundle of the API server as the ConfigMap
// kube-root-ca.crt in every namespace, where each pod with a service account mounts it.
//
// The model, in rules:
//
//  1. A key is a namespace. It is looked at when the namespace appears, is updated while
//     Active or is resynced, when its ConfigMap is changed or deleted, and once more after
//     it was created.
//  2. The ConfigMap is correct if its data is exactly {ca.crt: bundle} and it carries a
//     description. A correct ConfigMap is not written, whatever its description says.
//  3. A missing ConfigMap is created, unless the namespace is on its way out. A wrong one
//     is updated: its data is replaced as a whole, everything else is left as it is.
//  4. The bundle is the content of the configured file, read once for each instance: a
//     changed file means a new instance, whose replayed namespaces carry the new bundle
//     everywhere. Without a file it is the CA of the client configuration, even if that
//     is empty.
//
// Behaviour: specs/root-ca-certificate-publisher-controller.md.
package rootca

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
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/cabundle"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

const (
	// configMapName is the name of the ConfigMap in each namespace.
	configMapName = "kube-root-ca.crt"

	// workers is more than one because the first pod of each new namespace waits for
	// this controller, and a new bundle is to reach all namespaces soon.
	workers = 5

	// recheckAfter is when a namespace is looked at again after its ConfigMap was created:
	// one that goes while the watch is interrupted causes no event. By then the cache shows
	// the ConfigMap, so this costs no request.
	recheckAfter = 5 * time.Second
)

// Descriptor describes root-ca-certificate-publisher-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "root-ca-certificate-publisher-controller",
		Aliases:        []string{"root-ca-cert-publisher"},
		Doc:            "Publishes the CA bundle of the API server into every namespace.",
		ServiceAccount: "root-ca-cert-publisher",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("namespaces"),
		},
	}, func(c *controller.Config) config {
		return config{rootCAFile: c.ServiceAccounts.RootCAFile}
	}, build)
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
	client     kubernetes.Interface
	clock      clock.PassiveClock
	bundle     string
	namespaces corelisters.NamespaceLister
	configMaps corelisters.ConfigMapLister
	metrics    *syncMetrics
	loop       *reconcile.Loop[string]
}

func build(env controller.Env, cfg config) (controller.Controller, error) {
	p, err := newPublisher(env, cfg)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func newPublisher(env controller.Env, cfg config) (*publisher, error) {
	bundle, err := cabundle.Load(cfg.rootCAFile, env.ClusterCA)
	if err != nil {
		return nil, err
	}
	namespaces := env.Informers.Core().V1().Namespaces()
	configMaps := env.Informers.Filtered(controller.Filter{
		FieldSelector: "metadata.name=" + configMapName,
	}).Core().V1().ConfigMaps()
	p := &publisher{
		client:     env.Client,
		clock:      env.Clock,
		bundle:     string(bundle),
		namespaces: namespaces.Lister(),
		configMaps: configMaps.Lister(),
		metrics:    newSyncMetrics(env.Metrics),
	}
	p.loop = reconcile.New(env, reconcile.Options[string]{Queue: "root_ca_cert_publisher", Workers: workers}, p.measured)

	err = watch.Objects(configMaps.Informer(), watch.Funcs[*corev1.ConfigMap]{
		Update: func(lane reconcile.Lane, _, cm *corev1.ConfigMap) { p.enqueueOwnerOf(lane, cm) },
		Delete: func(cm *corev1.ConfigMap) { p.enqueueOwnerOf(reconcile.Fresh, cm) },
	})
	if err != nil {
		return nil, err
	}
	err = watch.Objects(namespaces.Informer(), watch.Funcs[*corev1.Namespace]{
		Add: func(lane reconcile.Lane, ns *corev1.Namespace) { p.loop.Enqueue(lane, ns.Name) },
		Update: func(lane reconcile.Lane, _, ns *corev1.Namespace) {
			if ns.Status.Phase == corev1.NamespaceActive {
				p.loop.Enqueue(lane, ns.Name)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// enqueueOwnerOf queues the namespace of a published ConfigMap. The cache holds no other,
// unless its server does not know the field selector.
func (p *publisher) enqueueOwnerOf(lane reconcile.Lane, cm *corev1.ConfigMap) {
	if cm.Name == configMapName {
		p.loop.Enqueue(lane, cm.Namespace)
	}
}

// Run implements controller.Controller.
func (p *publisher) Run(ctx context.Context) error { return p.loop.Run(ctx) }

// measured is reconcile, counted and timed.
func (p *publisher) measured(ctx context.Context, namespace string) error {
	began := p.clock.Now()
	err := p.reconcile(ctx, namespace)
	p.metrics.observe(p.clock.Since(began), err)
	return err
}

func (p *publisher) reconcile(ctx context.Context, namespace string) error {
	published, err := p.configMaps.ConfigMaps(namespace).Get(configMapName)
	if apierrors.IsNotFound(err) {
		return p.create(ctx, namespace)
	}
	if err != nil {
		return fmt.Errorf("looking up config map %s/%s: %w", namespace, configMapName, err)
	}
	if correct(published, p.bundle) {
		return nil
	}
	_, err = p.client.CoreV1().ConfigMaps(namespace).Update(ctx, corrected(published, p.bundle), metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("updating config map %s/%s: %w", namespace, configMapName, err)
	}
	return nil
}

func (p *publisher) create(ctx context.Context, namespace string) error {
	ns, err := p.namespaces.Get(namespace)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking up namespace %s: %w", namespace, err)
	}
	if leaving(ns) {
		return nil
	}
	_, err = p.client.CoreV1().ConfigMaps(namespace).Create(ctx, newConfigMap(namespace, p.bundle), metav1.CreateOptions{})
	if err == nil {
		p.loop.AddAfter(namespace, recheckAfter)
		return nil
	}
	if namespaceGone(err) {
		return nil
	}
	return fmt.Errorf("creating config map %s/%s: %w", namespace, configMapName, err)
}
