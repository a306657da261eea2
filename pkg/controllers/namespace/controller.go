// Package namespace empties namespaces that are being deleted, reports on their conditions
// how that goes, and lets the emptied ones go.
//
// The model, in rules:
//
//  1. A key is a namespace with a deletion timestamp. It waits five seconds after each
//     event, so that every API server has seen the deletion before the first sweep and
//     nothing is created after it.
//  2. What there is to sweep is what discovery says: every namespaced type that can be
//     deleted, in the version the server prefers. A namespace is not let go while
//     discovery is incomplete.
//  3. Pods go first. No other type is touched while a live list shows pods, even if they
//     only wait for a finalizer. That pods cannot be listed or deleted holds up nothing
//     else; it does keep the namespace. (Before 1.34, which can be emulated, the gate
//     OrderedNamespaceDeletion can make pods a type like all others.)
//  4. A type is deleted as a collection, or item by item where that is not supported, and
//     is clean once a live list is empty to its last page.
//  5. A sweep that finds every type clean ends in finalization. One that meets an error is
//     repeated with backoff. One that leaves items is repeated after half the time they
//     are expected to take: the grace period of pods, 15 seconds for finalizers.
//  6. A repeated sweep begins with the types that are not known to be clean, and reaches
//     the others only once these are: whatever the last sweep did, finalization follows a
//     live list of every type in one reconcile.
//  7. Types are swept a few at a time. One discovery serves all namespaces whose deletion
//     was seen before it began. Nothing of this is needed after a restart.
//
// Behaviour: specs/namespace-controller.md.
package namespace

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
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	kcmdconfig "kcmd.dev/pkg/config"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// settleTime is how long a namespace waits after an event before it is swept.
const settleTime = 5 * time.Second

// Descriptor describes namespace-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "namespace-controller",
		Aliases:        []string{"namespace"},
		Doc:            "Empties and finalizes namespaces that are being deleted.",
		ServiceAccount: "namespace-controller",
		Limits:         controller.LimitFactors{QPS: 20, Burst: 100},
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("namespaces"),
		},
	}, func(c *controller.Config) config {
		return config{
			concurrentSyncs: int(*c.Controllers.Namespace.ConcurrentSyncs),
			podsFirst:       kcmdconfig.Enabled(c, kcmdconfig.OrderedNamespaceDeletion),
		}
	}, build)
}

// config is what the controller reads of the configuration.
type config struct {
	// concurrentSyncs is the number of namespaces emptied at the same time.
	concurrentSyncs int
	// podsFirst is the gate OrderedNamespaceDeletion.
	podsFirst bool
}

type namespaceController struct {
	client     kubernetes.Interface
	metadata   metadata.Interface
	clock      clock.PassiveClock
	namespaces corelisters.NamespaceLister
	catalogue  *catalogue
	podsFirst  bool
	memory     *memory
	backoff    *backoff
	loop       *reconcile.Loop[string]
}

func build(env controller.Env, cfg config) (controller.Controller, error) {
	c, err := newController(env, cfg)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func newController(env controller.Env, cfg config) (*namespaceController, error) {
	namespaces := env.Informers.Core().V1().Namespaces()
	c := &namespaceController{
		client:     env.Client,
		metadata:   env.Metadata,
		clock:      env.Clock,
		namespaces: namespaces.Lister(),
		catalogue:  newCatalogue(env.Discovery, env.Clock),
		podsFirst:  cfg.podsFirst,
		memory:     newMemory(),
		backoff:    newBackoff(),
	}
	c.loop = reconcile.New(env, reconcile.Options[string]{
		Queue:   "namespace",
		Workers: cfg.concurrentSyncs,
		Backoff: c.backoff,
	}, c.reconcile)

	err := watch.Objects(namespaces.Informer(), watch.Funcs[*corev1.Namespace]{
		Add:    func(_ reconcile.Lane, ns *corev1.Namespace) { c.observe(ns) },
		Update: func(_ reconcile.Lane, _, ns *corev1.Namespace) { c.observe(ns) },
		Delete: func(ns *corev1.Namespace) { c.memory.forget(ns.Name) },
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *namespaceController) observe(ns *corev1.Namespace) {
	if ns.DeletionTimestamp == nil {
		return
	}
	c.memory.observe(ns, c.clock.Now())
	c.loop.AddAfter(ns.Name, settleTime)
}

// Run implements controller.Controller.
func (c *namespaceController) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *namespaceController) reconcile(ctx context.Context, name string) error {
	_, err := c.namespaces.Get(name)
	if apierrors.IsNotFound(err) {
		c.memory.forget(name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking up namespace %s: %w", name, err)
	}
	ns, err := c.read(ctx, name)
	if err != nil || ns == nil || ns.DeletionTimestamp == nil {
		return err
	}
	ns, err = c.markTerminating(ctx, ns)
	if err != nil || ns == nil || ns.DeletionTimestamp == nil || len(ns.Spec.Finalizers) == 0 {
		return err
	}
	ns, estimate, err := c.empty(ctx, ns)
	if err != nil {
		return err
	}
	if estimate > 0 {
		c.repeat(ctx, name, estimate)
		return nil
	}
	return c.finalize(ctx, ns)
}

// read returns a namespace as the API server has it, nil if there is none.
func (c *namespaceController) read(ctx context.Context, name string) (*corev1.Namespace, error) {
	ns, err := c.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return ns, nil
}

// repeat brings a namespace back whose content is expected to be gone after some seconds.
// That is no failure, and no success either: past failures are not forgotten.
func (c *namespaceController) repeat(ctx context.Context, name string, estimate int64) {
	pause := recheckAfter(estimate)
	klog.FromContext(ctx).V(4).Info("Content remains in the namespace", "namespace", name, "recheckAfter", pause)
	c.backoff.keep(name)
	c.loop.AddAfter(name, pause)
}

// recheckAfter is the time after which content that takes an estimated number of seconds
// to go is looked at again.
func recheckAfter(estimate int64) time.Duration {
	return time.Duration(estimate/2+1) * time.Second
}
