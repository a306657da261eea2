// Package claims keeps two processes from running the same controller under different
// leases. One lease has one holder, but the file assigns controllers to leases, and
// replicas do not read a new file at the same moment. They do share the leases, so the
// leases record the assignment too.
//
//  1. A held lease carries a claim: the controllers that its holder runs or may run under
//     it, including those that are still draining, and the holder's identity. A claim
//     counts only while the identity in it is that of the holder: a process that does not
//     support claims leaves those of its predecessor unchanged.
//  2. Claim, then read. Before the holder of a lease starts a controller, its claim is
//     stored, and then it reads the other leases once. It starts what no other lease with a
//     live foreign holder claims. What it reads is not older than its claim. Of two
//     claimants, the second to write reads what the first has written: so at least one sees
//     the other, and at most one starts.
//  3. A claim is removed when the controller has stopped, not before. So a process that no
//     longer sees it may start the controller. A lease that is given back lists, for its next
//     holder, what was run under it: that is no claim.
//  4. Permission lasts for one term of the lease. The end of a term, by the holder's own
//     clock, ends everything that relied on it; a new term begins with a claim, which the
//     write that acquired the lease has stored, and one read.
//  5. A read that began before a claim was changed does not reflect the change. It is
//     repeated.
//  6. A holder is dead when the record of its lease has not changed for the duration
//     recorded in it, an hour at most, counted from when this process first saw it so, or
//     when it has no holder. Timestamps are ignored, because the clocks of machines differ. The
//     holder of a lease that was deleted is not dead for that reason: it makes the lease again,
//     with the next renewal, and goes on.
//  7. A holder of the main lease without a claim is a process that does not support claims,
//     and so runs every controller. It checks no claims, so it need not be there first: a
//     process that sees it ends the terms of all its other leases, and stops what runs under
//     them. In the terms that follow, it blocks controllers like any claimant. It is seen by
//     every process that competes for the main lease, which all do. Any other lease without a
//     claim means nothing: the migration lease is held by other components, too.
//  8. Leases of this process never block its own controllers: it has one instance of each
//     controller.
//  9. Two claimants that have both not started would wait for each other forever. The one
//     whose lease comes later by namespace and name withdraws its claim, and claims again
//     when it sees no other.
//  10. Leases are read only when needed: once per term, once after an edit that assigns
//     controllers to the lock, and at most every second while one is blocked. Besides, the
//     holder of a lease outside kube-system looks for the entry of rule 11 every minute.
//  11. Those who work in a namespace may write leases there, and must not decide what runs.
//     So leases count in kube-system, and in the namespaces that are named there: a process
//     with its leases in another namespace makes an entry for that, a marked lease that
//     nobody holds, before it reads, and again if it is deleted. What it reads is not older
//     than its entry either. So rule 2 holds across namespaces: of two processes, the one that
//     reads later finds the entry and the claim of the other. While one of the namespaces
//     cannot be read, nothing else is permitted.
package claims
