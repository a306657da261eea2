package writes

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	// Window is the minimum time between two status writes of one owner that are not urgent.
	Window = 100 * time.Millisecond
	// CountsWindow is the time between two writes of counts of pods while they keep changing: the next count
	// replaces the last.
	CountsWindow = time.Second
	// CountsQuiet is how long counts must not have changed to be written sooner.
	CountsQuiet = 300 * time.Millisecond
)

// echoTime is how long after a write its watch event is recognized.
const echoTime = 10 * time.Second

// statusWrite is an owner whose status was written, or whose counts began to change, and when, so that
// it can expire.
type statusWrite struct {
	owner types.NamespacedName
	at    time.Time
}

// StatusDelay returns how long to wait before the status of the owner is written next, 0
// if it may be written now.
func (m *Memory) StatusDelay(owner metav1.Object) time.Duration {
	return m.StatusDelayIn(owner, Window)
}

// StatusDelayIn is StatusDelay with another time than Window between two writes.
func (m *Memory) StatusDelayIn(owner metav1.Object, window time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.known(owner)
	if r == nil || r.Status.At.IsZero() {
		return 0
	}
	return min(window, max(0, window-m.clock.Since(r.Status.At)))
}

// CountsDelay returns how long to delay a status write while pod counts are changing: until they are unchanged for
// CountsQuiet, at most until window has passed since the last write or CountsChange. It compares the counts, which
// must not contain a time, with those of the call before.
func (m *Memory) CountsDelay(owner metav1.Object, counts any, window time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, now := m.known(owner), m.clock.Now()
	if r == nil || now.Sub(r.Status.latest()) >= window {
		return 0
	}
	if !reflect.DeepEqual(r.Status.waiting, counts) {
		r.Status.waiting, r.Status.changed = counts, now
	}
	delay := min(window-now.Sub(r.Status.latest()), CountsQuiet-now.Sub(r.Status.changed))
	return min(CountsQuiet, max(0, delay))
}

// CountsChange records that writes to dependents are about to change what the status of the owner counts.
// It begins a window, which further writes do not extend.
func (m *Memory) CountsChange(owner metav1.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	m.expireStatuses(now)
	status := &m.of(owner).Status
	if now.Sub(status.Counts) < 2*CountsWindow {
		return // a window is open, or has just ended, and what waited for its end is written next
	}
	status.Counts = now
	m.statuses = append(m.statuses, statusWrite{owner: reconcile.KeyOf(owner), at: now})
}

// CountsChanging reports whether such a window is open, and the status was not written since it began.
func (m *Memory) CountsChanging(owner metav1.Object) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.known(owner)
	return r != nil && m.clock.Since(r.Status.Counts) < CountsWindow
}

// WroteStatus records a status write of the owner that returned the version.
func (m *Memory) WroteStatus(owner metav1.Object, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	m.expireStatuses(now)
	m.of(owner).Status = lastStatus{At: now, Version: version}
	m.statuses = append(m.statuses, statusWrite{owner: reconcile.KeyOf(owner), at: now})
}

// IsEcho reports whether the owner has the version of its last recorded status write, so that there is nothing to
// reconcile. It is false if a reconcile was skipped until the cache shows that write. The write is dropped from
// Objects.
func (m *Memory) IsEcho(owner metav1.Object) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.owners[reconcile.KeyOf(owner)]
	if r == nil || r.UID != owner.GetUID() {
		return false
	}
	last := r.Status
	if last.Version == "" || last.Version != owner.GetResourceVersion() || m.clock.Since(last.At) > echoTime {
		return false
	}
	for resource := range r.Objects {
		r.drop(resource, owner.GetUID())
	}
	return !r.skipped
}

// expireStatuses drops expired status writes.
func (m *Memory) expireStatuses(now time.Time) {
	old := 0
	for old < len(m.statuses) && now.Sub(m.statuses[old].at) > echoTime {
		write := m.statuses[old]
		if r := m.owners[write.owner]; r != nil && r.Status.latest().Equal(write.at) {
			r.Status = lastStatus{}
			m.prune(write.owner, r)
		}
		old++
	}
	m.statuses = m.statuses[old:]
}
