package garbagecollector

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/customresources"
	"kcmd.dev/test/simulation"
)

var (
	jobs      = newMonitored(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, "Job")
	laterJobs = newMonitored(schema.GroupVersionResource{Group: "batch", Version: "v2", Resource: "jobs"}, "Job")
	allKinds  = []*monitored{configMaps, secrets, nodes, jobs}
)

// model is a world with ConfigMaps, Secrets and Nodes that own each other, and with Jobs as a custom kind, which is not
// always served, and in two versions.
type model struct {
	*simulation.World
	t        *testing.T
	metadata *simulation.Metadata
	served   *catalogue
	c        *collector
	changes  *simulation.Queue[*change]

	defined     bool // whether there is a definition of Jobs
	terminating bool // whether that is being deleted
	preferLater bool
	isOver      bool // no more trouble

	// shown has the owners of each object as the collector was last shown them, before those when its current work
	// began.
	shown, before map[types.UID][]metav1.OwnerReference
	// inForeground and orphaning are the objects that were ever deleted so.
	inForeground, orphaning map[types.UID]bool
}

func (m *model) start(env controller.Env, left any) simulation.Instance {
	env.Discovery, env.Mapper = m.served, &mapper{m: m}
	if m.c != nil {
		close(m.c.stopped)
	}
	c := newCollector(env, config{concurrentSyncs: 1})
	c.startWorker.open()
	m.c = c
	if left == nil {
		m.shown = map[types.UID][]metav1.OwnerReference{}
	}
	m.changes = simulation.NewQueue(m.World, func(ctx context.Context, ch *change) error {
		defer m.see(ch, ch.monitored != nil && ch.monitored.stopped)
		return c.change(ctx, ch)
	})
	c.changeQueue = m.changes
	runners := []simulation.Runner{m.changes}
	for _, list := range []*worklist{c.attempt, c.orphan} {
		queue := simulation.NewQueue(m.World, func(ctx context.Context, n *node) error {
			m.before = maps.Clone(m.shown)
			return list.do(ctx, n)
		})
		queue.AnyOrder = true
		list.queue = queue
		runners = append(runners, queue)
	}
	ended, cancel := context.WithCancel(m.Context())
	cancel() // it does not wait for informers
	var resync *simulation.Queue[string]
	resync = simulation.NewQueue(m.World, func(context.Context, string) error {
		m.discover()
		seen := c.refresh(ended)
		c.deliverReplayed()
		c.forgetVanished(ended, seen)
		resync.AddAfter("resync", resyncPeriod)
		return nil
	})
	resync.Add("resync")
	if left != nil {
		c.takeOver(ended, left.(*handover))
		if len(c.known) > 0 {
			c.replay(ended)
		}
	}
	return simulation.Instance{Runners: append(runners, resync), HandOver: func() any { return c.HandOver() }}
}

// see records what the collector is shown, unless the monitor was stopped.
func (m *model) see(ch *change, isStopped bool) {
	switch {
	case ch.monitored == nil || isStopped:
	case ch.kind == changeObserved:
		m.shown[ch.new.GetUID()] = ch.new.GetOwnerReferences()
	case ch.kind == changeGone || ch.kind == changeMissed && m.c.graph.nodes[ch.old.GetUID()] == nil:
		delete(m.shown, ch.old.GetUID())
	}
}

// owner returns the stored object that a reference of an object is to, if it is as the reference says.
func (m *model) owner(of metav1.Object, ref metav1.OwnerReference) metav1.Object {
	for _, kind := range append(slices.Clone(allKinds), laterJobs) {
		if kind.apiVersion != ref.APIVersion || kind.kind != ref.Kind {
			continue
		}
		for _, o := range m.metadata.Of(kind.resource) {
			isIn := o.GetNamespace() == "" || o.GetNamespace() == of.GetNamespace()
			if isIn && o.GetName() == ref.Name && o.GetUID() == ref.UID {
				return o
			}
		}
	}
	return nil
}

func isSolid(m *model, of metav1.Object, ref metav1.OwnerReference) bool {
	owner := m.owner(of, ref)
	return owner != nil && !m.inForeground[owner.GetUID()]
}

// checkRequest checks a request of the collector that was carried out.
func (m *model) checkRequest(action clienttesting.Action, was, is metav1.Object) {
	refs := was.GetOwnerReferences()
	if d, ok := action.(clienttesting.DeleteAction); ok {
		m.note(was.GetUID(), d.GetDeleteOptions().PropagationPolicy)
		isNamespaced := func(ref metav1.OwnerReference) bool { return ref.Kind != nodes.kind }
		if was.GetNamespace() == "" && slices.ContainsFunc(refs, isNamespaced) {
			m.t.Errorf("%s %s is deleted, its owners are %v, and some have a namespace", was.GetName(), was.GetUID(), refs)
		}
		if len(refs) == 0 || slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return isSolid(m, was, ref) }) {
			m.t.Errorf("%s %s is deleted, its owners are %v", was.GetName(), was.GetUID(), refs)
		}
		return
	}
	if is == nil {
		is = &metav1.ObjectMeta{}
	} else {
		for _, ref := range refs {
			isOfAnother := slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool {
				return r.UID == ref.UID && !isSolid(m, was, r)
			})
			if _, kept := ofUID(is.GetOwnerReferences(), ref.UID); !kept && !isOfAnother && !m.orphaning[ref.UID] {
				m.t.Errorf("%s %s loses owner %v", was.GetName(), was.GetUID(), ref)
			}
		}
	}
	if m.IsLateWrite() {
		return // a dependent may have come since
	}
	for _, finalizer := range []string{foreground, orphan} {
		if hasFinalizer(was, finalizer) && !hasFinalizer(is, finalizer) {
			m.checkReleased(was, finalizer)
		}
	}
}

// checkReleased checks that no dependent that the collector knew is left to an owner that loses a finalizer.
func (m *model) checkReleased(owner metav1.Object, finalizer string) {
	for _, kind := range allKinds {
		for _, o := range m.metadata.Of(kind.resource) {
			ref, isOwned := ofUID(o.GetOwnerReferences(), owner.GetUID())
			known, isKnown := ofUID(m.before[o.GetUID()], owner.GetUID())
			isMistaken := m.owner(o, ref) == nil || m.owner(o, known) == nil
			if o.GetUID() == owner.GetUID() || !isOwned || !isKnown || isMistaken || !m.metadata.IsServed(kind.resource) {
				continue
			}
			if finalizer == orphan || isBlocking(ref) && isBlocking(known) {
				m.t.Errorf("%s %s loses %s before %s %s", owner.GetName(), owner.GetUID(), finalizer, o.GetName(), o.GetUID())
			}
		}
	}
}

func (m *model) note(uid types.UID, policy *metav1.DeletionPropagation) {
	switch ptr.Deref(policy, "") {
	case metav1.DeletePropagationForeground:
		m.inForeground[uid] = true
	case metav1.DeletePropagationOrphan:
		m.orphaning[uid] = true
	}
}

// TestWhateverHappensWhatIsOwnedStaysAndWhatIsNotGoes has owners deleted in all ways and recreated, references
// changed, kinds come and go, requests fail and the collector restarted, while the caches are behind.
func TestWhateverHappensWhatIsOwnedStaysAndWhatIsNotGoes(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) { (&model{World: w, t: t}).run() })
}

func (m *model) run() {
	m.metadata, m.served = simulation.ServeMetadata(m.World), &catalogue{}
	m.metadata.Meanwhile, m.metadata.Done = m.meanwhile, m.checkRequest
	m.metadata.Version(laterJobs.resource, jobs.resource)
	m.metadata.Custom = map[schema.GroupVersionResource]bool{jobs.resource: true, laterJobs.resource: true}
	m.defined = m.OneIn(2)
	m.metadata.Define(customresources.Definitions, "jobs.batch", m.defined)
	m.metadata.Serve(laterJobs.resource, m.OneIn(2))
	m.inForeground, m.orphaning = map[types.UID]bool{}, map[types.UID]bool{}
	for range m.Rand.IntN(20) {
		m.create()
	}
	m.Start = m.start
	m.MayBeLossy(3)
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Play(func() {
		if m.OneIn(2) {
			m.user()
		} else {
			m.others()
		}
	}, func() { m.Clock.Step(time.Duration(m.Rand.IntN(300)) * time.Second) })
	m.isOver = true
	m.Settle(15*time.Minute, m.others)
	m.check()
}

func (m *model) check() {
	stored := map[types.UID]metav1.Object{}
	for _, kind := range allKinds {
		for _, o := range m.metadata.Of(kind.resource) {
			stored[o.GetUID()] = o
			m.checkObject(kind, o)
		}
	}
	for uid, n := range m.c.graph.nodes {
		o, exists := stored[uid]
		if n.virtual && n.namespace == "" && n.kind != nodes.kind {
			continue // only cluster-scoped objects refer to it
		}
		if n.virtual || n.unwatched() || !exists || !sameReferences(n.owners, o.GetOwnerReferences()) {
			m.t.Errorf("the graph has %v, virtual %v, owners %v, %d dependents", n, n.virtual, n.owners, len(n.dependents))
		}
		for _, ref := range n.owners {
			if of, known := m.c.graph.nodes[ref.UID]; known && of.matches(ref) && !of.elsewhere(n.identity) {
				if _, linked := of.dependents[n]; !linked {
					m.t.Errorf("%v lacks the dependent %v", of, n)
				}
			}
		}
		blocking := 0
		for dependent, blocks := range n.dependents {
			if m.c.graph.nodes[dependent.uid] != dependent || blocks != blocksOwner(dependent, n) {
				m.t.Errorf("%v has the dependent %v", n, dependent)
			}
			if blocks {
				blocking++
			}
		}
		if n.blocking != blocking {
			m.t.Errorf("%v has %d blocking dependents, not %d", n, blocking, n.blocking)
		}
	}
	if left := append(m.c.attempt.left(), m.c.orphan.left()...); len(left) > 0 {
		m.t.Errorf("work is left: %v", left)
	}
}

func blocksOwner(dependent, owner *node) bool {
	return blocks(dependent.owners, owner.uid) && !owner.elsewhere(dependent.identity)
}

func (m *model) checkObject(kind *monitored, o metav1.Object) {
	refs := o.GetOwnerReferences()
	live := slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool { return m.owner(o, ref) == nil })
	if n := m.c.graph.nodes[o.GetUID()]; n == nil {
		m.t.Errorf("the graph lacks %s %s", kind.kind, o.GetName())
	}
	if kind == nodes && slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return ref.Kind != nodes.kind }) {
		return
	}
	if o.GetDeletionTimestamp() != nil || len(live) < len(refs) {
		m.t.Errorf("%s %s %s is left, with finalizers %v, owners %v",
			kind.kind, o.GetName(), o.GetUID(), o.GetFinalizers(), refs)
	}
}
