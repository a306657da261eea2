package reconcile

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Lane is the priority of a key, and what it was queued for.
type Lane struct {
	_        [0]func() // not comparable: a lane can have any trigger
	priority priority
	trigger  trigger
}

type priority int

const (
	fresh priority = iota
	backlog
)

var (
	// Fresh is for keys of objects that have just changed.
	Fresh = Lane{priority: fresh}
	// Backlog is for keys that were replayed from a cache or resynced.
	Backlog = Lane{priority: backlog}
)

// freshly is the fresh lane for a key that no object brought.
func freshly(event Event) Lane { return Lane{priority: fresh, trigger: trigger{event: event}} }

// IsBacklog reports whether the lane is the backlog, with whatever trigger.
func (l Lane) IsBacklog() bool { return l.priority == backlog }

// backlogShare is the share of the backlog while both lanes hold keys: one key in backlogShare.
const backlogShare = 8

// lanes stores the waiting keys of a client-go work queue, which calls Touch, Push, Pop and Len
// under a lock of its own. The lane of a key is announced before the key is added, because the
// work queue cannot carry it.
type lanes[K comparable] struct {
	clock    clock.PassiveClock
	onPushed func()
	onPopped func(waited time.Duration)

	mu        sync.Mutex
	announced map[K]Lane
	waiting   map[K]place
	taken     map[K]trigger    // of keys that were popped and that nobody has begun
	delayed   map[K]delayedAdd // when keys are added that wait for a time
	most      int              // how many keys waited at most since waiting was made
	queues    [2]fifo[K]
	turn      int
	pushed    uint64 // how many keys began to wait
}

// keptPlaces is how many places of waiting keys are kept once none waits. A map never shrinks, and at the start of
// a controller every key waits.
const keptPlaces = 1024

// place is the lane of a waiting key, and since when it has been waiting.
type place struct {
	lane  Lane
	since time.Time
}

// delayedAdd is when a key is added later, and in which lane.
type delayedAdd struct {
	due  time.Time
	lane Lane
}

// and combines two of them for one key. The work queue keeps the earlier time; Fresh wins over Backlog.
func (d delayedAdd) and(other delayedAdd) delayedAdd {
	if other.due.Before(d.due) {
		d, other = other, d
	}
	if d.lane.IsBacklog() && !other.lane.IsBacklog() {
		d.lane = other.lane
	}
	return d
}

func newLanes[K comparable](c clock.PassiveClock, onPushed func(), onPopped func(time.Duration)) *lanes[K] {
	return &lanes[K]{
		clock:     c,
		onPushed:  onPushed,
		onPopped:  onPopped,
		announced: map[K]Lane{},
		waiting:   map[K]place{},
		taken:     map[K]trigger{},
		delayed:   map[K]delayedAdd{},
	}
}

// announce sets the lane that the key takes when it is added next. Fresh wins over
// Backlog when both are announced before that.
func (l *lanes[K]) announce(key K, lane Lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, ok := l.announced[key]; ok && !was.IsBacklog() && lane.IsBacklog() {
		return
	}
	l.announced[key] = lane
}

// take returns and forgets the announced lane of a key.
func (l *lanes[K]) take(key K) Lane {
	lane := l.announced[key]
	delete(l.announced, key)
	return lane
}

// arrived returns the lane of a key that the delaying queue delivers, and forgets its delay. It is called for each
// delivery, and nothing else forgets a delay: the delaying queue merges a new one of the key into one that is due and
// not yet delivered.
func (l *lanes[K]) arrived(key K) Lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, delayed := l.delayed[key]
	if !delayed { // recorded with an earlier delay, and delivered after it
		return freshly(Timer)
	}
	delete(l.delayed, key)
	return at.lane
}

// delay records when a key is added, and in which lane. The delaying queue is given the delay afterwards.
func (l *lanes[K]) delay(key K, due time.Time, lane Lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := delayedAdd{due: due, lane: lane}
	if at, delayed := l.delayed[key]; delayed {
		next = at.and(next)
	}
	l.delayed[key] = next
}

// takeTrigger returns why a key that was popped had been waiting, and forgets it.
func (l *lanes[K]) takeTrigger(key K) trigger {
	l.mu.Lock()
	defer l.mu.Unlock()
	why := l.taken[key]
	delete(l.taken, key)
	return why
}

// Push implements workqueue.Queue.
func (l *lanes[K]) Push(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := l.take(key)
	l.waiting[key] = place{lane: lane, since: l.clock.Now()}
	l.most = max(l.most, len(l.waiting))
	l.queues[lane.priority].push(key)
	l.pushed++
	l.onPushed()
}

// Touch implements workqueue.Queue. It is called for a key that is waiting already.
func (l *lanes[K]) Touch(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := l.take(key)
	at := l.waiting[key]
	if lane.IsBacklog() {
		return
	}
	// Pop skips the entry that remains in the backlog.
	l.waiting[key] = place{lane: lane, since: at.since}
	if at.lane.IsBacklog() {
		l.queues[fresh].push(key)
	}
}

// Len implements workqueue.Queue.
func (l *lanes[K]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// depths returns the number of keys in total and in the backlog.
func (l *lanes[K]) depths() (all, backlog int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.waiting {
		if at.lane.IsBacklog() {
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
	first, second := fresh, backlog
	if l.turn%backlogShare == 0 {
		first, second = backlog, fresh
	}
	key, ok := l.popFrom(first)
	if !ok {
		key, _ = l.popFrom(second)
	}
	at := l.waiting[key]
	l.onPopped(l.clock.Since(at.since))
	l.taken[key] = at.lane.trigger
	delete(l.waiting, key)
	if len(l.waiting) == 0 && l.most > keptPlaces {
		l.waiting, l.most = map[K]place{}, 0
	}
	return key
}

func (l *lanes[K]) popFrom(p priority) (K, bool) {
	for {
		key, ok := l.queues[p].pop()
		if !ok {
			return key, false
		}
		if at, waits := l.waiting[key]; waits && at.lane.priority == p {
			return key, true
		}
	}
}

// fifo is a queue that releases memory as it drains.
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
