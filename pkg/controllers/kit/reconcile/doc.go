// Package reconcile is the work loop that all controllers share: a queue of keys, a number of
// workers, and a function that reconciles the object of a key.
//
// The model, in rules:
//
//  1. A key is processed by at most one worker at a time. If it is added while being processed,
//     it is processed once more; adding a waiting key again has no effect.
//  2. Keys wait in one of two lanes: Fresh for recent changes, Backlog for objects that were
//     replayed from a cache or resynced. Fresh goes first, but one key in eight comes from the
//     backlog if there is one, so neither lane starves. A key in the backlog whose object
//     changes moves to fresh.
//  3. A failed reconcile is retried after a delay that grows with each failure of the key; a
//     success resets the delay. So does an event that says that the object of the key was deleted, or that another one
//     of its name was added, see Lane.Because. If many keys fail they are delayed together too, by 30 s at the most. A
//     panic is a failure. A panic outside of a reconcile ends the loop and is re-raised by Run. A key that waits for a
//     cache has delays of its own, see AwaitCache: it must not miss what nobody watches.
//  4. Keys can be added as soon as the loop is constructed. It has no goroutine before Run is
//     called or after it returns.
//  5. When the context of Run ends, reconciles in progress continue under a context that ends
//     only if the instance is fenced; queued keys are dropped.
//  6. While the controller is paused in a namespace, the keys of that namespace are held back
//     before they are reconciled. A reconcile that fails because it writes into a paused
//     namespace is retried with the delay of a failure, but is none. When the pause ends, all
//     these keys are enqueued in the backlog at once.
//  7. A reconcile that fails only because the deletion breaker is open is not counted as failed. Its
//     key waits until objects of that kind may be deleted, without retries if nothing else failed.
//  8. A controller that runs more than one loop, or must do something before the first key,
//     implements its Run with the function Run.
//  9. The loop remembers why each key that it holds was queued, the newest reason counting: what
//     happened to which object, as the lane says, a timer, or a retry. The context of a reconcile
//     describes the key and the reason, see controller.WorkOf; Loop.Keys tells where keys are.
//     Memory is proportional to the number of keys, and descriptions are formatted only on request.
package reconcile
