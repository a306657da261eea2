// Package replicas maintains the number of pods in the spec of an owner: it creates missing
// pods, deletes surplus ones, adopts and releases, and reports counts in the status. It is the
// engine of the controllers whose pods are interchangeable; Kind holds what differs between
// their kinds.
//
// The model, in rules:
//
//  1. A reconcile reads only caches. It first checks that they show all earlier writes (package
//     writes); until they do, pods are neither created nor deleted.
//  2. The pods of an owner are the active ones that it controls and that match its selector,
//     after adopting and releasing (package owners). If that fails, nothing else happens in
//     this reconcile.
//  3. If their number differs from spec.replicas, at most 500 pods are created, in a slow
//     start, or deleted, all at once and in the order of pods.Preference. Neither happens if
//     the owner is being deleted.
//  4. The status counts the pods as observed before rule 3; its effects are counted once the
//     caches show them. A failure of rule 3 is reported in the condition ReplicaFailure.
//  5. A status is written only if it has changed. In a burst of new counts, and after pods were
//     created or deleted, only those that somebody may be waiting for are written at once
//     (package writes). The event of the controller's own write causes no reconcile, and until
//     it arrives the next reconcile starts from the object as it was stored.
//  6. The owner is reconciled again when a pod becomes available by time alone.
//  7. Writes that the caches may not show yet are handed over to the next instance.
//
// See docs/specs/replicaset-controller.md and docs/specs/replicationcontroller-controller.md.
package replicas
