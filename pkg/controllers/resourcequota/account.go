package resourcequota

import (
	"container/heap"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// profile is what the scopes of quotas know of an object. Objects with equal profiles are counted
// by the same quotas.
type profile interface {
	comparable
	meets(r requirement) bool
}

// unscoped is the profile of objects that are in no scope.
type unscoped struct{}

func (unscoped) meets(requirement) bool { return false }

// entry is what one object adds to the usage of its namespace.
type entry[P profile] struct {
	profile P
	amounts amounts
	// until is when the entry expires although the object does not change; zero if never.
	until time.Time
}

// account is what the objects of one resource use in one namespace: an entry for each object, and
// the sum of the entries of each profile. A change of an object costs what the object uses, and
// the usage of a quota is the sum of a few sums.
type account[P profile] struct {
	mu      sync.Mutex
	entries map[string]entry[P] // by name
	sums    map[P]*sum
	expires expiries
	// latest is the latest time, on the wall, as of which an entry was computed.
	latest time.Time
}

// sum is the sum of entries.
type sum struct {
	entries int
	used    corev1.ResourceList
	// last are the amounts of the entry that was added last. Most objects use the same.
	last amounts
}

func newAccount[P profile]() *account[P] {
	return &account[P]{entries: map[string]entry[P]{}, sums: map[P]*sum{}}
}

// put sets the entry of an object.
func (a *account[P]) put(name string, e entry[P]) {
	was, known := a.entries[name]
	if !e.until.IsZero() && !was.until.Equal(e.until) {
		a.expire(name, e.until)
	}
	if known && was.profile == e.profile && was.amounts.equal(e.amounts) {
		was.until = e.until
		a.entries[name] = was
		return
	}
	a.remove(name)
	s := a.sums[e.profile]
	if s == nil {
		s = &sum{used: corev1.ResourceList{}}
		a.sums[e.profile] = s
	}
	if s.last.equal(e.amounts) {
		e.amounts = s.last
	}
	s.last = e.amounts
	s.entries++
	for _, amount := range e.amounts {
		plus(s.used, amount.name, amount.quantity)
	}
	a.entries[name] = e
}

// remove removes the entry of an object, if there is one.
func (a *account[P]) remove(name string) {
	e, known := a.entries[name]
	if !known {
		return
	}
	delete(a.entries, name)
	s := a.sums[e.profile]
	if s.entries--; s.entries == 0 {
		delete(a.sums, e.profile)
		return
	}
	for _, amount := range e.amounts {
		minus(s.used, amount.name, amount.quantity)
	}
}

// usage returns the sum of the entries that are selected.
func (a *account[P]) usage(s selected) corev1.ResourceList {
	used := corev1.ResourceList{}
	for profile, sum := range a.sums {
		if !s.includes(profile.meets) {
			continue
		}
		for name, quantity := range sum.used {
			plus(used, name, quantity)
		}
	}
	return used
}

// fewExpiries is the number of expiries below which dropping the outdated ones is not worth it.
const fewExpiries = 64

// expire adds an expiry. Once most expiries belong to objects that are gone, those are dropped: otherwise they would
// stay for ever if no quota limits the resource any more, and for long after a long grace period.
func (a *account[P]) expire(name string, at time.Time) {
	if len(a.expires) > 2*len(a.entries)+fewExpiries {
		a.expires = nil
		for known, e := range a.entries {
			if !e.until.IsZero() {
				a.expires = append(a.expires, expiry{at: e.until, name: known})
			}
		}
		heap.Init(&a.expires)
	}
	heap.Push(&a.expires, expiry{at: at, name: name})
}

// note records as of when an entry is computed.
func (a *account[P]) note(now time.Time) {
	if now = now.Round(0); now.After(a.latest) {
		a.latest = now
	}
}

// expired takes the names of objects whose entries have expired. These are all if the clock was set back: what had
// expired by then may not have yet.
func (a *account[P]) expired(now time.Time) []string {
	if now = now.Round(0); now.Before(a.latest) {
		a.latest = now
		return slices.Collect(maps.Keys(a.entries))
	}
	var names []string
	for len(a.expires) > 0 && now.After(a.expires[0].at) {
		names = append(names, heap.Pop(&a.expires).(expiry).name)
	}
	return names
}

// expiries is a heap by time. It can contain objects that are gone.
type expiries []expiry

type expiry struct {
	at   time.Time
	name string
}

func (e expiries) Len() int           { return len(e) }
func (e expiries) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e expiries) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *expiries) Push(x any)        { *e = append(*e, x.(expiry)) }

func (e *expiries) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
