package deployment

import (
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// writes remembers what the API server returned for writes that the caches do not show
// yet. Reading through it saves the conflicts, and the attempts to create what exists,
// that acting on a cache older than one's own writes would cause. It is an economy: the
// API server would refuse those writes. So it is dropped when the API server says that it
// is wrong, and five minutes after the last write: a cluster that was restored from a
// backup does not have what was written since.
type writes struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	byKey map[cache.ObjectName]*written
}

// writtenTime is for how long what was written is preferred to what the caches show.
const writtenTime = 5 * time.Minute

// written are the newest known states of one Deployment and of its ReplicaSets. Only the
// worker that has the key uses it. Its objects are shared and never changed.
type written struct {
	deployment  *appsv1.Deployment
	replicaSets map[types.UID]*appsv1.ReplicaSet
	clock       clock.PassiveClock
	at          time.Time // of the last write
}

func newWrites(c clock.PassiveClock) *writes {
	return &writes{clock: c, byKey: map[cache.ObjectName]*written{}}
}

// take returns what is remembered for a key, which is then the caller's until put.
func (w *writes) take(key cache.ObjectName) *written {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known, ok := w.byKey[key]; ok && w.clock.Since(known.at) < writtenTime {
		return known
	}
	return &written{replicaSets: map[types.UID]*appsv1.ReplicaSet{}, clock: w.clock}
}

// put keeps what is remembered for a key; nothing is kept of nothing.
func (w *writes) put(key cache.ObjectName, known *written) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known.deployment == nil && len(known.replicaSets) == 0 {
		delete(w.byKey, key)
		return
	}
	w.byKey[key] = known
}

// forget drops what is remembered for a key.
func (w *writes) forget(key cache.ObjectName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byKey, key)
}

// newestDeployment returns the newer of the cached and the written state.
func (w *written) newestDeployment(cached *appsv1.Deployment) *appsv1.Deployment {
	if w.deployment != nil && w.deployment.UID == cached.UID && isNewer(w.deployment, cached.ResourceVersion) {
		return w.deployment
	}
	w.deployment = nil
	return cached
}

// newestReplicaSets returns the newer states of the cached ReplicaSets, and those that
// the cache does not have yet. shown is the resource version up to which the cache was
// complete before it was read: what it does not have at that version was deleted.
func (w *written) newestReplicaSets(cached []*appsv1.ReplicaSet, shown string) []*appsv1.ReplicaSet {
	newest := make([]*appsv1.ReplicaSet, 0, len(cached)+len(w.replicaSets))
	missing := make(map[types.UID]*appsv1.ReplicaSet, len(w.replicaSets))
	for uid, rs := range w.replicaSets {
		missing[uid] = rs
	}
	for _, rs := range cached {
		delete(missing, rs.UID)
		newest = append(newest, w.newestReplicaSet(rs))
	}
	for uid, rs := range missing {
		if isNewer(rs, shown) {
			newest = append(newest, rs)
			continue
		}
		delete(w.replicaSets, uid)
	}
	return newest
}

func (w *written) newestReplicaSet(cached *appsv1.ReplicaSet) *appsv1.ReplicaSet {
	ours, ok := w.replicaSets[cached.UID]
	if ok && isNewer(ours, cached.ResourceVersion) {
		return ours
	}
	delete(w.replicaSets, cached.UID)
	return cached
}

// answered takes note of what became of the writes that were based on this. A conflict, or
// an object that is not there, says that it is not the newest state.
func (w *written) answered(err error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		w.deployment = nil
		clear(w.replicaSets)
	}
}

func (w *written) wroteDeployment(d *appsv1.Deployment) {
	w.at = w.clock.Now()
	d.ManagedFields = nil
	w.deployment = d
}

func (w *written) wroteReplicaSet(rs *appsv1.ReplicaSet) {
	w.at = w.clock.Now()
	rs.ManagedFields = nil
	w.replicaSets[rs.UID] = rs
}

func (w *written) deletedReplicaSet(rs *appsv1.ReplicaSet) { delete(w.replicaSets, rs.UID) }

// isNewer is false if the versions cannot be compared: the cache is right then.
func isNewer(obj metav1.Object, than string) bool {
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), than)
	return err == nil && order > 0
}
