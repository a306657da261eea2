package leadership

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/election"
)

const (
	// recheckEvery is how often to check whether a blocked controller is free, at most.
	recheckEvery = time.Second
	// readTimeout bounds storing a claim and reading the other leases, and making sure of the entry.
	readTimeout = 10 * time.Second
	// announceEvery is how often the holder of a lease in another namespace than kube-system makes sure that the entry of
	// that namespace is still there.
	announceEvery = time.Minute
)

// ask finds out whether what waits under a lock may run: the claim is stored, then the
// other leases are read.
func (l *Leadership) ask(ctx context.Context, k *Lock, now time.Time) {
	if k.elector == nil || k.term == nil || k.asking || k.handingTo != "" || !k.admission.Pending() || now.Before(k.askAt) {
		return
	}
	k.asking = true
	a := answer{lock: k, term: k.term, question: k.admission.Ask()}
	l.options.Tasks.Do(func(background context.Context) func() {
		a.leases, a.read, a.err = k.lookAround(background, a.term, l)
		return func() { l.answered(ctx, a) }
	})
}

// answer is what the other leases say about what waits under a lock.
type answer struct {
	lock     *Lock
	term     *election.Term // that of the lock when the question was asked
	question claims.Question
	leases   []coordinationv1.Lease
	read     time.Time // when the leases were read
	err      error     // why they could not be
}

// announceNext sets when to make sure of the entry next. kube-system needs none.
func (k *Lock) announceNext(now time.Time) {
	if k.reader != nil && k.key.lease.Namespace != metav1.NamespaceSystem {
		k.announceAt = now.Add(announceEvery)
	}
}

// announce makes sure that other processes find a lease that is held. Without the entry of its namespace, those that
// read later would start what runs under it.
func (l *Leadership) announce(ctx context.Context, k *Lock, now time.Time) {
	if k.term == nil || k.announceAt.IsZero() || now.Before(k.announceAt) {
		return
	}
	k.announceAt = time.Time{}
	term := k.term
	l.options.Tasks.Do(func(background context.Context) func() {
		background, cancel := context.WithTimeout(background, readTimeout)
		defer cancel()
		background, release := term.Context(background)
		defer release()
		err := k.reader.Announce(background, k.key.lease.Namespace)
		return func() {
			if k.term != term || !term.Valid() {
				return
			}
			now := l.options.Clock.Now()
			k.announceNext(now)
			k.hidden = ""
			if err != nil {
				k.hidden = fmt.Sprintf("other processes may not see what runs here: %v", err)
				k.announceAt = now.Add(timingsOf(l.election).RetryPeriod)
				klog.FromContext(ctx).Error(err, "Other processes may not see what runs here; this is retried", "lock", k.Name)
			}
			l.Settle(ctx)
		}
	})
}

// lookAround reads the leases that can carry claims, once that of this lock is stored.
func (k *Lock) lookAround(ctx context.Context, term *election.Term, l *Leadership) ([]coordinationv1.Lease, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	ctx, release := term.Context(ctx)
	defer release()
	if err := k.elector.Publish(ctx); err != nil {
		return nil, time.Time{}, err
	}
	read := l.options.Clock.Now()
	written := ""
	if lease := k.elector.Lease(); lease != nil {
		written = lease.ResourceVersion
	}
	leases, err := k.reader.Read(ctx, k.key.lease, written)
	return leases, read, err
}

// answered records what the other leases say.
func (l *Leadership) answered(ctx context.Context, a answer) {
	k, timings := a.lock, timingsOf(l.election)
	if k.term != a.term {
		return
	}
	k.asking = false
	if a.err != nil {
		k.trouble = fmt.Sprintf("it is not known whether another process still runs it: %v", a.err)
		k.askAt = l.options.Clock.Now().Add(timings.RetryPeriod)
		klog.FromContext(ctx).Error(a.err, "The claims of other processes cannot be read; no further controllers are started", "lock", k.Name)
		l.options.Runner.Synchronize(ctx)
		return
	}
	k.trouble = ""
	live := k.connection.Observer().Live(a.leases, l.identityOf(k), k.key.main, a.read)
	live = slices.DeleteFunc(live, func(c claims.Claim) bool { return l.isOwn(c.Holder) }) // by an earlier identity
	waited := k.admission.Blocked()
	changed := k.admission.Answer(a.question, live)
	l.granted(k, waited)
	if blocked := k.admission.Blocked(); len(blocked) > 0 {
		k.askAt = l.options.Clock.Now().Add(min(recheckEvery, timings.RetryPeriod))
		if changed {
			klog.FromContext(ctx).Info("Controllers wait for another process to stop them", "lock", k.Name, "blocked", blocked)
		}
	}
	if !changed {
		l.Settle(ctx)
		return
	}
	l.options.Runner.Synchronize(ctx)
}
