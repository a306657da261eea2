package runtime

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

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/takeover"
)

// leadership is every lock of this process. Only the loop changes it; what other goroutines
// find out reaches the loop through changes and inbox.
type leadership struct {
	self    self
	events  record.EventRecorder
	metrics election.Metrics
	clock   clock.WithTicker

	changes chan struct{} // a lock was won or lost, or its holder or annotations changed
	inbox   chan func()   // to be called by the loop

	background sync.WaitGroup
	ctx        context.Context // of what runs in the background
	cancel     context.CancelFunc

	locks    []*lock // of the configuration in force
	retiring []*lock // given back when nothing runs under them any more
	terms    uint64  // number of terms so far
	failures []error // of locks that were not given back

	// electors are those of all locks, for goroutines that are not the loop.
	electors atomic.Pointer[[]*election.Elector]

	// For Delay, which electors ask: the number of leases held, and how much to leave one
	// to others for each of them.
	held atomic.Int64
	step atomic.Int64

	nextRequest, nextHandOver time.Time
	alarm                     clock.Timer // nil if nothing is due
}

func newLeadership(name self, events record.EventRecorder, metrics election.Metrics, clk clock.WithTicker) *leadership {
	l := &leadership{
		self:    name,
		events:  events,
		metrics: metrics,
		clock:   clk,
		changes: make(chan struct{}, 1),
		inbox:   make(chan func()),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

func (l *leadership) notify() {
	select {
	case l.changes <- struct{}{}:
	default:
	}
}

// work does something that may take a while, and has the loop call what it returns.
func (l *leadership) work(do func(context.Context) func()) {
	l.background.Go(func() {
		then := do(l.ctx)
		select {
		case l.inbox <- then:
		case <-l.ctx.Done():
		}
	})
}

// prepare returns the locks of a configuration: those that go on as they are, and new ones,
// which do nothing yet. It changes nothing.
func (l *leadership) prepare(conn *connection, cfg *v1beta1.KubeControllerManagerConfiguration, wanted func(lock string) []string) ([]*lock, error) {
	var next []*lock
	for _, c := range config.Locks(cfg) {
		if kept := l.find(c.Name, keyOf(conn.generation, cfg, c)); kept != nil {
			next = append(next, kept)
			continue
		}
		made, err := l.newLock(conn, cfg, c, wanted(c.Name))
		if err != nil {
			l.discard(next)
			return nil, err
		}
		next = append(next, made)
	}
	return next, nil
}

func (l *leadership) find(name string, key lockKey) *lock {
	n := slices.IndexFunc(l.locks, func(k *lock) bool { return k.Name == name && k.key == key })
	if n < 0 {
		return nil
	}
	return l.locks[n]
}

// discard drops those of prepared locks that are new.
func (l *leadership) discard(prepared []*lock) {
	for _, k := range prepared {
		if !slices.Contains(l.locks, k) {
			k.connection.release()
		}
	}
}

// adopt makes prepared locks those in force. The others are given back when nothing runs
// under them. A lock begins when those have been given back that it replaces: the one of
// the same name, and the one with the same lease.
func (l *leadership) adopt(ctx context.Context, next []*lock, cfg *v1beta1.KubeControllerManagerConfiguration, wanted func(lock string) []string) {
	for _, k := range l.locks {
		if !slices.Contains(next, k) {
			k.admission.Want(nil)
			l.retiring = append(l.retiring, k)
		}
	}
	before := controllersByLease(l.locks)
	l.locks = next
	l.shareElectors()
	for _, c := range config.Locks(cfg) {
		for _, k := range next {
			if k.Name == c.Name {
				k.arrived(before, c.Controllers)
				k.Lock = c
				k.admission.Want(wanted(c.Name))
			}
		}
	}
	for _, k := range next {
		if k.begun {
			continue
		}
		k.after = map[*lock]bool{}
		for _, old := range l.retiring {
			if old.Name == k.Name || old.key.lease == k.key.lease {
				k.after[old] = true
			}
		}
		l.beginIfFree(ctx, k)
	}
}

func (l *leadership) beginIfFree(ctx context.Context, k *lock) {
	if !k.begun && len(k.after) == 0 {
		k.begin(ctx)
		l.notify()
	}
}

// retired takes note that a lock was given back.
func (l *leadership) retired(ctx context.Context, old *lock, err error) {
	if err != nil {
		klog.FromContext(ctx).Error(err, "A lease was not released and will expire", "lock", old.Name)
		l.failures = append(l.failures, err)
	}
	l.retiring = slices.DeleteFunc(l.retiring, func(k *lock) bool { return k == old })
	l.shareElectors()
	old.connection.release()
	for _, k := range l.locks {
		delete(k.after, old)
		l.beginIfFree(ctx, k)
	}
}

// takeTerms takes note of terms that began or ended.
func (l *leadership) takeTerms(ctx context.Context) {
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

func (l *leadership) takeTerm(ctx context.Context, k *lock) {
	t := k.valid()
	if t == k.term {
		return
	}
	k.admission.Lost()
	l.endTerm(k)
	notChosen := k.term != nil && errors.Is(k.term.Err(), election.ErrNotChosen)
	k.term, k.asking, k.askAt, k.trouble = t, false, time.Time{}, ""
	k.handingTo, k.clearing = "", false
	logger := klog.FromContext(ctx).WithValues("lock", k.Name)
	if t == nil {
		if notChosen {
			k.handingTo = "the one that the API server prefers"
		}
		logger.Info("Not leading, standing by", "term", k.number)
		return
	}
	l.terms++
	k.number = l.terms
	k.requested.Store(false)
	l.beginTerm(k, t)
	// The term ends by itself, also when its elector is stuck.
	l.background.Go(func() {
		select {
		case <-t.Done():
			if errors.Is(t.Err(), election.ErrNotRenewed) {
				k.connection.clients.CutAccounts()
			}
			l.notify()
		case <-l.ctx.Done():
		}
	})
	logger.Info("Leading", "term", k.number)
}

// all are the locks in force and those that are still to be given back.
func (l *leadership) all() []*lock { return append(slices.Clone(l.locks), l.retiring...) }

// setTimings changes the rhythm of all elections live.
func (l *leadership) setTimings(c v1beta1.LeaderElection) {
	for _, k := range l.all() {
		if k.elector != nil {
			k.elector.SetTimings(timingsOf(c))
		}
	}
	step := time.Duration(0)
	if c.Spread == v1beta1.SpreadBalanced {
		step = c.RetryPeriod.Duration / 2
	}
	l.step.Store(int64(step))
}

// rights is what may run under each of some locks.
func rights(locks []*lock) map[string]right {
	all := make(map[string]right, len(locks))
	for _, k := range locks {
		all[k.Name] = k.right()
	}
	return all
}

// termsOf is what instances are built under: the terms by number, and for each controller
// the one under which it tells of events: that in which it is allowed to run or, while it
// still stops, the one in which it ran.
func (l *leadership) termsOf(locks []*lock) terms {
	all := terms{
		byNumber:     map[uint64]*election.Term{},
		byController: map[string]*election.Term{},
		barriers:     map[string]*takeover.Barrier{},
	}
	for _, k := range l.all() {
		if k.term == nil {
			continue
		}
		for _, c := range k.admission.Active() {
			all.byController[c] = k.term
		}
	}
	for _, k := range locks {
		if k.term == nil {
			continue
		}
		all.byNumber[k.number] = k.term
		for _, c := range k.Controllers {
			if k.elector == nil || k.admission.Granted(c) {
				all.byController[c] = k.term
				all.barriers[c] = k.barrierOf(c)
			}
		}
	}
	return all
}

// end waits for what runs in the background and returns what went wrong.
func (l *leadership) end() error {
	for _, k := range l.all() {
		l.endTerm(k)
	}
	l.cancel()
	l.background.Wait()
	if l.alarm != nil {
		l.alarm.Stop()
	}
	return errors.Join(l.failures...)
}
