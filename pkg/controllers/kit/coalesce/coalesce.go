// Package coalesce turns a burst of observations of one object into few status writes.
//
// The model, in rules:
//
//  1. The first write of an object is made at once. One that would follow less than a
//     window after the last is put off until the window is over; by then it covers
//     everything that was observed meanwhile.
//  2. Nothing is put off silently: Delay says how long to wait, and the caller adds the
//     key to its queue again after that. So the last observation is never lost.
//  3. What somebody may be waiting for is not put off. The caller knows what that is,
//     and does not ask for a delay then.
//  4. A write comes back as a watch event. IsEcho recognises it for 10 seconds, so that it
//     need not cause a reconcile that finds nothing to do. An echo that is not recognised
//     costs no more than that. An object that shows a version again much later was
//     restored from a backup, and is reconciled.
//
// Memory is one entry per object written in the last few seconds.
package coalesce

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Window is the least time between two status writes of one object that nobody waits for.
const Window = 100 * time.Millisecond

// echoTime is how long after a write its watch event is recognised.
const echoTime = 10 * time.Second

// Writes remembers the recent status writes of a controller. It is safe for concurrent use.
type Writes[K comparable] struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	recent map[K]write
	// order holds the keys of recent writes, oldest first.
	order []entry[K]
}

type write struct {
	at      time.Time
	version string
}

type entry[K comparable] struct {
	key K
	at  time.Time
}

// New makes an empty memory of writes.
func New[K comparable](c clock.PassiveClock) *Writes[K] {
	return &Writes[K]{clock: c, recent: map[K]write{}}
}

// Delay returns how long to wait before the status of the object is written next, 0 if
// it may be written now.
func (w *Writes[K]) Delay(key K) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.recent[key]
	if !ok {
		return 0
	}
	return min(Window, max(0, Window-w.clock.Since(last.at)))
}

// Wrote records that the status of the object was written, which gave it the resource version.
func (w *Writes[K]) Wrote(key K, resourceVersion string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	w.expire(now)
	w.recent[key] = write{at: now, version: resourceVersion}
	w.order = append(w.order, entry[K]{key: key, at: now})
}

// IsEcho reports that the resource version is the one that the last recorded write gave
// the object.
func (w *Writes[K]) IsEcho(key K, resourceVersion string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.recent[key]
	return ok && last.version != "" && last.version == resourceVersion && w.clock.Since(last.at) <= echoTime
}

// expire forgets writes that are too old to matter.
func (w *Writes[K]) expire(now time.Time) {
	old := 0
	for old < len(w.order) && now.Sub(w.order[old].at) > echoTime {
		e := w.order[old]
		if w.recent[e.key].at.Equal(e.at) {
			delete(w.recent, e.key)
		}
		old++
	}
	w.order = w.order[old:]
}
