// Package takeover keeps a controller from acting on caches that may miss the last writes
// of its predecessor: another process that held the lease before, whose writes may reach
// the watches of this process after the end of its lease.
//
// The model, in rules:
//
//  1. A Ledger records, for each resource, the highest resource version that a write of
//     this process returned. Versions is the same as plain data: how new a cache of each
//     resource must be to contain everything that was written.
//  2. A process that releases a lease leaves the Versions on it, as an annotation. They
//     count only if nobody has held the lease since: the annotation contains the number of
//     transitions of the lease.
//  3. Versions add up. A process that takes over inherits those of its predecessor, so that
//     a third process whose watches are behind both waits for the writes of both. A predecessor
//     of which nothing is known makes the versions of all resources unknown.
//  4. A write whose response has no version (as for some deletions), or that got no
//     response, makes the version of its resource unknown, until a later write of the same
//     resource makes one, or a cache is compared. A write that changes nothing makes none:
//     its response has the version of the object as it was.
//  5. A term of a lease has a Barrier. A cache passes if it was first filled after the term
//     began, since the first read of an informer is consistent; if it is as new as
//     the Versions; or if it contains everything that a consistent read of the same objects
//     returned.
//  6. The consistent read is a streaming list of metadata, once per cache and term, and only
//     where the Versions are unknown or not reached in time: the predecessor died, was an
//     unmodified kube-controller-manager, or etcd was restored. It begins with the term, the
//     largest cache first. Nothing in it relies on resource versions of different resources
//     being comparable.
//  7. Controllers wait without limit for a cache that lacks something, and the status shows
//     what it lacks. A read is repeated periodically, because its result can become
//     outdated as well.
//  8. An instance in the same process leaves what it wrote to the next one in memory. If it
//     cannot, because it panicked or hangs, the next one gets a Barrier made from the
//     content of the Ledger at that moment.
//  9. A Barrier ends with its term, or with the instance it was made for. The comparison of a
//     cache also ends with its informer, which has no user then. The Barrier keeps no cache that
//     it does not compare: informers come and go during a term, and each has a cache of its own.
package takeover
