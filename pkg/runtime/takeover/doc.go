// Package takeover keeps a controller from acting on caches that may miss the last writes of
// its predecessor: another process that held the lease before, whose writes may reach the
// watches of this process later than the end of its lease does.
//
// The model, in rules:
//
//  1. A Ledger records, for each resource, the highest resource version that a write of this
//     process was answered with. Versions is the same as plain data: how new a cache of each
//     resource has to be to contain everything that was written.
//  2. A process that gives a lease back leaves the Versions on it, as an annotation. They
//     count only if nobody held the lease since: the annotation names the number of
//     transitions of the lease.
//  3. Versions add up. Who takes over inherits those of its predecessor, so that a third
//     process whose watches are behind both waits for the writes of both.
//  4. A write whose answer carries no version (a deletion can be answered so), or that was
//     not answered, makes the version of its resource unknown, until a later write of the
//     same resource returns one.
//  5. A term of a lease begins with a Barrier. It lets a cache pass that was first filled
//     after the term began, since the first read of an informer is consistent; that is as
//     new as the Versions say; or that shows everything a consistent read of the same
//     objects has shown.
//  6. The consistent read is a streaming list of metadata, once per cache and term, and only
//     where the Versions are unknown or not reached in time: the predecessor died, was an
//     unmodified kube-controller-manager, or etcd was restored. Nothing in it relies on
//     resource versions of different resources being comparable.
//  7. A cache that lacks something is waited for without limit, and what it lacks is shown.
//     A read is repeated from time to time, for what was read can be outdated as well.
//  8. An instance in the same process leaves what it wrote to the next one in memory. If it
//     cannot, because it panicked or hangs, the next one has a Barrier made of what the Ledger
//     says at that moment.
//  9. A Barrier ends with its term, or with the instance it was made for.
package takeover
