// Package reconcile is the work loop that all controllers share: a queue of keys, a
// number of workers, and one function that brings the object behind a key to its
// desired state.
//
// The model, in rules:
//
//  1. A key is worked on by at most one worker at a time. Adding it while it is being
//     worked on queues it once more; adding it twice before that is adding it once.
//  2. Keys wait in one of two lanes. Fresh holds what just happened, Backlog what was
//     replayed from a cache or resynced. Fresh goes first, but one key in eight comes
//     from the backlog if there is one, so neither lane starves. A key in the backlog
//     that something happens to moves over to fresh.
//  3. A reconcile that fails is repeated after a delay that grows with each failure of
//     that key; one that succeeds resets the delay. A panic is a failure. One outside of
//     a reconcile ends the loop and is raised by Run.
//  4. Keys can be added from the moment the loop exists. No goroutine exists before
//     Run and none after it.
//  5. When the context of Run ends, reconciles in progress are finished under a context
//     that ends only if the instance is fenced; keys still queued are dropped.
package reconcile
