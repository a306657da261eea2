package runtime

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/runtime/election"
)

// errStranger is why terms end that others would share with a process that runs everything.
var errStranger = errors.New("the main lease is held by a process that writes no claims, and so runs everything")

// stranger is who holds the main lease and runs everything, empty if nobody does: see rule 7
// of package claims.
func (l *leadership) stranger(main *lock) string {
	return main.connection.observer.Stranger(main.elector.Lease(), l.identityOf(main), l.clock.Now())
}

// mainChanged follows a change of the main lease. What a stranger ends, it ends at once: the
// loop may have other work. Electors call it.
func (l *leadership) mainChanged(main *lock) {
	defer l.notify()
	if l.stranger(main) == "" {
		return
	}
	for _, e := range *l.electors.Load() {
		if term := e.State().Term; e != main.elector && term != nil {
			term.End(errStranger)
		}
	}
}

// shareElectors lets mainChanged know of all locks.
func (l *leadership) shareElectors() {
	var all []*election.Elector
	for _, k := range l.all() {
		if k.elector != nil {
			all = append(all, k.elector)
		}
	}
	l.electors.Store(&all)
}

// heedStranger ends the terms in which something may run that a stranger runs, too. That may
// have been asked for before the stranger came, and permitted after mainChanged was called.
func (l *leadership) heedStranger(ctx context.Context) {
	for _, main := range l.locks {
		if main.Name != config.MainLock || main.elector == nil {
			continue
		}
		holder := l.stranger(main)
		if holder == "" {
			continue
		}
		for _, k := range l.all() {
			if k == main || k.elector == nil || k.term == nil || !k.admission.Grants() {
				continue
			}
			klog.FromContext(ctx).Info("A process that writes no claims holds the main lease and runs everything; what runs under another lease stops",
				"lock", k.Name, "holder", holder)
			k.term.End(errStranger)
		}
	}
}
