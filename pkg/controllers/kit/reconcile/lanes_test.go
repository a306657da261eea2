package reconcile

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
)

func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // what the first one has swept
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// At the start every key waits. Once none does, that memory is free, while the lanes are in use.
func TestLanesThatWereEmptiedAreSmall(t *testing.T) {
	const keys, bound = 20000, 256 << 10 // a tenth of what the places of all keys need at least
	l := newLanes[types.NamespacedName](testingclock.NewFakePassiveClock(time.Unix(0, 0)), func() {}, func(time.Duration) {})
	before := liveHeap()
	for i := range keys {
		key := types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("web-", i)}
		l.announce(key, Backlog)
		l.Push(key)
	}
	for l.Len() > 0 {
		l.takeTrigger(l.Pop())
	}
	if kept := liveHeap() - before; kept > bound {
		t.Errorf("%d KiB are kept of %d keys, want at most %d", kept>>10, keys, bound>>10)
	}
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	l.Push(key)
	if got := l.Pop(); got != key || l.Len() != 0 {
		t.Errorf("got %v, and %d keys wait", got, l.Len())
	}
}

// An instance that waits for its caches keeps one time for each key, the earliest.
func TestDelayedAddsBeforeRunAreKeptOnce(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(0, 0))
	l := &Loop[string]{clock: clock, lanes: newLanes[string](clock, func() {}, func(time.Duration) {}), parked: map[string]time.Time{}}
	for i := range 1000 {
		l.AddAfter("a", time.Minute+time.Duration((i+500)%1000)*time.Second)
	}
	if due := clock.Now().Add(time.Minute); len(l.parked) != 1 || !l.parked["a"].Equal(due) {
		t.Errorf("%d times are kept, want only %v: %v", len(l.parked), due, l.parked)
	}
}
