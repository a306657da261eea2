// Package election holds a coordination.k8s.io Lease on behalf of the process, on the wire
// like client-go's leaderelection, so that either kind of candidate can follow the other.
//
//  1. One period of holding the lease is a Term. A Term is valid until RenewDeadline after
//     the start of the last successful renewal, by its own timer: it ends on time even if
//     the elector is stuck or the process was paused. As RenewDeadline is shorter than the
//     lease, no two candidates have a valid Term at once. Time is that of the monotonic
//     clock and, as that stands still while the machine is suspended, of the wall clock,
//     whichever is ahead. The timer follows the monotonic clock alone: after a suspend, the
//     Term ends, and Done is closed, when it is next asked whether it is valid, as before
//     each guarded write and each renewal. A wall clock that is set forward by more than
//     what remains of the Term ends it in the same way; the next one begins with a renewal
//     at once. A machine that does not know how long it was suspended, such as a virtual
//     one whose clock has not been set yet, ends its Term with the first answer to a renewal.
//  2. A Term that ended never becomes valid again. Losing the lease ends the Term and
//     nothing else: the elector becomes a standby and tries again.
//  3. What to do next is decided by a pure function, decide, from what was observed, the
//     time and the timings. Acting on it is elsewhere.
//  4. Expiry is judged by the local time at which the last change of the record was
//     observed, never by timestamps in the record: clocks of machines differ.
//  5. The response of an API server to a request of the elector is true, whatever its resource
//     version; only watch events can be out of date. Versions that go back mean that etcd was
//     restored, since API servers read and write leases in etcd, and not in their caches. A lease
//     that was taken at a version which somebody else had replaced by then, or that does not know a
//     term any more that was seen, means the same, see TakenAnnotation. Then the Term ends with
//     ErrRestored, whatever is recorded, and OnRecede is called. The next leader may lead only with
//     caches of what is stored now, so the owner is expected to end the election by Recede and to
//     make another Elector, with the Caution of this one: a holder that is no longer recorded has
//     the duration of its lease to notice, and watches are not trusted for a while.
//  6. A record that names this process makes it the holder only if this process wrote it.
//     Another record means another process of the same identity, or that later writes are
//     lost: it ends the Term, and the lease is left alone until it expires, like that of
//     any other holder.
//  7. The holder renews with one UPDATE per RetryPeriod and no GET. It reads the lease
//     again only after a conflict or a failure.
//  8. A standby watches the lease and sends nothing else. It takes a released lease
//     immediately and an abandoned one when it expires, plus at most 20ms of jitter. While
//     the watch does not work it reads the lease every RetryPeriod.
//  9. Timings change live. A shorter RenewDeadline shortens the Term immediately; a longer
//     one counts from the renewal that announced the longer lease to the other candidates.
//  10. The lease is released only by Release, or by Yield to keep competing for it, when
//     what it protects has stopped. The end of Run does not release it.
//  11. The process publishes information about itself in annotations of the lease. They are
//     part of every write of the holder, so they are never older than its Term; Publish
//     waits until a change is stored.
//  12. Several candidates for several leases distribute them by Delay: a candidate with
//     more leases waits longer. The lease still decides: Delay can only make a candidate
//     wait.
//  13. With Coordination the API server chooses the holder: the elector then neither
//     creates nor takes a lease, but renews one that names this process. When the API
//     server prefers another candidate, or the lease is gone, the Term ends immediately
//     with ErrNotChosen. The lease expires, or is handed over immediately by a Yield after
//     the controllers have stopped, and the elector stands by for the next choice. As it attempts
//     nothing by itself, it reads the lease when it has heard nothing for a LeaseDuration.
//  14. Release also ends the candidacy before it releases the lease: otherwise the API
//     server would choose the same process again.
//
// To let the API server choose, if gates.Enabled(cfg, gates.CoordinatedLeaderElection):
//
//	Options.Coordinated = &election.Coordination{
//		Client:           set.Kubernetes, // of the identity that holds the lease
//		BinaryVersion:    binary.String(),
//		EmulationVersion: emulated.String(),
//	}
//
// Identity must then differ between the leases of one namespace, too, as it names the
// LeaseCandidate. A change of the gate needs a new Elector.
package election
