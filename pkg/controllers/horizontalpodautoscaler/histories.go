package horizontalpodautoscaler

import (
	"slices"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// histories holds the history of every autoscaler.
type histories struct {
	mu    sync.Mutex
	byKey map[cache.ObjectName]*history
}

// history holds the recommendations and scale events of one autoscaler. But for waitsSince and held, it
// is used by one worker at a time.
type history struct {
	uid    types.UID
	target autoscalingv2.CrossVersionObjectReference // withoutVersion, zero before the first evaluation
	// targetUID is that of the target, empty before its scale was first read.
	targetUID types.UID
	// waitsSince is when the autoscaler was first seen, or its last evaluation ended, held whether its namespace has
	// been paused since an evaluation began. Guarded by histories.mu.
	waitsSince      time.Time
	held            bool
	recommendations []recommendation
	added, removed  []scaleEvent // replicas, by changes of scale that succeeded
	attempted       attempt
	unrecorded      bool // the evaluation has recorded no recommendation yet
	silent          bool // the one before recorded none
	interrupted     bool // the last evaluations are unknown, or there were none for a while
	elsewhere       bool // another process may have made them
	stopped         stopped
}

// stopped is who scaled the target to zero, if it has no replicas. The condition of the autoscaler may say otherwise,
// since its last write may be lost.
type stopped int

const (
	asStatusSays stopped = iota
	byAutoscaler         // or it may have been
	bySomebodyElse
)

// recommendation is a size that the metrics required.
type recommendation struct {
	replicas int32
	at       time.Time
}

// scaleEvent is a number of replicas added, or removed.
type scaleEvent struct {
	replicas int32
	at       time.Time
}

// attempt is a change of the scale of which it is not known whether it was made, the zero value for none.
type attempt struct {
	from, to int32
	at       time.Time
}

func newHistories() *histories { return &histories{byKey: map[cache.ObjectName]*history{}} }

// of returns the history of an autoscaler for an evaluation that begins. That of an earlier autoscaler of the same
// name is dropped.
func (h *histories) of(key cache.ObjectName, uid types.UID) *history {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.get(key, uid)
	known.interrupted = known.interrupted || known.held
	known.held = false
	return known
}

// hold notes the autoscalers in namespaces that are paused.
func (h *histories) hold(paused func(namespace string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, known := range h.byKey {
		known.held = known.held || paused(key.Namespace)
	}
}

func (h *histories) get(key cache.ObjectName, uid types.UID) *history {
	known, ok := h.byKey[key]
	if !ok || known.uid != uid {
		known = &history{uid: uid}
		h.byKey[key] = known
	}
	return known
}

// seen notes when an autoscaler was seen. Only the first time counts.
func (h *histories) seen(key cache.ObjectName, uid types.UID, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.get(key, uid); known.waitsSince.IsZero() {
		known.waitsSince = now
	}
}

// evaluated notes when an evaluation of an autoscaler ended.
func (h *histories) evaluated(key cache.ObjectName, uid types.UID, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.get(key, uid).waitsSince = now
}

func (h *histories) forget(key cache.ObjectName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.byKey, key)
}

// takeOver copies from other the histories of the autoscalers that were seen, and returns since when each of them
// waits.
func (h *histories) takeOver(other *histories) map[cache.ObjectName]time.Time {
	other.mu.Lock() // the handlers of an instance that was abandoned may still note what they see
	defer other.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	since := map[cache.ObjectName]time.Time{}
	for key, was := range other.byKey {
		if known, ok := h.byKey[key]; ok && known.uid == was.uid {
			copied := *was
			h.byKey[key] = &copied
			since[key] = was.waitsSince
		}
	}
	return since
}

// interrupt marks all histories as lacking recent recommendations. Another process may have decided about a scale to
// zero since.
func (h *histories) interrupt() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, known := range h.byKey {
		known.interrupted, known.elsewhere, known.stopped = true, true, asStatusSays
	}
}

// aimAt notes the target, and reports whether it is another one than before. What is known of that is forgotten then.
func (h *history) aimAt(target autoscalingv2.CrossVersionObjectReference) (moved bool) {
	moved = h.target != target && h.target != autoscalingv2.CrossVersionObjectReference{}
	h.target = target
	if moved {
		h.targetUID = ""
		h.forgetTarget()
	}
	return moved
}

// meet notes the UID of the target, and reports whether it was created again since its scale was last read. What is
// known of the one before is forgotten then.
func (h *history) meet(uid types.UID) (another bool) {
	another = h.targetUID != uid && h.targetUID != ""
	h.targetUID = uid
	if another {
		h.forgetTarget()
	}
	return another
}

// forgetTarget forgets what is known of a target. Another process that evaluated since the last time may have stopped
// the present one: then only the condition records that.
func (h *history) forgetTarget() {
	h.recommendations, h.added, h.removed, h.attempted = nil, nil, nil, attempt{}
	if !h.elsewhere {
		h.stopped = bySomebodyElse
	}
}

// begin notes that an evaluation begins.
func (h *history) begin() { h.silent, h.unrecorded = h.unrecorded, true }

// seed adds the present size as a recommendation if recent ones are unknown, so that a workload
// is not scaled down before a whole window was observed.
func (h *history) seed(current int32, now time.Time, obsolete func(time.Time) bool) {
	recent := func(r recommendation) bool { return !obsolete(r.at) }
	outage := h.silent && !slices.ContainsFunc(h.recommendations, recent)
	if len(h.recommendations) == 0 || h.interrupted || outage {
		h.record(current, now, obsolete)
		h.interrupted, h.elsewhere = false, false
	}
}

// record adds a recommendation, in the slot of the last obsolete one if there is one.
func (h *history) record(replicas int32, now time.Time, obsolete func(time.Time) bool) {
	entry := recommendation{replicas, now}
	for i := len(h.recommendations) - 1; i >= 0; i-- {
		if obsolete(h.recommendations[i].at) {
			h.recommendations[i] = entry
			return
		}
	}
	h.recommendations = append(h.recommendations, entry)
}

// recordScale adds a scale event, in the slot of the last event that is older than the longest
// period of the direction's policies.
func (h *history) recordScale(from, to int32, now time.Time, longestUp, longestDown time.Duration) {
	if to > from {
		h.added = recordEvent(h.added, scaleEvent{to - from, now}, now.Add(-longestUp))
		return
	}
	h.removed = recordEvent(h.removed, scaleEvent{from - to, now}, now.Add(-longestDown))
}

func recordEvent(events []scaleEvent, event scaleEvent, outdated time.Time) []scaleEvent {
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].at.Before(outdated) {
			events[i] = event
			return events
		}
	}
	return append(events, event)
}

// within returns the sum of the events in the period that ends now.
func within(events []scaleEvent, period time.Duration, now time.Time) (sum int64) {
	since := now.Add(-period)
	for _, e := range events {
		if e.at.After(since) {
			sum += int64(e.replicas)
		}
	}
	return sum
}
