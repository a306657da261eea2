package reconcile

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Lane says how urgent a key is.
type Lane int

const (
	// Fresh is for keys of objects that something just happened to.
	Fresh Lane = iota
	// Backlog is for keys that were replayed from a cache or resynced.
	Backlog
)

// backlogShare is the share of the backlog while both lanes hold keys: one key in so many.
const backlogShare = 8

// lanes stores the waiting keys of a client-go work queue, which calls Touch, Push,
// Pop and Len under a lock of its own. The lane of a key is announced before the key
// is added, because the work queue has no room for it.
type lanes[K comparable] struct {
	clock    clock.PassiveClock
	onPushed func()
	onPopped func(waited time.Duration)

	mu        sync.Mutex
	announced map[K]Lane
	waiting   map[K]place
	queues    [2]fifo[K]
	turn      int
}

// place is where a waiting key is, and since when it waits.
type place struct {
	lane  Lane
	since time.Time
}

func newLanes[K comparable](c clock.PassiveClock, onPushed func(), onPopped func(time.Duration)) *lanes[K] {
	return &lanes[K]{
		clock:     c,
		onPushed:  onPushed,
		onPopped:  onPopped,
		announced: map[K]Lane{},
		waiting:   map[K]place{},
	}
}

// announce sets the lane that the key takes when it is added next. Fresh wins over
// Backlog when both are announced before that.
func (l *lanes[K]) announce(key K, lane Lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, ok := l.announced[key]; ok && was == Fresh {
		return
	}
	l.announced[key] = lane
}

// take returns and forgets the announced lane of a key. Unannounced keys are fresh:
// they come from retries and timers, which are due now.
func (l *lanes[K]) take(key K) Lane {
	lane := l.announced[key]
	delete(l.announced, key)
	return lane
}

// Push implements workqueue.Queue.
func (l *lanes[K]) Push(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := l.take(key)
	l.waiting[key] = place{lane: lane, since: l.clock.Now()}
	l.queues[lane].push(key)
	l.onPushed()
}

// Touch implements workqueue.Queue. It is called for a key that is waiting already.
func (l *lanes[K]) Touch(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := l.take(key)
	at := l.waiting[key]
	if lane == Backlog || at.lane == Fresh {
		return
	}
	// The entry that stays behind in the backlog is skipped by Pop.
	l.waiting[key] = place{lane: Fresh, since: at.since}
	l.queues[Fresh].push(key)
}

// Len implements workqueue.Queue.
func (l *lanes[K]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// depths returns the number of keys in all and in the backlog.
func (l *lanes[K]) depths() (all, backlog int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.waiting {
		if at.lane == Backlog {
			backlog++
		}
	}
	return len(l.waiting), backlog
}

// Pop implements workqueue.Queue. It is called only if Len is not zero.
func (l *lanes[K]) Pop() K {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn++
	first, second := Fresh, Backlog
	if l.turn%backlogShare == 0 {
		first, second = Backlog, Fresh
	}
	key, ok := l.popFrom(first)
	if !ok {
		key, _ = l.popFrom(second)
	}
	l.onPopped(l.clock.Since(l.waiting[key].since))
	delete(l.waiting, key)
	return key
}

func (l *lanes[K]) popFrom(lane Lane) (K, bool) {
	for {
		key, ok := l.queues[lane].pop()
		if !ok {
			return key, false
		}
		if at, waits := l.waiting[key]; waits && at.lane == lane {
			return key, true
		}
	}
}

// fifo is a queue that gives memory back when it drains.
type fifo[K comparable] struct {
	items []K
	head  int
}

func (f *fifo[K]) push(key K) { f.items = append(f.items, key) }

func (f *fifo[K]) pop() (K, bool) {
	var zero K
	if f.head == len(f.items) {
		return zero, false
	}
	key := f.items[f.head]
	f.items[f.head] = zero
	f.head++
	if f.head == len(f.items) {
		f.items, f.head = nil, 0
	} else if f.head > 1024 && f.head*2 > len(f.items) {
		f.items = append([]K(nil), f.items[f.head:]...)
		f.head = 0
	}
	return key, true
}
