package storageversiongc

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// StorageVersion is what the model is about.
type StorageVersion = apiserverinternalv1alpha1.StorageVersion

// record is the entry of an API server in a StorageVersion.
type record struct {
	storageVersion types.UID
	server         string
}

// moment is a point of a history: how many things had happened, and when it was.
type moment struct {
	n  int
	at time.Time
}

// model is a world in which API servers come and go under the same names, and record what they store.
type model struct {
	*simulation.World
	t *testing.T
	// happened counts what API servers and users did.
	happened int
	// wrote is when an API server wrote its entry as it is.
	wrote map[record]moment
	// back is when an API server that exists came.
	back map[string]moment
	// ofLease is whether the controller is reconciling the lease of an API server.
	ofLease bool
}

func (m *model) now() moment {
	m.happened++
	return moment{m.happened, m.Clock.Now()}
}

func (m *model) lease(id string) (*coordinationv1.Lease, bool) {
	return simulation.Get[*coordinationv1.Lease](m.World, metav1.NamespaceSystem, id)
}

// wasGone returns when an API server was gone last.
func (m *model) wasGone(id string) moment {
	if _, exists := m.lease(id); !exists {
		return moment{math.MaxInt, m.Clock.Now()}
	}
	return m.back[id]
}

// checkRemoved checks that API servers were gone after they had written the entries that are removed. An answer that is
// used again for other StorageVersions may be up to a second older. A write that is late may be one of those.
func (m *model) checkRemoved(old *StorageVersion, kept []entry) {
	removed := without(old.Status.StorageVersions, idsOf(kept))
	if len(kept)+len(removed) != len(old.Status.StorageVersions) || len(removed) == 0 {
		m.t.Errorf("of %+v is left %+v", old.Status.StorageVersions, kept)
	}
	isFresh := m.ofLease && !m.IsLateWrite()
	for i := range removed {
		id := removed[i].APIServerID
		wrote, gone := m.wrote[record{old.UID, id}], m.wasGone(id)
		if gone.n < wrote.n && (isFresh || wrote.at.Sub(gone.at) >= time.Second) {
			m.t.Errorf("%s loses the entry of %s, written at %v by an API server that is there since %v (with a fresh answer: %v)",
				old.Name, id, wrote.at, gone.at, isFresh)
		}
	}
}

func idsOf(entries []entry) map[string]bool {
	all := map[string]bool{}
	for i := range entries {
		all[entries[i].APIServerID] = true
	}
	return all
}

// validate checks an update by the controller.
func (m *model) validate(old, new runtime.Object) error {
	is := new.(*StorageVersion)
	m.checkRemoved(old.(*StorageVersion), is.Status.StorageVersions)
	common := is.Status.StorageVersions[0].EncodingVersion
	differs := func(e entry) bool { return e.EncodingVersion != common }
	if isCommon := !slices.ContainsFunc(is.Status.StorageVersions, differs); isCommon != (is.Status.CommonEncodingVersion != nil) {
		m.t.Errorf("the common version of %+v is %v", is.Status.StorageVersions, is.Status.CommonEncodingVersion)
	}
	return nil
}

// answer has a webhook answer a deletion now and then as the API server itself would, though nothing has changed.
func (m *model) answer(action clienttesting.Action) (bool, runtime.Object, error) {
	if !m.Faulty || !m.OneIn(2) {
		return false, nil, nil
	}
	resource := schema.GroupResource{Group: apiserverinternalv1alpha1.GroupName, Resource: "storageversions"}
	return true, nil, apierrors.NewNotFound(resource, action.(clienttesting.DeleteAction).GetName())
}

// record has an API server record in what version it stores a resource.
func (m *model) record(id, name string) {
	sv, ok := simulation.Get[*StorageVersion](m.World, "", name)
	if !ok {
		m.Create(&StorageVersion{ObjectMeta: metav1.ObjectMeta{Name: name}})
		sv, _ = simulation.Get[*StorageVersion](m.World, "", name)
	}
	own := entry{APIServerID: id, EncodingVersion: []string{"v1", "v2"}[m.Rand.IntN(2)]}
	is := func(e entry) bool { return e.APIServerID == id }
	i := slices.IndexFunc(sv.Status.StorageVersions, is)
	if i >= 0 && sv.Status.StorageVersions[i].EncodingVersion == own.EncodingVersion {
		return // there would be no new version of it
	}
	m.Note("%s records %s in %s", id, own.EncodingVersion, name)
	m.wrote[record{sv.UID, id}] = m.now()
	simulation.Change(m.World, sv, func(sv *StorageVersion) {
		if i >= 0 {
			sv.Status.StorageVersions[i] = own
		} else {
			sv.Status.StorageVersions = append(sv.Status.StorageVersions, own)
		}
	})
}

// live has an API server do something.
func (m *model) live() {
	id := fmt.Sprint("server", m.Rand.IntN(3))
	lease, exists := m.lease(id)
	switch {
	case !exists:
		m.back[id] = m.now()
		m.Create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: id, Labels: map[string]string{identityLabel: identityValue},
		}})
		if m.OneIn(2) { // otherwise it comes to that later
			m.record(id, "resource0")
			m.record(id, "resource1")
		}
	case m.OneIn(3):
		m.happened++
		m.Delete(lease, nil)
		if m.OneIn(2) {
			m.Relist(lease) // a cache that has not shown it never does
		}
	default:
		m.record(id, fmt.Sprint("resource", m.Rand.IntN(2)))
	}
}

func (m *model) user() {
	m.happened++
	name := fmt.Sprint("resource", m.Rand.IntN(3))
	switch sv, ok := simulation.Get[*StorageVersion](m.World, "", name); {
	case ok && m.OneIn(2):
		m.Delete(sv, nil)
	case !ok:
		m.Create(&StorageVersion{ObjectMeta: metav1.ObjectMeta{Name: name}})
	default:
		m.Note("%s is labelled", name)
		simulation.Change(m.World, sv, func(sv *StorageVersion) { sv.Labels = map[string]string{"n": fmt.Sprint(m.happened)} })
	}
}

// TestWhateverHappensOnlyServersThatAreGoneLoseTheirEntries has API servers come, record what they store and go,
// requests fail and the controller restarted, while the caches are behind, or lack objects.
func TestWhateverHappensOnlyServersThatAreGoneLoseTheirEntries(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		(&model{World: w, t: t, wrote: map[record]moment{}, back: map[string]moment{}}).run()
	})
}

func (m *model) run() {
	m.Validate = m.validate
	m.Deleted = func(object runtime.Object) { m.checkRemoved(object.(*StorageVersion), nil) }
	m.Fake.PrependReactor("delete", "storageversions", m.answer)
	m.Start = func(env controller.Env, _ any) simulation.Instance {
		c := must.Get(newCollector(env))(m.t)
		queue := func(reconcile func(context.Context, string) error, ofLease bool) *simulation.Queue[string] {
			return simulation.NewQueue(m.World, func(ctx context.Context, key string) error {
				before := m.ofLease
				defer func() { m.ofLease = before }()
				m.ofLease = ofLease
				return reconcile(ctx, key)
			})
		}
		leases, storageVersions := queue(c.reconcileLease, true), queue(c.reconcileStorageVersion, false)
		c.leaseQueue, c.storageVersionQueue = leases, storageVersions
		return simulation.Instance{Runners: []simulation.Runner{leases, storageVersions}}
	}
	for range 12 {
		m.live()
	}
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Hasty = []int{0, 2}[m.Rand.IntN(2)]
	if m.OneIn(3) {
		m.Lossy = func(runtime.Object) bool { return true }
	}
	m.Play(m.live, m.user)
	all := m.OneIn(2)
	for _, lease := range simulation.All[*coordinationv1.Lease](m.World) {
		if all || m.OneIn(2) {
			m.Delete(lease, nil)
		}
	}
	for range 4 { // requests still fail, and nothing else happens any more
		m.Drain()
		m.Clock.Step(10 * time.Second)
	}
	m.Settle(time.Hour, nil)
	for _, sv := range simulation.All[*StorageVersion](m.World) {
		for i := range sv.Status.StorageVersions {
			id := sv.Status.StorageVersions[i].APIServerID
			if _, exists := m.lease(id); !exists {
				m.t.Errorf("%s still has the entry of %s", sv.Name, id)
			}
		}
	}
}
