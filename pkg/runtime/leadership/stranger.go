package leadership

import (
	"context"
	"errors"
	"slices"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config/locks"
)

// errStranger is why terms end that others would share with a process that runs everything.
var errStranger = errors.New("the main lease is held by a process that writes no claims and so runs every controller")

// stranger is the holder of the main lease if it runs everything, empty otherwise: see rule 7
// of package claims.
func (l *Leadership) stranger(main *Lock) string {
	return main.connection.Observer().Stranger(main.elector.Lease(), l.identityOf(main), l.options.Clock.Now())
}

// mainChanged reacts to a change of the main lease. If a stranger ends terms, they end
// immediately, without waiting for the loop. Electors call it.
func (l *Leadership) mainChanged(main *Lock) {
	defer l.notify()
	holder := l.stranger(main)
	l.strange.Store(holder != "")
	if holder == "" {
		return
	}
	for _, k := range *l.contending.Load() {
		if term := k.elector.State().Term; k != main && term != nil {
			term.End(errStranger)
		}
	}
}

// shareLocks gives electors access to all locks that have one.
func (l *Leadership) shareLocks() {
	all := slices.DeleteFunc(l.all(), func(k *Lock) bool { return k.elector == nil })
	l.contending.Store(&all)
}

// heedStranger ends the terms in which something may run that a stranger runs, too.
// Permission may have been requested before the stranger appeared, and granted after
// mainChanged was called.
func (l *Leadership) heedStranger(ctx context.Context) {
	for _, main := range l.locks {
		if main.Name != locks.Main || main.elector == nil {
			continue
		}
		holder := l.stranger(main)
		l.strange.Store(holder != "")
		if holder == "" {
			continue
		}
		for _, k := range l.all() {
			if k == main || k.elector == nil || k.term == nil || !k.admission.Grants() {
				continue
			}
			klog.FromContext(ctx).Info("A process that writes no claims holds the main lease and runs every controller; controllers under other leases stop",
				"lock", k.Name, "holder", holder)
			k.term.End(errStranger)
		}
	}
}

// leaveMigration gives the migration lease back while a stranger holds the main lease. Nothing may run under it here, and
// the stranger, or the other component, would wait for it.
func (l *Leadership) leaveMigration(ctx context.Context) {
	for _, k := range l.locks {
		if k.Name != locks.Migration {
			continue
		}
		k.left = ""
		if !l.strange.Load() {
			continue
		}
		k.left = "the lease is left to other components while the main lease is held by a process that runs every controller"
		if k.term != nil && k.handingTo == "" && len(k.admission.Blocked()) > 0 {
			klog.FromContext(ctx).Info("A process that writes no claims holds the main lease, leaving the migration lease to other components", "lock", k.Name)
			k.handingTo = "other components"
			l.notify()
		}
	}
}
