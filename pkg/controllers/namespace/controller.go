// Package namespace deletes the content of namespaces that are being deleted, reports progress
// in their conditions, and finalizes empty ones.
//
// The model, in rules:
//
//  1. A key is a namespace with a deletion timestamp. It waits five seconds after each
//     event, so that every API server has seen the deletion before the first sweep and
//     nothing is created after it. So does one that a live read shows before any event, and one whose key is
//     queued for something else.
//  2. Discovery determines what to sweep: every namespaced type that can be deleted, in the
//     preferred version. A namespace is not finalized while discovery is incomplete. It is, too, for some minutes,
//     while it does not show a type that it has shown before, and that its definition says is served.
//  3. Pods are deleted first. No other type is swept while a live list shows pods, even if they
//     only wait for a finalizer. An error of listing or deleting pods does not delay other
//     types, but the namespace is not finalized. (With the emulation of versions before 1.34,
//     the gate OrderedNamespaceDeletion can make pods a type like all others.)
//  4. A type is deleted as a collection, or item by item where that is not supported, and
//     is clean once a live list is empty to its last page. One that was listed, or deleted as a
//     collection, is not clean because it cannot be listed any more, nor is a custom one that its
//     definition says is served.
//  5. When the last pod is gone that a sweep has left, the namespace is swept at once.
//  6. A sweep that finds every type clean ends in finalization. One with an error is retried
//     with backoff. One that leaves items is repeated after half the time they are expected to
//     take: the grace period of pods, 15 seconds for finalizers.
//  7. A repeated sweep begins with the types that are not known to be clean, and continues with
//     the others only once these are: finalization always follows a live list of every type in
//     the same reconcile.
//  8. Types are swept a few at a time. One discovery serves all namespaces whose deletion was
//     seen five seconds before it began. Of this state, the types that discovery has shown and that of rule 9 are
//     handed over.
//  9. The namespace is read again before content of a type is deleted: another client may
//     finalize it during a sweep and create it again. Single items are deleted by UID. After the
//     deletion of a collection that had no answer, the namespace is not finalized before that
//     cannot be executed any more.
//  10. The workers start when the caches are complete, or after 30 seconds: without that of pods, only rule 5 is lost.
//
// Behaviour: docs/specs/namespace-controller.md.
package namespace

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Descriptor describes namespace-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "namespace-controller",
		Aliases:        []string{"namespace"},
		ServiceAccount: "namespace-controller",
		DeletesInBulk:  true,
		Limits:         controller.LimitFactors{QPS: 20, Burst: 100},
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("namespaces"),
		},
	}, func(c *controller.Config) config {
		return config{
			concurrentSyncs: int(*c.Controllers.Namespace.ConcurrentSyncs),
			podsFirst:       gates.Enabled(c, gates.OrderedNamespaceDeletion),
		}
	}, newController)
}

// config is what the controller reads of the configuration.
type config struct {
	// concurrentSyncs is the number of namespaces swept concurrently.
	concurrentSyncs int
	// podsFirst is the gate OrderedNamespaceDeletion.
	podsFirst bool
}

type namespaceController struct {
	controller.Env
	namespaces corelisters.NamespaceLister
	pods       cache.Indexer
	podsSynced cache.InformerSynced
	catalogue  *catalogue
	podsFirst  bool
	memory     *memory
	late       *lateDeletions
	backoff    *backoff
	// typesAtOnce is the number of types of one namespace swept concurrently.
	typesAtOnce int
	// queue accepts keys. Outside of tests, it is the loop.
	queue reconcile.Queue[string]
	loop  *reconcile.Loop[string]
}

func newController(env controller.Env, cfg config) (*namespaceController, error) {
	namespaces := env.Informers.Core().V1().Namespaces()
	shown, err := env.Informers.AnyFor(pods)
	if err != nil {
		return nil, fmt.Errorf("preparing the cache of pods: %w", err)
	}
	c := &namespaceController{
		Env:        env,
		namespaces: namespaces.Lister(),
		pods:       shown.Informer().GetIndexer(),
		podsSynced: shown.Informer().HasSynced,
		podsFirst:  cfg.podsFirst,
		memory:     newMemory(),
		late:       newLateDeletions(),
		backoff:    newBackoff(),

		typesAtOnce: typesAtOnce,
	}
	c.catalogue = newCatalogue(env.Discovery, env.Clock, c.isServed)
	c.loop = reconcile.New(env, reconcile.Options[string]{
		Queue: "namespace", Workers: cfg.concurrentSyncs, Backoff: c.backoff, Namespace: reconcile.OfNamespace,
		Ready: func(ctx context.Context) bool { return ctx.Err() == nil }, // Run has waited
	}, c.reconcile)
	c.queue = c.loop
	c.watch(namespaces.Informer())
	c.watchPods(shown.Informer())
	return c, nil
}

// syncTimeout bounds the wait for caches: what is in a namespace is read live.
const syncTimeout = 30 * time.Second

// Run implements controller.Controller.
func (c *namespaceController) Run(ctx context.Context) error {
	if !reconcile.ReadyWithin(ctx, c.Env, syncTimeout) {
		return nil
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	return c.loop.Run(ctx)
}

func (c *namespaceController) begin(context.Context) error {
	if left, ok := controller.TakeOver(c.Env, c); ok {
		c.late, c.catalogue.shown = left.late, left.shown
	}
	return nil
}

// handover is what an instance hands over.
type handover struct {
	late  *lateDeletions
	shown shownTypes
}

// HandOver implements controller.HandsOver.
func (c *namespaceController) HandOver() handover { return handover{c.late, c.catalogue.shown} }
