package leadership

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/election"
)

const (
	// recheckEvery is how often to check whether a blocked controller is free, at most.
	recheckEvery = time.Second
	// readTimeout bounds storing a claim and reading the other leases.
	readTimeout = 10 * time.Second
)

// ask finds out whether what waits under a lock may run: the claim is stored, then the
// other leases are read.
func (l *Leadership) ask(ctx context.Context, k *Lock, now time.Time) {
	if k.elector == nil || k.term == nil || k.asking || k.handingTo != "" || !k.admission.Pending() || now.Before(k.askAt) {
		return
	}
	k.asking = true
	term, question := k.term, k.admission.Ask()
	l.options.Tasks.Do(func(background context.Context) func() {
		leases, read, err := k.lookAround(background, term, l)
		return func() { l.answered(ctx, k, term, question, leases, read, err) }
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
func (l *Leadership) answered(ctx context.Context, k *Lock, term *election.Term, q claims.Question, leases []coordinationv1.Lease, read time.Time, err error) {
	timings := timingsOf(l.election)
	if k.term != term {
		return
	}
	k.asking = false
	if err != nil {
		k.trouble = fmt.Sprintf("it is not known whether another process still runs it: %v", err)
		k.askAt = l.options.Clock.Now().Add(timings.RetryPeriod)
		klog.FromContext(ctx).Error(err, "The claims of other processes cannot be read; no further controllers are started", "lock", k.Name)
		l.options.Runner.Synchronize(ctx)
		return
	}
	k.trouble = ""
	live := k.connection.Observer().Live(leases, l.identityOf(k), k.key.main, read)
	waited := k.admission.Blocked()
	changed := k.admission.Answer(q, live)
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
