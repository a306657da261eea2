package garbagecollector

import "k8s.io/utils/lru"

// absentCapacity is the number of absent owners that are remembered.
const absentCapacity = 500

// absentOwners remembers owners that are known not to exist, so that each is looked up once
// for all of its dependents. Since a UID is never used again, what it holds stays true; it
// is shared by an instance and its successors.
type absentOwners struct{ cache *lru.Cache }

func newAbsentOwners() absentOwners { return absentOwners{lru.New(absentCapacity)} }

func (a absentOwners) add(id identity) { a.cache.Add(id, nil) }

// has reports a hit, which keeps the entry for longer.
func (a absentOwners) has(id identity) bool {
	_, found := a.cache.Get(id)
	return found
}
