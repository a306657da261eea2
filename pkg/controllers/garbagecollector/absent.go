package garbagecollector

import (
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

const (
	// absentCapacity is the number of absent owners that are remembered.
	absentCapacity = 500
	// absentTTL is how long they are remembered. A UID is never reused, but restoring a backup
	// of the cluster restores objects with their UIDs.
	absentTTL = time.Minute
)

// absentOwners caches owners that are known not to exist, so that each is looked up once for
// many dependents. Entries hold for one cluster and a limited time, within which an instance
// shares them with its successors.
type absentOwners struct {
	cache *lru.Cache
	clock clock.PassiveClock
}

func newAbsentOwners(c clock.PassiveClock) absentOwners {
	return absentOwners{lru.New(absentCapacity), c}
}

func (a absentOwners) add(id identity) { a.cache.Add(id, a.clock.Now()) }

// has reports a hit. It protects the entry from eviction, but not from expiry.
func (a absentOwners) has(id identity) bool {
	learned, found := a.cache.Get(id)
	return found && a.clock.Since(learned.(time.Time)) < absentTTL
}
