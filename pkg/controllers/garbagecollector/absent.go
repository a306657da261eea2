package garbagecollector

import (
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

const (
	// absentCapacity is the number of absent owners that are remembered.
	absentCapacity = 500
	// absentTTL is for how long. A UID is never used again, but a backup of the cluster that
	// is restored brings back objects with the UIDs they had.
	absentTTL = time.Minute
)

// absentOwners remembers owners that are known not to exist, so that each is looked up once
// for many of its dependents. What it holds is true of one cluster, and for a limited time;
// within these it is shared by an instance and its successors.
type absentOwners struct {
	cache *lru.Cache
	clock clock.PassiveClock
}

func newAbsentOwners(c clock.PassiveClock) absentOwners {
	return absentOwners{lru.New(absentCapacity), c}
}

func (a absentOwners) add(id identity) { a.cache.Add(id, a.clock.Now()) }

// has reports a hit. It keeps the entry from being displaced, but not from growing old.
func (a absentOwners) has(id identity) bool {
	learned, found := a.cache.Get(id)
	return found && a.clock.Since(learned.(time.Time)) < absentTTL
}
