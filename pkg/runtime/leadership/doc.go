// Package leadership decides what this process may run: which locks it contends for, in which
// terms it holds them, and what may run under each.
//
// The rules:
//
//  1. Which locks there are follows from the configuration (locks.All), in one place,
//     Prepare. Each has an elector and terms of its own: it is won, lost, moved and given back
//     without the others. Without leader election a lock is held from the beginning.
//  2. A change of the configuration keeps each lock whose key stays the same. A lock that is
//     not needed any more is given back when nothing runs under it, and the one that replaces
//     it begins after that.
//  3. The terms of a process are numbered across its locks, and what runs carries the number
//     of its term. A term ends by itself, for everything that has its fence, however busy the
//     loop is.
//  4. Under a lock that is held a controller may run once it is granted: the claim is stored on
//     the lease, then the other leases are read (package claims).
//  5. What begins in a term waits behind one barrier, until caches contain what the predecessor
//     left on the lease (package takeover). A controller that comes to the lock later, from
//     another lease, or that the predecessor did not run, has a barrier of its own: what was
//     written under the other lease is not among it.
//  6. If a process that writes no claims holds the main lease, it runs everything: the terms of
//     all other leases end, see rule 7 of package claims. The migration lease is given back then.
//  7. If groups are to be balanced, a process that holds two leases fewer than another asks for
//     one, with an annotation on it. The holder stops what runs under it and gives it back. A
//     process leaves a free lease to others for longer, the more it holds.
//  8. If a lease shows that etcd was restored, all terms on that connection end at once, and no
//     other begins: what the process has read and written there is of another history. The
//     locks of another connection, which has read everything again, replace them, as careful as
//     these have become.
//  9. Leadership itself starts and stops nothing. It settles after controllers were told what
//     to do, and calls its [Runner] to synchronize when what may run has changed.
//
// The loop owns all of it. Electors and readers of the status see what the loop shares with
// them: the types distinguish the two.
package leadership
