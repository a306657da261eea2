// Package pods holds what controllers that own pods share: creating pods from a template,
// deleting them, and evaluating their state.
//
// The model, in rules:
//
//  1. A pod made from a template has the labels, annotations, finalizers and spec of the
//     template, one owner reference, and a generated name that begins with the name of its
//     owner. No other metadata of the template is copied.
//  2. Creations and deletions are recorded as events of the owner. There is no event for a
//     namespace that is being deleted, a pod that no longer exists or whose name another one
//     has, or a request that was cancelled because the instance ends.
//  3. A pod is active (it counts), terminal (it has finished) or terminating (it is being
//     deleted and has not finished). Ready and available are states of an active pod.
//  4. Tracked creates and deletes many pods at once, and remembers these writes until the
//     caches show them (package writes).
//  5. Surplus pods are deleted in the order of Preference, which puts the least costly loss
//     first.
//
// See docs/specs/workload-common.md, sections 5, 6, 9 and 10.
package pods
