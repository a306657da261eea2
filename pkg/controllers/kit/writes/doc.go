// Package writes remembers the writes of a controller until the caches show them.
//
// A controller that creates three pods and reads its cache before they arrive would create
// three more. If it bases a write on a cache that lacks its last write, it gets a conflict. A
// reconcile caused by its own write finds nothing to do.
//
// The model, in rules:
//
//  1. There is one record for each owner: the highest resource version written per resource,
//     the objects that were deleted, until when the owner is on hold, until when nothing is
//     created for it, the objects that writes returned, and the last write of the status. Each
//     controller uses the parts it needs.
//     Events are not counted, and event handlers keep no records.
//  2. Whether the caches show the writes is read from the informer stores. A create or update
//     is visible when the store is as new as the version that the write returned; a deletion
//     when the store does not contain the object, contains a namesake, or shows its deletion
//     timestamp. So an object that loses its owner reference, a missed event or a replaced
//     instance never leaves an expectation that cannot be met.
//  3. A record belongs to the UID of the owner. A recreated owner starts without one.
//  4. Settled gives up a write that is not visible after 5 minutes. Fresh does not: a store that says
//     that it is older is one whose watch is behind or fails, and it does not show what was created
//     either. Records of owners that are not looked up any more are dropped some time later, when
//     others are added.
//  5. A store that does not report its version, or one that cannot be compared, counts as
//     new enough. Versions of different resources are never compared.
//  6. A store that shows a lower version than before belongs to a cluster that was restored
//     from a backup. The writes to that resource are then forgotten, for all owners. The
//     objects of one owner are forgotten when the API server answers that they are outdated.
//  7. A controller that must not act twice waits: it uses Read to get an owner with everything
//     written to it, and checks Settled before it lists dependents from a cache, since an object
//     that arrives in between must not count as missing. After a create without an answer it calls
//     MayCreate before the next one, and does everything else. If the name of the object is known,
//     the create may be repeated; before it creates a different object, it reads the one that
//     Attempted names from the API server, and calls CreateCertain. A controller that continues from the state its last
//     write returned, instead of waiting, uses Objects.
//  8. A burst of observations causes few status writes. The first write of an owner is made at
//     once; one within a window after it is delayed, unless somebody may be waiting for it.
//     StatusDelay returns the delay, after which the caller enqueues the owner again, so the
//     last observation is never lost. Counts of pods have longer windows, which also begin when
//     their owner creates or deletes some, and end early when the counts come to a stop, see
//     CountsDelay.
//  9. The watch event of a status write is recognized for 10 seconds, which saves a reconcile
//     that finds nothing to do. Missing an echo costs no more than that. An object that shows
//     the version again much later was restored from a backup, and is reconciled.
//  10. The memory of an instance is handed over to the next as plain data. The runtime does so
//     only between instances that use the same API server.
//
// Keep one Memory per controller: owners are known by namespace and name. A key must not be
// processed by two workers at once.
//
// See docs/specs/workload-common.md, sections 7 and 8.
package writes
