// Package owners is shared by controllers whose objects own others, as a ReplicaSet owns pods
// and a Deployment owns ReplicaSets. It maps events to owners, reads an owner once it may be
// acted on, and adopts and releases dependents.
//
// Who controls an object:
//
//  1. An object has at most one controller: the owner reference with controller set to true.
//     Other owner references are ignored here.
//  2. A reference resolves to an owner only if its kind, name and UID are those of an existing
//     owner. The API group of the reference is not compared.
//  3. Claim sorts candidates by one decision per object: claimed (controlled by the owner and
//     matching), adopt (without a controller and matching), release (controlled by the owner,
//     no longer matching) or ignore. An owner that is being deleted neither adopts nor
//     releases; an object that is being deleted is not adopted.
//  4. Before its first adoption a claim reads the owner live, once: an owner that was deleted,
//     recreated or is being deleted must not take objects from the garbage collector.
//  5. Adopting and releasing are strategic merge patches that carry the UID of the
//     object, so they cannot hit a namesake. An object that is gone is no error.
//  6. Every candidate is processed, even if others fail. After an error the owner's dependents
//     are unknown, and the caller must not act on them.
//
// Which owners an event enqueues (Owners, Dependents):
//
//  7. An owner is queued when it is added, changed or deleted, and at each resync. The event of
//     the controller's own status write is skipped if MayIgnoreEcho allows it.
//  8. A dependent that is added, changed or deleted enqueues the owner that controls it. If its
//     controller has changed, the former one is enqueued as well.
//  9. An orphan enqueues every owner whose selector matches it: when it is added, and when its
//     labels or its controller have changed. An orphan that is being deleted enqueues no owner,
//     since none may adopt it. Owners without a Selector never adopt.
//  10. A resync of a dependent enqueues no owner: owners are resynced themselves.
//
// When an owner is reconciled:
//
//  11. With RequireFresh it is skipped while the caches do not show what was written for it
//     (package writes), and reconciled again as reconcile.AwaitCache describes; with FromLastWrite
//     the reconcile starts from what the last write returned. An owner that is gone is forgotten; one that only a list
//     after a break of the watch lacks, after five minutes.
//  12. Settled, which must be called before dependents are listed, reports whether any may be
//     created or deleted.
//
// See docs/specs/workload-common.md, sections 3 and 4, and "Watches" of each controller.
package owners
