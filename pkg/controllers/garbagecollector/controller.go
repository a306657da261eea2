// Package garbagecollector deletes objects whose owners have all been deleted, and carries out
// deletions in the foreground and deletions that orphan dependents.
//
// The model, in rules:
//
//  1. A graph holds every object of every resource that can be listed, watched and deleted,
//     by UID, with its owners and dependents. An owner that no informer has shown is a
//     virtual node for as long as it has dependents. Informers are of metadata unless the kind is
//     cached whole anyway.
//  2. Changes reach the graph through one queue, in the order of each informer's notifications.
//     Nodes affected by a change are added to two queues: attemptToDelete and attemptToOrphan.
//     Only updates of owners, finalizers or the deletion timestamp of an object are queued.
//  3. The graph determines what to examine, never what to delete. That an object does not exist
//     is concluded from a live read of exactly that object, or from an informer that has shown
//     the object and its deletion; never from its absence in a cache, or in a list. For owners the
//     result is cached for a minute. That an owner exists can be concluded from a synced informer, since
//     its deletion enqueues the object again. An owner of a kind that is not served is neither
//     present nor absent. One that was absent, and exists again, gets back those dependents that are
//     examined.
//  4. A reference claims a kind, name and namespace for a UID. References with one UID can
//     disagree; only objects whose own claim is refuted are deleted.
//  5. An object without an existing owner is deleted under the precondition that it has not
//     changed, so that an owner added in the meantime saves it. It is read from the cache
//     first: should the copy be stale, the precondition fails and the object is read live.
//  6. An owner in foreground deletion is examined when its last blocking dependent is deleted
//     or stops blocking. One that blocks its own deletion, in a cycle, stops blocking that of its owners.
//     One with the finalizer orphan is released once no dependent refers to it, and not before the graph has all
//     objects of each kind, for which it waits up to five minutes.
//  7. The set of resources follows discovery every 30 seconds. When a resource is no longer
//     watched, because it is not served or another version is preferred, its informer is
//     stopped and its objects stay in the graph, unwatched: there are no events for them. They
//     remain dependents and continue to block. An unwatched object is acted upon only after a
//     live read, in any served version, whose result updates the graph; without one the attempt
//     fails and is retried, and an owner that deletes or orphans its dependents waits.
//  8. An unwatched object is watched again when an informer shows its UID, in any version. When
//     the informer of its kind has synced without showing the object, the object is read live,
//     since the informer may have listed from a stale API server. It is removed when a live
//     read shows that it does not exist; without one only if it neither has owners nor
//     dependents, so that its absence has no consequences. An object that a later list of the
//     informer lacks, or in whose place the informer shows one with another UID, becomes unwatched,
//     too, if no other informer shows it, and it has dependents or an owner that is being deleted.
//  9. A kind is gone if every check for five minutes has found that discovery of its group
//     succeeds and has the kind in no version, that a request for it is answered with "no such
//     resource", and that it has no definition (one that is not served keeps its objects). Its
//     objects are then forgotten, as are those of kinds that the configuration ignores: they
//     are no longer dependents, and those with dependents become virtual. The absence of a
//     group from discovery is never enough.
//  10. HandOver passes on the graph, the absent owners, the set of resources and the nodes that
//     were queued, in progress or backing off. All of it is valid for one cluster, and may be
//     stale: the successor treats all objects as unwatched. It watches the same resources,
//     without discovery, and its informers replay their caches, as in rule 8. Changes still
//     queued in the old instance are dropped, because the replay includes them; results of live
//     reads are applied at once and never queued. The queues of nodes are processed when the
//     replay is complete, or after 30 seconds.
//  11. A standby keeps the informers of the served resources. It is rebuilt when these change.
//     Should discovery of a group fail when it takes over, it goes on watching the resources of
//     that group: otherwise owners would be released without their dependents.
//
// Behaviour: docs/specs/garbage-collector-controller.md.
package garbagecollector

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controller/concurrent"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	// resyncPeriod is the interval of discovery.
	resyncPeriod = 30 * time.Second
	// syncTimeout bounds the wait for informers, so that one resource that cannot be listed
	// does not delay the others.
	syncTimeout = 30 * time.Second
	// maxChanges bounds the changes queued for the graph. Beyond it, handlers block.
	maxChanges = 4096
)

// Descriptor describes garbage-collector-controller.
func Descriptor() controller.Descriptor {
	// Served by every API server: requiring it means waiting for the first discovery.
	namespaces := []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("namespaces")}
	return controller.Describe(controller.Descriptor{
		Name:           "garbage-collector-controller",
		Aliases:        []string{"garbagecollector"},
		ServiceAccount: "generic-garbage-collector",
		DeletesInBulk:  true,
		EventSource:    "garbage-collector-controller",
		Requires:       namespaces,
		Partial:        namespaces,
		ReadsServed:    true,
		Limits:         controller.LimitFactors{QPS: 2},
	}, configOf, build)
}

// config is what the controller reads of the configuration.
type config struct {
	// concurrentSyncs is the number of workers of each of the two queues of nodes.
	concurrentSyncs int
	// ignored are the resources that are not watched, as "resource.group", sorted and
	// separated by spaces.
	ignored string
}

func configOf(c *controller.Config) config {
	gc := c.Controllers.GarbageCollector
	return config{concurrentSyncs: int(*gc.ConcurrentSyncs), ignored: encode(gc.IgnoredResources)}
}

func encode(resources []v1beta1.GroupResource) string {
	var names []string
	for _, r := range resources {
		names = append(names, schema.GroupResource{Group: r.Group, Resource: r.Resource}.String())
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}

func decode(encoded string) map[schema.GroupResource]bool {
	ignored := map[schema.GroupResource]bool{}
	for name := range strings.FieldsSeq(encoded) {
		ignored[schema.ParseGroupResource(name)] = true
	}
	return ignored
}

type collector struct {
	controller.Env
	ignored     map[schema.GroupResource]bool
	graph       *graph
	monitors    *monitors
	changes     *reconcile.Loop[*change]
	changeQueue reconcile.Queue[*change] // the loop, except in tests
	attempt     *worklist
	orphan      *worklist
	syncFailed  counter
	mergeOnly   *learned
	startWorker *gate

	// slots holds an entry for each queued change; stopped ends the wait for a slot.
	slots   chan struct{}
	stopped chan struct{}

	// known are the resources of the last successful discovery, initially those of the
	// predecessor; foreseen are those that a standby watched, which count until there are any.
	// vanishing are kinds that seem to be gone. All are confined to the goroutine of Run.
	known, foreseen map[schema.GroupVersionResource]*monitored
	vanishing       vanishing
}

func build(env controller.Env, cfg config) (*collector, error) {
	return newCollector(env, cfg), nil
}

func newCollector(env controller.Env, cfg config) *collector {
	c := &collector{
		Env:         env,
		ignored:     decode(cfg.ignored),
		graph:       newGraph(env.Clock),
		syncFailed:  newSyncFailed(env.Metrics),
		mergeOnly:   &learned{},
		startWorker: newGate(),
		slots:       make(chan struct{}, maxChanges),
		stopped:     make(chan struct{}),
		known:       map[schema.GroupVersionResource]*monitored{},
		vanishing:   vanishing{},
	}
	c.foreseen = collectable(context.Background(), env.Served(), c.ignored)
	c.monitors = newMonitors(env.Informers, env.Clock, c.graph.knows, c.deliver)
	c.monitors.foresee(c.foreseen)

	// No loop waits for all handlers: these sync only while changes are processed, and the
	// workers start without the informers that do not sync in time.
	c.changes = reconcile.New(env, reconcile.Options[*change]{
		Queue: "garbage_collector_graph_changes", Workers: 1, Ready: atOnce,
	}, c.change)
	c.changeQueue = c.changes
	ofNodes := func(queue string) reconcile.Options[*node] {
		return reconcile.Options[*node]{Queue: queue, Workers: cfg.concurrentSyncs, Ready: c.startWorker.wait}
	}
	c.attempt = newWorklist(env, ofNodes("garbage_collector_attempt_to_delete"), c.attemptToDelete)
	c.orphan = newWorklist(env, ofNodes("garbage_collector_attempt_to_orphan"), c.attemptToOrphan)
	return c
}

// Run implements controller.Controller.
func (c *collector) Run(ctx context.Context) error {
	if left, ok := controller.TakeOver(c.Env, c); ok {
		c.takeOver(ctx, left)
	}
	return concurrent.Run(ctx, c.changes.Run, c.attempt.loop.Run, c.orphan.loop.Run,
		func(ctx context.Context) error {
			c.startWorker.openAfter(ctx, c.Clock, syncTimeout)
			return nil
		},
		func(ctx context.Context) error {
			<-ctx.Done()
			close(c.stopped)
			return nil
		},
		func(ctx context.Context) error {
			c.followResources(ctx)
			return nil
		})
}
