// Package supervisor keeps the running controllers equal to the desired ones.
//
// The model, in rules:
//
//  1. Desired is a value: for each controller, whether it should run and the Spec of
//     the instance that should. There is one verb, Synchronize, for cold start, reload,
//     a lease won or lost, an API that appears, a file that changed, and shutdown.
//  2. A controller whose Spec did not change keeps its instance. Any other change
//     replaces the instance: the new one is built, the old one stopped, and only when
//     the old one's Run has returned does the new one's begin.
//  3. Synchronize has two phases, and a transaction uses them one by one. Prepare builds
//     and has no effect on what runs: it can be discarded, for instance because an
//     instance cannot be built. Commit cannot fail: a controller that could not be built
//     is tried again with backoff, and the others go on.
//  4. Each controller has a goroutine of its own that stops and starts its instances.
//     However long one takes to drain, the others do not wait for it.
//  5. An instance that returns early, panics, or works on one key for too long is
//     replaced after a backoff. One that does not stop within the drain timeout is
//     fenced, so that it can do no harm, reported, and left behind. The process goes on:
//     ending it would only be right if the instance could still write.
//  6. Whatever calls a controller is guarded: a panic in it, or a lock it left held, fails
//     the controller and neither ends the process nor holds up the others or the end. What
//     it does not hand over, for that reason, its successor does without.
//  7. What an instance hands over is for an instance that talks to the same API server,
//     and is kept for five minutes, whatever the controller does meanwhile. Nothing that
//     stands by keeps it for longer, and none that was disabled gets it.
//  8. If controllers are to be started one after another, each waits for a time of its
//     own before its first instance of a term starts. Any newer command ends the wait.
package supervisor
