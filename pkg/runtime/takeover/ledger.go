package takeover

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
)

// settleTime is how long the API server can still be processing a write whose response was
// lost: it ends requests after a minute by default.
const settleTime = 2 * time.Minute

// Ledger records what this process writes through one connection. It can be used by several
// goroutines.
type Ledger struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	entries map[schema.GroupResource]*entry
	rest    string    // as in Versions; empty before anything was inherited
	settled time.Time // as in an entry, of the resources that have none
}

// entry is what is known about the writes of one resource.
type entry struct {
	version string // the highest that an answer carried; empty only while unsettled
	// unsettled is set if a write has no version. A write that begins after settled and
	// makes a version is newer.
	unsettled bool
	settled   time.Time
}

// NewLedger makes the ledger of a process that does not know yet what was written before it.
func NewLedger(c clock.PassiveClock) *Ledger {
	return &Ledger{clock: c, entries: map[schema.GroupResource]*entry{}}
}

// Stored records a write that the API server has carried out. version is that of the object
// in the answer, empty if there is none. began is when the write was sent, zero if the version
// may be older than that: a write that changes nothing is answered with the object as it was.
func (l *Ledger) Stored(resource schema.GroupResource, version string, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.of(resource, l.rest != none)
	if version == "" {
		e.unsettle(l.clock.Now())
		return
	}
	if e.unsettled && !began.Before(e.settled) {
		e.unsettled = false
	}
	e.raise(version)
}

// Lost records a write that may or may not have been, or still be, carried out.
func (l *Ledger) Lost(resource schema.GroupResource) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(resource, l.rest != none).unsettle(l.clock.Now().Add(settleTime))
}

// Inherit adds what the previous holder wrote, until the time given. Of a resource that it may
// have written, at a version that is not known, the version of a write of this process before
// that time says nothing.
func (l *Ledger) Inherit(v Versions, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for resource, e := range l.entries {
		if _, known := v.of(resource); !known {
			e.unsettle(until)
		}
	}
	for resource, version := range v.ByResource {
		switch version {
		case none:
		case Unknown:
			l.of(resource, true).unsettle(until)
		default:
			l.of(resource, l.rest == Unknown).raise(version)
		}
	}
	if v.Rest == Unknown && until.After(l.settled) {
		l.settled = until
	}
	if l.rest != Unknown { // there can be several leases, and as many predecessors
		l.rest = v.Rest
	}
}

// verified records that a cache of this version contains everything written before began.
func (l *Ledger) verified(resource schema.GroupResource, version string, began time.Time) {
	if version != "" {
		l.Stored(resource, version, began)
	}
}

// Versions returns what a successor has to see.
func (l *Ledger) Versions() Versions {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := Versions{ByResource: make(map[schema.GroupResource]string, len(l.entries)), Rest: cmp.Or(l.rest, Unknown)}
	for resource, e := range l.entries {
		v.ByResource[resource] = e.version
		if e.unsettled {
			v.ByResource[resource] = Unknown
		}
	}
	return v
}

// of returns the entry of a resource. A new one is unsettled if others may have written the resource.
func (l *Ledger) of(resource schema.GroupResource, unsettled bool) *entry {
	e, known := l.entries[resource]
	if !known {
		e = &entry{unsettled: unsettled, settled: l.settled}
		l.entries[resource] = e
	}
	return e
}

func (e *entry) unsettle(until time.Time) {
	e.unsettled = true
	if until.After(e.settled) {
		e.settled = until
	}
}

func (e *entry) raise(version string) {
	if e.version == "" || controller.IsOlder(e.version, version) {
		e.version = version
	}
}
