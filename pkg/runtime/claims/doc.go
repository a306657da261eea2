// Package claims keeps two processes from running the same controller under different
// leases. One lease has one holder; which controllers go with a lease is said in a file, and
// replicas do not read a new file at the same moment. What they do at the same moment is
// write and read leases, so the leases say it too.
//
//  1. A held lease carries a claim: the controllers that its holder runs or may run under
//     it, those included that still drain, and the holder's identity. A claim counts only
//     while the identity in it is that of the holder: a process that knows nothing of
//     claims leaves those of its predecessor as they are.
//  2. Claim, then look. Before the holder of a lease starts a controller, its claim is
//     stored, and then it reads the other leases once. It starts what no other lease with a
//     live foreign holder claims. Of two claimants the one that wrote second reads after the
//     first has written: so at least one sees the other, and at most one starts.
//  3. A claim goes away when the controller has stopped, not before. So whoever no longer
//     sees it may start.
//  4. Permission lasts for one term of the lease. The end of a term ends all that relied on
//     it, by the holder's own clock; a new term begins with a claim, which the write that
//     acquired the lease has stored, and one read.
//  5. A read that began before a claim was changed says nothing about it. What was asked for
//     is asked again.
//  6. A holder is dead when the record of its lease has not changed for the duration recorded
//     in it, counted from when this process first saw it so, or when it has no holder.
//     Timestamps are not looked at: clocks of machines differ.
//  7. The main lease, held by somebody without a claim, is held by a process that knows no
//     claims, and so by one that runs everything. It does not look around, so it need not be
//     there first: whoever sees it ends the terms of all its other leases, and with them what
//     runs there. In the terms that follow, it stands in the way like any claimant. It is seen
//     by those who contend for the main lease, which all do. No other lease without a claim
//     says anything: the migration lease is held by strangers, too.
//  8. Leases of this process never stand in its own way: it has one instance of each
//     controller.
//  9. Two claimants of which neither has started would wait for each other for ever. The one
//     whose lease comes later by namespace and name takes its claim back, and claims again
//     when it sees no other.
//  10. Leases are read when there is something to ask: once per term, once after an edit
//     that brings controllers to the lock, and every second at most while one is blocked.
package claims
