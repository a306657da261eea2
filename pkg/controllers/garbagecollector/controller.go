// Package garbagecollector deletes objects whose every owner is gone, and carries out the
// deletions that ask for their dependents to be deleted first or to be orphaned.
//
// The model, in rules:
//
//  1. A graph holds every object of every resource that can be listed, watched and deleted,
//     by UID, with its owners and dependents. An owner that no informer has shown is a
//     virtual node. Informers are of metadata unless the kind is cached whole anyway.
//  2. Changes reach the graph through one queue, in the order in which each informer told
//     of them. What follows from a change goes into two queues of nodes: attemptToDelete and
//     attemptToOrphan. Of the updates only those are queued that concern owners, finalizers
//     or the deletion of an object.
//  3. The graph says what to look at, never what to delete. That an object does not exist is
//     concluded from a live answer about just that object, or from an informer that has shown
//     the object and says that it was deleted; never from what an informer does not show. Of
//     owners it is remembered, for a minute. That an owner exists can be concluded from a
//     synced informer, since its deletion brings the object back. An owner of a kind that is
//     not served is neither.
//  4. A reference claims a kind, name and namespace for a UID. References with one UID can
//     disagree; only objects whose own claim is refuted are deleted.
//  5. An object without a live owner is deleted under the precondition that it has not
//     changed, so that an owner added meanwhile saves it. It is read from the cache first:
//     should the copy be stale, the precondition fails and the object is read live.
//  6. An owner in foreground deletion is looked at when the last dependent that blocks it is
//     gone or stops blocking. One with the finalizer orphan is released once no dependent
//     refers to it.
//  7. The set of resources follows discovery every 30 seconds. When a resource is not watched
//     any more, because it is not served or another version is preferred, its informer is
//     stopped and its objects stay in the graph, unwatched: nobody tells what becomes of them.
//     They go on being dependents, and go on blocking. What is done about one is done after a
//     live answer, in whatever version is served, and the graph is told the answer; as long as
//     there is none it fails and is tried again, and an owner that deletes or orphans its
//     dependents waits.
//  8. An unwatched object is watched again when an informer shows its UID, in any version. When
//     the informer of its kind has shown all it holds and the object was not among it, the
//     object is looked up: the informer may have listed from an API server that is behind. It
//     goes when an answer says that it does not exist; without one only if it neither owns nor
//     is owned, so that nothing can follow from its absence.
//  9. A kind is gone when it was found so at every look for five minutes: its group could be
//     asked and has it in no version, a request for it is answered with "no such resource",
//     and there is no definition of it (one that is not served keeps its objects). Its objects
//     are forgotten then, as are those of kinds that the configuration ignores: they are no
//     dependents any more, and those that own something become virtual. An answer of discovery
//     that lacks a group is never enough.
//  10. A restart takes the graph along: HandOver passes on the graph, the absent owners, the
//     set of resources and the nodes that were queued, in work or backing off. All of it is
//     true of one cluster, and may be out of date: to the successor all objects are unwatched.
//     It watches the same resources, without asking for anything, and its informers replay what
//     they hold, as in rule 8. Changes still queued in the old instance are dropped, because
//     the replay holds them; answers of the API server are applied at once and never queued.
//     The queues of nodes are worked on when the replay is complete, or after 30 seconds.
//  11. A standby keeps the informers of what is served. It is built anew when that changes.
//
// Behaviour: specs/garbage-collector-controller.md.
package garbagecollector

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/concurrent"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	// resyncPeriod is the pause between two looks at what the API server serves.
	resyncPeriod = 30 * time.Second
	// syncTimeout bounds the wait for informers, so that one resource that cannot be listed
	// does not hold up the others.
	syncTimeout = 30 * time.Second
	// maxChanges bounds the changes queued for the graph. Informers hold back the others.
	maxChanges = 4096
)

// Descriptor describes garbage-collector-controller.
func Descriptor() controller.Descriptor {
	// Served by every API server: to require it means to wait for the first discovery.
	namespaces := []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("namespaces")}
	return controller.Describe(controller.Descriptor{
		Name:           "garbage-collector-controller",
		Aliases:        []string{"garbagecollector"},
		Doc:            "Deletes objects whose owners are gone.",
		ServiceAccount: "generic-garbage-collector",
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
	metadata    metadata.Interface
	discovery   discovery.DiscoveryInterface
	mapper      meta.RESTMapper
	events      record.EventRecorder
	clock       clock.WithTicker
	predecessor func() any

	ignored     map[schema.GroupResource]bool
	graph       *graph
	monitors    *monitors
	changes     *reconcile.Loop[*change]
	attempt     *worklist
	orphan      *worklist
	syncFailed  counter
	mergeOnly   *learned
	startWorker *gate

	// slots holds an entry for each queued change; stopped ends the wait for a slot.
	slots   chan struct{}
	stopped chan struct{}

	// known are the resources of the last successful look at what is served, at first those
	// of the predecessor. vanishing are kinds that seem to be gone. Both belong to the
	// goroutine of Run.
	known     map[schema.GroupVersionResource]*monitored
	vanishing vanishing
}

func build(env controller.Env, cfg config) (controller.Controller, error) {
	return newCollector(env, cfg), nil
}

func newCollector(env controller.Env, cfg config) *collector {
	c := &collector{
		metadata:    env.Metadata,
		discovery:   env.Discovery,
		mapper:      env.Mapper,
		events:      env.Events,
		clock:       env.Clock,
		predecessor: env.Predecessor,
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
	c.monitors = newMonitors(env.Informers, env.Clock, c.graph.knows, c.deliver)
	c.monitors.foresee(collectable(context.Background(), env.Served(), c.ignored))

	// The loops must not wait for all handlers: the graph takes part in bringing them in sync,
	// and the workers begin without those that do not get there.
	ungated := newGate()
	ungated.open()
	changing, working := env, env
	changing.Informers = gatedScope{env.Informers, ungated}
	working.Informers = gatedScope{env.Informers, c.startWorker}
	c.changes = reconcile.New(changing, reconcile.Options[*change]{Queue: "garbage_collector_graph_changes", Workers: 1}, c.change)
	c.attempt = newWorklist(working, "garbage_collector_attempt_to_delete", cfg.concurrentSyncs, c.attemptToDelete)
	c.orphan = newWorklist(working, "garbage_collector_attempt_to_orphan", cfg.concurrentSyncs, c.attemptToOrphan)
	return c
}

// Run implements controller.Controller.
func (c *collector) Run(ctx context.Context) error {
	if left, ok := c.predecessor().(*handover); ok {
		c.takeOver(ctx, left)
	}
	return concurrent.Run(ctx, c.changes.Run, c.attempt.loop.Run, c.orphan.loop.Run,
		func(ctx context.Context) error {
			c.startWorker.openAfter(ctx, c.clock, syncTimeout)
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

// takeOver continues with what the predecessor left. See rule 10.
func (c *collector) takeOver(ctx context.Context, left *handover) {
	c.graph.adopt(left.graph)
	for resource, as := range left.monitored {
		if !c.ignored[resource.GroupResource()] {
			c.known[resource] = as
		}
	}
	c.apply(ctx, &change{kind: forgotten, lane: reconcile.Backlog, kinds: c.ignored})
	for _, n := range left.attempt {
		c.attempt.add(reconcile.Backlog, n)
	}
	for _, n := range left.orphan {
		c.orphan.add(reconcile.Backlog, n)
	}
}

// HandOver implements controller.HandsOver.
func (c *collector) HandOver() any {
	all := c.monitors.watched()
	maps.Copy(all, c.known)
	return &handover{graph: c.graph, monitored: all, attempt: c.attempt.left(), orphan: c.orphan.left()}
}

// deliver queues a change for the graph. It blocks while too many are queued.
func (c *collector) deliver(ch *change) {
	select {
	case c.slots <- struct{}{}:
		c.changes.Add(ch) // one lane keeps the order
	case <-c.stopped:
	}
}

func (c *collector) change(ctx context.Context, ch *change) error {
	select {
	case <-c.slots:
	default: // a second try has given its slot back
	}
	c.apply(ctx, ch)
	if ch.done != nil {
		ch.done()
	}
	return nil
}

// apply makes a change of the graph and queues what follows from it.
func (c *collector) apply(ctx context.Context, ch *change) {
	e := c.graph.apply(ch)
	for _, n := range e.attempt {
		c.attempt.add(ch.lane, n)
	}
	for _, n := range e.later {
		c.attempt.addLater(n)
	}
	for _, n := range e.orphan {
		c.orphan.add(ch.lane, n)
	}
	for _, ref := range e.invalid {
		c.reportInvalid(ctx, ref)
	}
}
