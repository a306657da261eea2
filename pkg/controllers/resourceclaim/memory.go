package resourceclaim

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/writes"
)

var claimResource = resourcev1.Resource("resourceclaims")

// memory holds what the caches do not show, or not yet.
type memory struct {
	// ofOwners holds the claims that were generated for pods and PodGroups, see identity.
	ofOwners *writes.Memory
	// generated are these claims.
	generated writes.Objects[*resourcev1.ResourceClaim]
	// ofClaims holds the writes of claims.
	ofClaims *writes.Memory
	// written are the newest states of claims.
	written writes.Objects[*resourcev1.ResourceClaim]
	// turns is whose turn it is to write a claim.
	turns *turns
	// gone are pods and PodGroups that were seen deleted, or that a live read did not find.
	gone *record
	// doubts are pods and PodGroups for which a claim may have been created, since when.
	doubts *record
}

const (
	// goneCapacity is the number of deleted consumers that are remembered. Another one costs a GET.
	goneCapacity = 500
	// goneTTL is how long. A UID is never used again, but restoring a backup of the cluster
	// restores objects with their UIDs.
	goneTTL = 5 * time.Minute
	// doubtTTL is how long a doubt about an owner that the cache lacks is handed over.
	doubtTTL = 5 * time.Minute
	// settling is how long a request whose outcome is unknown may still take effect.
	settling = time.Second
)

func newMemory(c clock.PassiveClock, claims writes.Store) memory {
	stores := writes.Stores{claimResource: claims}
	m := memory{
		ofOwners: writes.New(c, stores),
		ofClaims: writes.New(c, stores),
		turns:    &turns{seed: maphash.MakeSeed()},
		gone:     newRecord(c, goneCapacity),
		doubts:   newRecord(c, 0),
	}
	m.generated = writes.ObjectsOf[*resourcev1.ResourceClaim](m.ofOwners, claimResource)
	m.written = writes.ObjectsOf[*resourcev1.ResourceClaim](m.ofClaims, claimResource)
	return m
}

// identity stands for an owner in the memory, which tells owners apart by name. A pod may be replaced
// by one of the same name while events of the claims of the first still arrive.
func identity(namespace string, uid types.UID) metav1.Object {
	return &metav1.ObjectMeta{Namespace: namespace, Name: string(uid), UID: uid}
}

// shown forgets what the cache shows by now.
func (m memory) shown(claim *resourcev1.ResourceClaim) {
	m.written.Newest(claim, claim)
	for i := range claim.OwnerReferences {
		if ref := &claim.OwnerReferences[i]; isPod(ref) || isGroup(ref) {
			m.generated.Newest(identity(claim.Namespace, ref.UID), claim)
		}
	}
}

// ownerGone remembers that a pod or a PodGroup was deleted. That a list after a break of the watch lacks it is no
// proof.
func (m memory) ownerGone(owner metav1.Object) {
	m.gone.add(owner.GetUID())
	m.doubts.drop(owner.GetUID())
	m.ofOwners.Forget(identity(owner.GetNamespace(), owner.GetUID()))
}

// doubt remembers that a claim may have been created for an owner. Nobody would drop the doubt about one
// that was deleted before the answer to the request came.
func (m memory) doubt(owner types.UID) {
	m.doubts.add(owner)
	if m.isGone(owner) {
		m.doubts.drop(owner)
	}
}

// turns serialises writes of one claim. Locks are striped, so unrelated claims may also wait.
type turns struct {
	seed  maphash.Seed
	locks [64]sync.Mutex
}

// wait returns when it is the turn of the caller, who ends it by a call of what is returned.
func (t *turns) wait(claim types.UID) (end func()) {
	lock := &t.locks[maphash.String(t.seed, string(claim))%uint64(len(t.locks))]
	lock.Lock()
	return lock.Unlock
}

// handover is what an instance leaves to the next.
type handover struct {
	ofOwners, ofClaims writes.State
	gone, doubts       map[types.UID]time.Time
}

// HandOver implements controller.HandsOver: without it, a claim might be generated twice, and
// each deleted consumer of a claim would cost a GET.
func (c *claimController) HandOver() handover {
	m := c.memory
	return handover{m.ofOwners.HandOver(), m.ofClaims.HandOver(), m.gone.state(), m.doubts.state()}
}

func (c *claimController) begin(context.Context) error {
	left, ok := controller.TakeOver(c.Env, c)
	if !ok {
		return nil
	}
	m := c.memory
	m.ofOwners.TakeOver(left.ofOwners)
	m.ofClaims.TakeOver(left.ofClaims)
	m.gone.takeOver(left.gone)
	return c.takeOverDoubts(left.doubts)
}

// takeOverDoubts takes over doubts, but for those about owners that are gone: no event reports a deletion
// since the predecessor stopped. A cache that was just filled may be older than an owner, which is gone
// only if the doubt is old.
func (c *claimController) takeOverDoubts(left map[types.UID]time.Time) error {
	if len(left) == 0 {
		return nil
	}
	owners, err := c.owners()
	if err != nil {
		return fmt.Errorf("inheriting unfinished creations of claims: %w", err)
	}
	m := c.memory
	m.doubts.takeOver(left)
	for uid, since := range left {
		if m.isGone(uid) || !owners.Has(uid) && c.Clock.Since(since) >= doubtTTL {
			m.doubts.drop(uid)
		}
	}
	return nil
}

// owners returns the UIDs of the pods and PodGroups that the caches show.
func (c *claimController) owners() (sets.Set[types.UID], error) {
	uids := sets.New[types.UID]()
	pods, err := c.pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		uids.Insert(pod.UID)
	}
	if c.groups == nil {
		return uids, nil
	}
	groups, err := c.groups.List(labels.Everything())
	for _, group := range groups {
		uids.Insert(group.UID)
	}
	return uids, err
}

// record holds UIDs, and since when.
type record struct {
	clock    clock.PassiveClock
	capacity int // 0 for no limit

	mu    sync.Mutex
	since map[types.UID]time.Time
	order []types.UID // the oldest first; kept if there is a limit
}

func newRecord(c clock.PassiveClock, capacity int) *record {
	return &record{clock: c, capacity: capacity, since: map[types.UID]time.Time{}}
}

func (r *record) add(uid types.UID) { r.put(uid, r.clock.Now()) }

func (r *record) put(uid types.UID, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.since[uid]
	r.since[uid] = at
	if r.capacity == 0 || known {
		return
	}
	if r.order = append(r.order, uid); len(r.order) > r.capacity {
		delete(r.since, r.order[0])
		r.order = r.order[1:]
	}
}

// age returns for how long a UID has been recorded.
func (r *record) age(uid types.UID) (age time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.since[uid]
	return r.clock.Since(at), ok
}

// drop removes a UID from a record without a limit.
func (r *record) drop(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.since, uid)
}

func (r *record) state() map[types.UID]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.since)
}

func (r *record) takeOver(left map[types.UID]time.Time) {
	oldestFirst := slices.SortedFunc(maps.Keys(left), func(a, b types.UID) int { return left[a].Compare(left[b]) })
	for _, uid := range oldestFirst {
		r.put(uid, left[uid])
	}
}

// unsettled returns for how long nothing may be created for an owner, 0 if something may.
func (m memory) unsettled(owner types.UID) time.Duration {
	age, ok := m.doubts.age(owner)
	if !ok {
		return 0
	}
	return max(0, settling-age)
}

// isGone reports whether a consumer was seen deleted lately.
func (m memory) isGone(uid types.UID) bool {
	age, ok := m.gone.age(uid)
	return ok && age < goneTTL
}
