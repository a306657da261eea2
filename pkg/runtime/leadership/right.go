package leadership

import "cmp"

// Right is what may run under a lock. The zero value permits nothing.
type Right struct {
	// Term is the number of the term of the lock; 0 while it is not held, for the given
	// Reason.
	Term   uint64
	Reason string
	// Undecided is set while a process that starts does not know yet whether it gets the lock.
	// It fills no caches before: those that are filled after the term has begun need not be
	// compared with the API server once more.
	Undecided bool
	// Granted reports what may run; nil permits everything. Blocked is who blocks the rest,
	// as far as is known.
	Granted func(controller string) bool
	Blocked map[string]string
}

// Refuses returns why a controller may not run under the lock, empty if it may.
func (r Right) Refuses(name string) string {
	switch {
	case r.Term == 0:
		return cmp.Or(r.Reason, "the lock is not held")
	case r.Granted == nil || r.Granted(name):
		return ""
	case r.Blocked[name] != "":
		return r.Blocked[name]
	case r.Reason != "":
		return r.Reason
	}
	return "checking whether another process still runs it"
}

// Rights is what may run under each of some locks.
func Rights(locks []*Lock) map[string]Right {
	all := make(map[string]Right, len(locks))
	for _, k := range locks {
		all[k.Name] = k.right()
	}
	return all
}

// undecided reports whether the first request for the lease is under way.
func (k *Lock) undecided() bool {
	return k.term == nil && k.elector != nil && !k.elector.State().Decided
}

// notHeld says why the lock is not held, as far as is known: there need not be another process that holds it.
func (k *Lock) notHeld() string {
	if k.elector == nil {
		return "the lock is not held"
	}
	switch s := k.elector.Status(); {
	case s.Holder != "" && s.Holder != s.Identity:
		return "another process holds the lease"
	case k.left != "":
		return k.left
	case s.LastError != "":
		return "the lease cannot be taken: " + s.LastError
	}
	return "the lease is not held"
}

func (k *Lock) right() Right {
	switch {
	case !k.begun:
		return Right{Reason: "the lock is being replaced"}
	case k.handingTo != "":
		return Right{Reason: "the lease is being handed over to " + k.handingTo}
	case k.elector != nil && k.elector.Receded():
		return Right{Reason: "etcd was restored, the caches are about to be replaced"}
	case k.first && k.undecided():
		return Right{Reason: "the lease is being read", Undecided: true}
	case k.term == nil:
		return Right{Reason: k.notHeld()}
	case k.elector == nil:
		return Right{Term: k.number}
	}
	r := Right{Term: k.number, Granted: k.admission.Granted, Blocked: k.admission.Blocked()}
	if k.trouble != "" {
		r.Reason = k.trouble
	}
	return r
}
