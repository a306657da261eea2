package leadership

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/loop"
)

// Runner starts and stops controllers as leadership permits it.
type Runner interface {
	// Synchronize starts what may run, stops what may not run, then settles.
	Synchronize(ctx context.Context)
	// Pending returns the controllers that have not carried out their last command yet.
	Pending() map[string]bool
}

// Options configure a Leadership. All of them are required.
type Options struct {
	// Identity names the process.
	Identity Identity
	// Runner runs the controllers.
	Runner Runner
	// Events records what electors report.
	Events record.EventRecorder
	// Metrics are those of the electors.
	Metrics election.Metrics
	// Tasks run beside the loop that the Leadership belongs to.
	Tasks *loop.Tasks
	Clock clock.WithTicker
}

// Leadership is every lock of this process. It belongs to the loop, which alone calls its
// methods unless they say otherwise.
type Leadership struct {
	options Options
	changes chan struct{} // a lock was won or lost, or its holder or annotations changed
	receded chan struct{} // etcd was restored
	state
	shared
}

// state belongs to the loop alone.
type state struct {
	election v1beta1.LeaderElection // in force
	locks    []*Lock                // of the configuration in force
	retiring []*Lock                // given back when nothing runs under them any more
	running  map[string]uint64      // the terms in which controllers were told to run
	terms    uint64                 // number of terms so far
	lastGood string                 // see LastGoodAnnotation
	failures []error                // of locks that could not be given back at the end

	nextRequest, nextHandOver time.Time
	alarm                     clock.Timer // nil if nothing is due
}

// shared is what the loop changes, and electors and readers of the status read.
type shared struct {
	// contending are all locks that have an elector. Electors read what is safe for them in a Lock.
	contending atomic.Pointer[[]*Lock]
	// held is the number of leases held, and step the delay for each of them before taking a
	// free one. Electors read both.
	held, step atomic.Int64
	// strange is whether a stranger holds the main lease, see mainChanged. Electors set it.
	strange atomic.Bool

	mu       sync.Mutex // guards what follows
	shown    []shown
	outdated uint64                  // the newest connection since whose beginning etcd was restored; 0 if there is none
	uniques  map[claims.Lease]string // the random part of the identity, by main lease
}

// New makes a Leadership without locks.
func New(o Options) *Leadership {
	return &Leadership{options: o, changes: make(chan struct{}, 1), receded: make(chan struct{}, 1)}
}

// Changes receives a value when a lock was won or lost, or its holder changed: the loop then
// synchronizes.
func (l *Leadership) Changes() <-chan struct{} { return l.changes }

func (l *Leadership) notify() {
	select {
	case l.changes <- struct{}{}:
	default:
	}
}

// Prepare returns the locks of a configuration: those that go on as they are, and new ones,
// which do nothing yet. enabled returns the enabled controllers of a lock. It changes nothing.
func (l *Leadership) Prepare(conn Connection, cfg *v1beta1.KubeControllerManagerConfiguration, enabled func(lock string) []string) ([]*Lock, error) {
	var next []*Lock
	for _, c := range locks.All(cfg) {
		if kept := l.find(c.Name, keyOf(conn.Generation(), cfg, c)); kept != nil {
			next = append(next, kept)
			continue
		}
		made, err := l.newLock(conn, cfg, c, enabled(c.Name))
		if err != nil {
			l.Discard(next)
			return nil, err
		}
		next = append(next, made)
	}
	return next, nil
}

func (l *Leadership) find(name string, of key) *Lock {
	n := slices.IndexFunc(l.locks, func(k *Lock) bool { return k.Name == name && k.key == of })
	if n < 0 {
		return nil
	}
	return l.locks[n]
}

// Discard drops those of prepared locks that are new.
func (l *Leadership) Discard(prepared []*Lock) {
	for _, k := range prepared {
		if !slices.Contains(l.locks, k) {
			k.connection.Release()
		}
	}
}

// Adopt makes prepared locks those in force. The others are given back when nothing runs
// under them. A lock begins when those have been given back that it replaces: the one of
// the same name, and the one with the same lease.
func (l *Leadership) Adopt(ctx context.Context, next []*Lock, cfg *v1beta1.KubeControllerManagerConfiguration, enabled func(lock string) []string) {
	l.election = cfg.LeaderElection
	before := controllersByLease(l.locks)
	l.replace(next)
	for _, c := range locks.All(cfg) {
		for _, k := range next {
			if k.Name == c.Name {
				k.arrived(before, c.Controllers)
				k.Lock = c
				k.want(enabled(c.Name))
			}
		}
	}
	for _, k := range next {
		if k.begun {
			continue
		}
		k.first = before == nil
		k.after = map[*Lock]bool{}
		for _, old := range l.retiring {
			k.follows = k.follows || old.key.connection != k.key.connection || old.elector != nil && k.elector == nil
			if old.Name == k.Name || old.key.lease == k.key.lease {
				k.after[old] = true
			}
		}
		l.beginIfFree(ctx, k)
	}
}

// Retire gives every lock back once nothing runs under it any more. The process ends.
func (l *Leadership) Retire() {
	for _, k := range l.locks {
		k.last = true
	}
	l.replace(nil)
}

func (l *Leadership) replace(next []*Lock) {
	for _, k := range l.locks {
		if !slices.Contains(next, k) {
			k.noteOthers()
			k.want(nil)
			l.retiring = append(l.retiring, k)
		}
	}
	l.locks = next
	l.shareLocks()
}

// AwaitRetired works in place of the loop until every retired lock was given back.
func (l *Leadership) AwaitRetired(ctx context.Context) {
	for len(l.retiring) > 0 {
		select {
		case then := <-l.options.Tasks.Done():
			then()
		case <-l.Due():
			l.Settle(ctx)
		}
	}
}

// beginIfFree begins a lock that waits for no other. On a connection that is Outdated it does not begin, and waits to
// be replaced.
func (l *Leadership) beginIfFree(ctx context.Context, k *Lock) {
	if !k.begun && len(k.after) == 0 && !l.Outdated(k.key.connection) {
		k.begin(ctx)
		l.notify()
	}
}

// retired records that a lock was given back.
func (l *Leadership) retired(ctx context.Context, old *Lock, err error) {
	if err != nil {
		klog.FromContext(ctx).Error(err, "A lease was not released and will expire", "lock", old.Name)
		if old.last { // else an edit has left the lease, and nobody asks about it at the end
			l.failures = append(l.failures, err)
		}
	}
	l.retiring = slices.DeleteFunc(l.retiring, func(k *Lock) bool { return k == old })
	l.shareLocks()
	old.connection.Release()
	for _, k := range l.locks {
		delete(k.after, old)
		l.beginIfFree(ctx, k)
	}
}

// SetLastGood sets the value of LastGoodAnnotation on every lease that this process holds, as
// soon as the leases settle. With an empty value they do not have it.
func (l *Leadership) SetLastGood(value string) { l.lastGood = value }

// TakeTerms records terms that began or ended.
func (l *Leadership) TakeTerms(ctx context.Context) {
	held := int64(0)
	l.heedStranger(ctx)
	for _, k := range l.all() {
		l.takeTerm(ctx, k)
		if k.term != nil && k.elector != nil {
			held++
		}
	}
	l.held.Store(held)
}

func (l *Leadership) takeTerm(ctx context.Context, k *Lock) {
	t := k.valid()
	if t == k.term {
		return
	}
	logger := klog.FromContext(ctx).WithValues("lock", k.Name)
	notChosen := k.term != nil && errors.Is(k.term.Err(), election.ErrNotChosen)
	l.clearTerm(k)
	if t == nil {
		if notChosen {
			k.handingTo = "the candidate that the API server prefers"
		}
		logger.Info("Not leading, standing by", "term", k.number)
		return
	}
	l.beginTerm(k, t)
	logger.Info("Leading", "term", k.number)
}

// clearTerm drops what belongs to the last term of a lock.
func (l *Leadership) clearTerm(k *Lock) {
	if k.term != nil {
		k.arrive(k.unsure()...) // whoever ran them may not be seen any more
	}
	k.admission.Lost()
	l.endBarriers(k)
	k.term, k.asking, k.askAt, k.trouble, k.hidden = nil, false, time.Time{}, "", ""
	k.handingTo, k.clearing, k.announceAt = "", false, time.Time{}
}

// beginTerm records a term of a lock, and has the loop notice its end.
func (l *Leadership) beginTerm(k *Lock, t *election.Term) {
	l.terms++
	k.term, k.number = t, l.terms
	k.requested.Store(false)
	k.announceNext(l.options.Clock.Now())
	l.prepareBarrier(k, t)
	// The term ends by itself, also when its elector is stuck.
	l.options.Tasks.Go(func() {
		select {
		case <-t.Done():
			if errors.Is(t.Err(), election.ErrNotRenewed) {
				k.connection.CutAccounts()
			}
			l.notify()
		case <-l.options.Tasks.Context().Done():
		}
	})
}

// NewLeases returns those of prepared locks that are new and have a lease.
func (l *Leadership) NewLeases(prepared []*Lock) []*Lock {
	return slices.DeleteFunc(slices.Clone(prepared), func(k *Lock) bool {
		return k.elector == nil || slices.Contains(l.locks, k)
	})
}

// Locks returns the locks of the configuration in force.
func (l *Leadership) Locks() []*Lock { return l.locks }

// all returns the locks in force and those that are still to be given back.
func (l *Leadership) all() []*Lock { return append(slices.Clone(l.locks), l.retiring...) }

// SetTimings changes the rhythm of all elections live. What waits does so no longer than it would from now on.
func (l *Leadership) SetTimings(c v1beta1.LeaderElection) {
	now := l.options.Clock.Now()
	retry, lease := now.Add(c.RetryPeriod.Duration), now.Add(c.LeaseDuration.Duration)
	for _, k := range l.all() {
		if k.elector != nil {
			k.elector.SetTimings(timingsOf(c))
		}
		k.askAt = slices.MinFunc([]time.Time{k.askAt, retry}, time.Time.Compare)
	}
	for _, next := range []*time.Time{&l.nextRequest, &l.nextHandOver} {
		*next = slices.MinFunc([]time.Time{*next, lease}, time.Time.Compare)
	}
	step := time.Duration(0)
	if c.Spread == v1beta1.SpreadBalanced {
		step = c.RetryPeriod.Duration / 2
	}
	l.step.Store(int64(step))
}

// End cancels what waits, and returns the errors of locks that were to be given back at the end.
func (l *Leadership) End() error {
	for _, k := range l.all() {
		l.endBarriers(k)
	}
	if l.alarm != nil {
		l.alarm.Stop()
	}
	return errors.Join(l.failures...)
}
