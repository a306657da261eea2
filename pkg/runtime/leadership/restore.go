package leadership

import (
	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/election"
)

// recede ends the terms of all locks that belong to a connection, since one of their leases shows that etcd was
// restored. What the process knows from that connection is of another history than what is stored: no further term
// begins on it. Electors call it.
func (l *Leadership) recede(connection uint64) {
	l.mu.Lock()
	l.outdated = max(l.outdated, connection)
	l.mu.Unlock()
	for _, k := range *l.contending.Load() {
		if k.key.connection == connection {
			k.elector.Recede()
		}
	}
	select {
	case l.receded <- struct{}{}:
	default:
	}
}

// Receded receives a value when etcd was restored: a connection may be Outdated.
func (l *Leadership) Receded() <-chan struct{} { return l.receded }

// Outdated reports whether etcd was restored since a connection began. Nothing that needs a lease may run on it any
// more. It is safe for concurrent use.
func (l *Leadership) Outdated(connection uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return connection <= l.outdated
}

// cautionFor returns how careful the elector of a lease has to be: as much as those before it.
func (l *Leadership) cautionFor(lease claims.Lease) election.Caution {
	var most election.Caution
	for _, k := range l.all() {
		if k.key.lease != lease || k.elector == nil || !l.Outdated(k.key.connection) {
			continue
		}
		c := k.elector.Caution()
		if c.HoldOff.After(most.HoldOff) {
			most.HoldOff = c.HoldOff
		}
		if c.Unwatched.After(most.Unwatched) {
			most.Unwatched = c.Unwatched
		}
	}
	return most
}
