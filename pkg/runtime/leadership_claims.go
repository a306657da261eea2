package runtime

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/supervisor"
)

const (
	// recheckEvery is how often it is looked whether a blocked controller is free, at most.
	recheckEvery = time.Second
	// drainCheckEvery is how often it is looked whether controllers have stopped whose lock
	// is to be given back, or whose claim is to go.
	drainCheckEvery = 20 * time.Millisecond
	// readTimeout bounds storing a claim and reading the other leases.
	readTimeout = 10 * time.Second
)

// settle does what follows from what the supervisor was told: it takes note of what runs
// and has stopped under each lock, has that written on the leases, asks for what may not
// run yet, and gives back what is no longer needed.
func (r *Runtime) settle(ctx context.Context) {
	l := r.leadership
	draining := r.noteStopped()
	r.considerRequests(ctx)
	for _, k := range l.all() {
		k.annotate(l.identityOf(k))
	}
	r.giveBack(ctx)
	for _, k := range l.locks {
		r.ask(ctx, k)
	}
	r.requestLease(ctx)
	r.showLeases()
	r.setAlarm(draining)
}

// noteStarted takes note of what the supervisor was told to run, under which lock.
func (r *Runtime) noteStarted(wants map[string]supervisor.Want) {
	r.wants = wants
	for name, w := range wants {
		for _, k := range r.leadership.locks {
			if runsUnder(w, k) {
				k.admission.Started(name)
			}
		}
	}
}

func runsUnder(w supervisor.Want, k *lock) bool {
	return w.State == supervisor.Running && k.term != nil && w.Spec.Term == k.number
}

// noteStopped takes note of what has stopped, and reports whether something still stops.
func (r *Runtime) noteStopped() (draining bool) {
	var pending map[string]bool
	for _, k := range r.leadership.all() {
		for _, name := range k.admission.Active() {
			if runsUnder(r.wants[name], k) {
				continue
			}
			if pending == nil {
				pending = r.pending()
			}
			if pending[name] {
				draining = true
				continue
			}
			k.admission.Stopped(name)
		}
	}
	return draining
}

// pending are the controllers that have not done yet what they were told.
func (r *Runtime) pending() map[string]bool {
	all := map[string]bool{}
	for _, s := range r.supervisor.Status() {
		all[s.Name] = s.Pending
	}
	return all
}

// ask finds out whether what waits under a lock may run: the claim is stored, then the
// other leases are read.
func (r *Runtime) ask(ctx context.Context, k *lock) {
	l := r.leadership
	if k.elector == nil || k.term == nil || k.asking || k.handingTo != "" || !k.admission.Pending() || l.clock.Now().Before(k.askAt) {
		return
	}
	k.asking = true
	term, question := k.term, k.admission.Ask()
	l.work(func(background context.Context) func() {
		leases, read, err := k.lookAround(background, term, l)
		return func() { r.answered(ctx, k, term, question, leases, read, err) }
	})
}

// lookAround reads the leases that can carry claims, once that of this lock is stored.
func (k *lock) lookAround(ctx context.Context, term *election.Term, l *leadership) ([]coordinationv1.Lease, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	ctx, release := term.Context(ctx)
	defer release()
	if err := k.elector.Publish(ctx); err != nil {
		return nil, time.Time{}, err
	}
	read := l.clock.Now()
	leases, err := k.reader.Read(ctx, k.key.lease)
	return leases, read, err
}

// answered takes note of what the other leases say.
func (r *Runtime) answered(ctx context.Context, k *lock, term *election.Term, q claims.Question, leases []coordinationv1.Lease, read time.Time, err error) {
	l, timings := r.leadership, timingsOf(r.document.Config.LeaderElection)
	if k.term != term {
		return
	}
	k.asking = false
	if err != nil {
		k.trouble = fmt.Sprintf("it is not known whether another process still runs it: %v", err)
		k.askAt = l.clock.Now().Add(timings.RetryPeriod)
		klog.FromContext(ctx).Error(err, "Nobody can be asked who runs what; nothing new is started", "lock", k.Name)
		r.synchronize(ctx, supervisor.CauseLease)
		return
	}
	k.trouble = ""
	live := k.connection.observer.Live(leases, l.identityOf(k), k.key.main, read)
	waited := k.admission.Blocked()
	changed := k.admission.Answer(q, live)
	l.granted(k, waited)
	if blocked := k.admission.Blocked(); len(blocked) > 0 {
		k.askAt = l.clock.Now().Add(min(recheckEvery, timings.RetryPeriod))
		if changed {
			klog.FromContext(ctx).Info("Controllers wait for another process to stop them", "lock", k.Name, "blocked", blocked)
		}
	}
	if !changed {
		r.settle(ctx)
		return
	}
	r.synchronize(ctx, supervisor.CauseLease)
}

// giveBack gives those locks back that are no longer needed and have nothing running under
// them.
func (r *Runtime) giveBack(ctx context.Context) {
	l := r.leadership
	for _, k := range l.retiring {
		if !k.returning && len(k.admission.Active()) == 0 {
			k.returning = true
			l.work(func(background context.Context) func() {
				err := k.resign(background)
				return func() {
					l.retired(ctx, k, err)
					r.synchronize(ctx, supervisor.CauseLease)
				}
			})
		}
	}
	for _, k := range l.locks {
		if k.handingTo != "" && !k.returning && len(k.admission.Active()) == 0 {
			k.returning = true
			r.handOver(ctx, k)
		}
	}
}

// setAlarm has the loop settle again when something is due that nothing tells of.
func (r *Runtime) setAlarm(draining bool) {
	l := r.leadership
	now := l.clock.Now()
	var due []time.Time
	if draining {
		due = append(due, now.Add(drainCheckEvery))
	}
	for _, k := range l.locks {
		if k.term != nil && !k.asking && k.admission.Pending() && k.askAt.After(now) {
			due = append(due, k.askAt)
		}
	}
	for _, t := range []time.Time{l.nextRequest, l.nextHandOver} {
		if t.After(now) {
			due = append(due, t)
		}
	}
	if l.alarm != nil {
		l.alarm.Stop()
		l.alarm = nil
	}
	if len(due) > 0 {
		l.alarm = l.clock.NewTimer(slices.MinFunc(due, time.Time.Compare).Sub(now))
	}
}

// due ticks when the alarm goes off.
func (l *leadership) due() <-chan time.Time {
	if l.alarm == nil {
		return nil
	}
	return l.alarm.C()
}
