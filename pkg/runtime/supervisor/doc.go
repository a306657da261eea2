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
//     and has no effect on what runs: it can be discarded, for instance because an instance
//     cannot be built. Commit cannot fail: a controller that could not be built is tried
//     again with backoff, and the others are not affected.
//  4. Each controller has a goroutine of its own that stops and starts its instances.
//     However long one takes to drain, the others do not wait for it.
//  5. An instance that returns early, panics, or works on one key for too long is replaced
//     after a backoff. One that does not stop within the drain timeout is fenced, so that
//     it can do no harm, reported, and abandoned. The process keeps running: ending it
//     would be right only if the instance could still write.
//  6. Every call to a controller is guarded: a panic in it, or a mutex that it left locked,
//     fails the controller, but neither ends the process nor delays the other controllers or
//     the shutdown. If it hands nothing over for that reason, its successor starts with
//     nothing.
//  7. What an instance hands over is for an instance that talks to the same API server, and
//     is kept for five minutes, regardless of what the controller does meanwhile. A standby
//     does not keep it for longer, and a controller that was disabled does not get it.
//  8. A paused controller is kept like one on standby, whether or not its lock is held: it has
//     no instance, and its caches are kept warm.
//  9. If controllers are to be started one after another, each waits for its own delay
//     before its first instance of a term starts. Any newer command ends the wait.
package supervisor
