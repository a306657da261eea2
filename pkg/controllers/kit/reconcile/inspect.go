package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
)

// Inspect implements controller.Inspectable.
func (l *Loop[K]) Inspect() controller.LoopStatus {
	l.record.mu.Lock()
	s := l.record.status
	for key, now := range l.record.inFlight {
		s.InFlight = append(s.InFlight, controller.InFlight{Key: fmt.Sprint(key), Since: now.since})
	}
	l.record.mu.Unlock()

	slices.SortFunc(s.InFlight, func(a, b controller.InFlight) int { return a.Since.Compare(b.Since) })
	s.Queue, s.Workers = l.options.Queue, l.options.Workers
	s.Depth, s.Backlog = l.lanes.depths()
	s.Held, s.Stopped = l.paused.count(), l.stopped.count()
	return s
}

// Counts returns how many keys have been queued so far, and with how many of them the workers are done. Neither number
// ever falls, and a key that is queued again while it is in flight is counted as queued before it is counted as done.
// So if done, as read first, equals queued, as read later, then there was a moment in between at which no key waited,
// none was in flight, and none was on its way from the one to the other. The same holds for sums over several loops.
func (l *Loop[K]) Counts() (queued, done uint64) {
	done = l.done.Load()
	l.lanes.mu.Lock()
	defer l.lanes.mu.Unlock()
	return l.lanes.pushed, done
}

// reconcileContext is the context of a reconcile. It describes the key, see controller.WorkOf.
type reconcileContext[K comparable] struct {
	context.Context
	loop    *Loop[K]
	key     K
	trigger trigger
}

// Value implements context.Context.
func (c *reconcileContext[K]) Value(key any) any {
	if _, ok := key.(controller.WorkKey); ok {
		return c
	}
	return c.Context.Value(key)
}

// Describe implements controller.Work.
func (c *reconcileContext[K]) Describe() controller.Task {
	why := c.trigger.String()
	if c.trigger.event == Retry {
		why = fmt.Sprintf("%s %d", why, c.loop.Retries(c.key))
	}
	return controller.Task{Queue: c.loop.options.Queue, Key: keyText(c.key), Trigger: why}
}

// named is implemented by keys that are about one object and whose text says more than its name.
type named interface {
	ObjectName() types.NamespacedName
}

// keyText is a key as it is asked for: the name of an object if it is about one.
func keyText(key any) string {
	switch key := key.(type) {
	case types.NamespacedName:
		return key.String()
	case string:
		return key
	case named:
		return key.ObjectName().String()
	}
	return fmt.Sprint(key)
}

// Keys implements controller.KeyHolder.
func (l *Loop[K]) Keys(wanted func(key string) bool) []controller.LoopKey {
	var found []controller.LoopKey
	for key, h := range l.holdings() {
		k := controller.LoopKey{Queue: l.options.Queue, Key: keyText(key), State: h.state, Since: h.since, Until: h.until}
		if !wanted(k.Key) {
			continue
		}
		k.Kinds = slices.Sorted(slices.Values(h.kinds))
		k.Trigger, k.Retries = h.trigger.String(), l.Retries(key)
		k.LastError, k.LastErrorTime = h.failure.err, h.failure.at
		found = append(found, k)
	}
	slices.SortFunc(found, func(a, b controller.LoopKey) int { return cmp.Compare(a.Key, b.Key) })
	return found
}

// holding is where a key is. Texts are not made of it before it is known to be wanted: it is
// copied under the locks that the workers need.
type holding struct {
	state        controller.KeyState
	since, until time.Time
	trigger      trigger
	failure      failure
	kinds        []string // of a stopped key
}

// holdings returns what the loop holds. A key that is worked on and that is to be worked on once more
// is shown once.
func (l *Loop[K]) holdings() map[K]holding {
	all := map[K]holding{}
	for key := range l.paused.causes() {
		all[key] = holding{state: controller.KeyPaused}
	}
	for key, kinds := range l.stopped.causes() {
		all[key] = holding{state: controller.KeyStopped, kinds: kinds}
	}
	maps.Copy(all, l.lanes.holdings())
	l.record.mu.Lock()
	defer l.record.mu.Unlock()
	for key, now := range l.record.inFlight {
		all[key] = holding{state: controller.KeyInFlight, since: now.since, trigger: now.trigger}
	}
	for key, failed := range l.record.failing {
		if h, ok := all[key]; ok {
			h.failure = failed
			all[key] = h
		}
	}
	return all
}

// holdings returns the keys that wait for a worker or for their time.
func (l *lanes[K]) holdings() map[K]holding {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[K]holding, len(l.delayed)+len(l.waiting))
	for key, at := range l.delayed {
		all[key] = holding{state: controller.KeyDelayed, until: at.due, trigger: at.lane.trigger}
	}
	for key, at := range l.waiting {
		all[key] = holding{state: controller.KeyQueued, since: at.since, trigger: at.lane.trigger}
	}
	return all
}
