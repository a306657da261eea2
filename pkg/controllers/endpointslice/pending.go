package endpointslice

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// pendingTimes has the trigger times of changes whose write failed. The tracker of the library reports a change once
// only, so that the next attempt would have no time, and remove the annotation.
type pendingTimes struct {
	mu    sync.Mutex
	times map[types.NamespacedName]time.Time
	// failing are the Services for which a write of a slice failed in the reconcile under way. That a reconcile failed
	// says less: a pod may lack its node, while all else was written.
	failing sets.Set[types.NamespacedName]
}

func newPendingTimes() *pendingTimes {
	return &pendingTimes{times: map[types.NamespacedName]time.Time{}, failing: sets.New[types.NamespacedName]()}
}

// earliest returns the time of the first change that a write of a Service shows, given that of the changes since the
// last attempt, zero if there was none.
func (p *pendingTimes) earliest(key types.NamespacedName, latest time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if kept, ok := p.times[key]; ok && (latest.IsZero() || kept.Before(latest)) {
		return kept
	}
	return latest
}

// noteFailure notes that a write for a Service failed.
func (p *pendingTimes) noteFailure(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failing.Insert(key)
}

// conclude keeps the time of an attempt if a write failed in it.
func (p *pendingTimes) conclude(key types.NamespacedName, attempted time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failing.Has(key) && !attempted.IsZero() {
		p.times[key] = attempted
	} else {
		delete(p.times, key)
	}
	p.failing.Delete(key)
}

func (p *pendingTimes) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.times, key)
}
