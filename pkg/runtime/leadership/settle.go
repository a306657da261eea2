package leadership

import (
	"context"
	"slices"
	"time"
)

// drainCheckEvery is how often to check whether controllers have stopped whose lock is to be
// given back, or whose claim is to go.
const drainCheckEvery = 20 * time.Millisecond

// Settle follows up on what controllers were told: it records what runs and what has stopped
// under each lock, writes that on the leases, asks for what may not run yet, and gives back
// what is no longer needed.
func (l *Leadership) Settle(ctx context.Context) {
	draining := l.noteStopped()
	// One reading of the clock decides what is due and what the alarm is set for: with two of them, what becomes due in
	// between would be neither.
	now := l.options.Clock.Now()
	l.considerRequests(ctx, now)
	l.leaveMigration(ctx)
	for _, k := range l.all() {
		l.annotate(k)
	}
	l.giveBack(ctx)
	for _, k := range l.locks {
		l.ask(ctx, k, now)
	}
	for _, k := range l.all() {
		l.announce(ctx, k, now)
	}
	l.requestLease(ctx, now)
	l.show()
	l.setAlarm(draining, now)
}

// Started records what was told to run, each controller with the number of the term that it
// runs in, 0 for one that needs no lock.
func (l *Leadership) Started(running map[string]uint64) {
	l.running = running
	for name, term := range running {
		for _, k := range l.locks {
			if k.isHeldIn(term) {
				k.admission.Started(name)
			}
		}
	}
}

// isHeldIn reports whether the lock is held, and the number is that of its term.
func (k *Lock) isHeldIn(term uint64) bool { return term != 0 && k.term != nil && term == k.number }

// noteStopped records what has stopped, and reports whether something still stops.
func (l *Leadership) noteStopped() (draining bool) {
	var pending map[string]bool
	for _, k := range l.all() {
		for _, name := range k.admission.Active() {
			if k.isHeldIn(l.running[name]) {
				continue
			}
			if pending == nil {
				pending = l.options.Runner.Pending()
			}
			if pending[name] || l.isUntold(name) {
				draining = true
				continue
			}
			k.admission.Stopped(name)
		}
	}
	return draining
}

// isUntold reports whether a controller was last told to run in a term that is over: terms are also considered while an
// edit is prepared, which may be rejected.
func (l *Leadership) isUntold(name string) bool {
	term := l.running[name]
	return term != 0 && !slices.ContainsFunc(l.all(), func(k *Lock) bool { return k.isHeldIn(term) })
}

// giveBack gives back the locks that are no longer needed and have nothing running under
// them.
func (l *Leadership) giveBack(ctx context.Context) {
	for _, k := range l.retiring {
		if !k.returning && len(k.admission.Active()) == 0 {
			k.returning = true
			l.options.Tasks.Do(func(background context.Context) func() {
				err := k.resign(background)
				return func() {
					l.retired(ctx, k, err)
					l.options.Runner.Synchronize(ctx)
				}
			})
		}
	}
	for _, k := range l.locks {
		if k.handingTo != "" && !k.returning && len(k.admission.Active()) == 0 {
			k.returning = true
			k.noteOthers()
			l.handOver(ctx, k)
		}
	}
}

// setAlarm makes the loop settle again when something is due, but not at now, that no change announces.
func (l *Leadership) setAlarm(draining bool, now time.Time) {
	var due []time.Time
	if draining {
		due = append(due, now.Add(drainCheckEvery))
	}
	for _, k := range l.locks {
		if k.term != nil && !k.asking && k.admission.Pending() && k.askAt.After(now) {
			due = append(due, k.askAt)
		}
	}
	for _, k := range l.all() {
		if k.term != nil && k.announceAt.After(now) {
			due = append(due, k.announceAt)
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
		l.alarm = l.options.Clock.NewTimer(slices.MinFunc(due, time.Time.Compare).Sub(now))
	}
}

// Due receives a value when the loop is to settle again.
func (l *Leadership) Due() <-chan time.Time {
	if l.alarm == nil {
		return nil
	}
	return l.alarm.C()
}
