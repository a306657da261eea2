// Package pods holds what controllers that own pods share: making pods from a template,
// deleting them, and judging the ones that exist.
//
// The model, in rules:
//
//  1. A pod made from a template has the labels, annotations, finalizers and spec of the
//     template, one owner reference, and a generated name that begins with the name of
//     its owner. Nothing else of the template's metadata is taken over.
//  2. Creating and deleting tell the owner's events what happened. Nothing is told about
//     a failure that is not the pod's: a namespace that is going away, a pod that is gone
//     already, a call that was cut off because the instance ends.
//  3. A pod is active (it counts), terminal (it has finished) or terminating (it is being
//     deleted and has not finished). Ready and available say how far an active pod is.
//  4. Tracked creates and deletes many pods at once, and has a tracker (package
//     expectations) remember them until the caches show it.
//  5. Of pods to be deleted, those whose loss costs least go first. Prefer is that order.
//
// See specs/workload-common.md, sections 5, 6, 9 and 10.
package pods
