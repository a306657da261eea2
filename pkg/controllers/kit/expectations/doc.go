// Package expectations keeps a controller from acting on caches that do not show its own
// last writes yet. A controller that creates three pods and looks at its cache before
// they arrive would create three more.
//
// The model, in rules:
//
//  1. For each owner the tracker remembers what was written for it: the highest resource
//     version per resource, the objects that were deleted, and until when to hold still.
//     Nothing else: no counting of events, no bookkeeping in event handlers.
//  2. Whether the writes have been seen is decided by looking at the informer stores. A
//     created or updated object has been seen when the store is as new as the version
//     that the write returned. A deleted object has been seen when the store does not
//     hold it, holds a namesake, or shows its deletion timestamp.
//  3. So an object that loses its owner reference, an event that is missed and an
//     instance that is replaced cannot leave an expectation behind that never comes true.
//  4. What is remembered belongs to the UID of the owner. A recreated owner starts clean.
//  5. What is not seen is given up 5 minutes after it was written: a cache that lacks it
//     for longer will never show it.
//  6. A store that does not tell its version, or one that cannot be compared, counts as
//     new enough.
//  7. A store that shows a lower version than before belongs to a cluster that was restored
//     from a backup. What was written to that resource is forgotten, for all owners.
//  8. The memory of one instance is handed over to the next as plain data. The runtime does
//     that only between instances that talk to the same API server.
//
// Use Read to get an owner with what was written to it. Check Settled before listing from the cache: an object that lands in between must not
// be counted as missing. Keep one tracker per controller: owners are known by namespace
// and name only. The work queue must not work on one key twice at once.
//
// See specs/workload-common.md, sections 7 and 8.
package expectations
