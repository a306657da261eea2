// Package replicas keeps the number of pods of an owner as its spec asks: it creates
// missing pods, deletes surplus ones, adopts and releases, and reports counts in the
// status. It is the engine of controllers whose owners are interchangeable sets of pods;
// what differs between the kinds of owners is in Kind.
//
// The model, in rules:
//
//  1. A reconcile looks only at caches. It starts by checking that they show what was
//     written before (package expectations); until they do, pods are neither created nor
//     deleted.
//  2. The pods of an owner are the active ones that it controls and that match its
//     selector, after adopting and releasing (package ownership). If that is not clear,
//     nothing else happens in this reconcile.
//  3. The difference between these and spec.replicas is made up for, by at most 500 pods
//     in a reconcile: creations in a slow start, deletions all at once, in the order of
//     pods.Preference. An owner that is being deleted gets neither.
//  4. The status counts the pods as they were before rule 3; what rule 3 did shows when
//     the caches do. A failure of rule 3 becomes the condition ReplicaFailure.
//  5. A status is written only if it says something new. Of a burst of new counts only
//     those that someone may wait for are written at once (package coalesce); the own
//     write coming back as an event causes no reconcile, and until it comes back the next
//     one starts from what the write returned.
//  6. Pods that become available by time alone are looked at when they do.
//  7. What was written and may not be visible is handed over to the next instance.
//
// See specs/replicaset-controller.md and specs/replicationcontroller-controller.md.
package replicas
