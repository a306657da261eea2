// Package simulation is a small cluster in which a controller is at work while whatever can happen to it does, in
// a random order that a seed determines. A model of a controller says what others do meanwhile, and what must be so at
// all times and in the end. The smallest is
//
//	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
//		w.Start = func(env controller.Env, left any) simulation.Instance {
//			c := must.Get(newController(env, config{}))(t)
//			queue := simulation.NewQueue(w, c.reconcile)
//			c.queue = queue
//			return simulation.Instance{Runners: []simulation.Runner{queue}}
//		}
//		w.Begin()                // the first instance starts, perhaps with faults and restarts to come
//		w.Play(others, users)    // some hundred steps, between which others act, and less often users
//		w.Settle(time.Hour, nil) // nothing fails any more, until nothing is left to do
//		for _, object := range simulation.All[*corev1.ConfigMap](w) {
//			// check it
//		}
//	})
//
// The world (run.go, world.go):
//
//  1. A Step is one thing that happens: an event reaches a cache or a handler, a watch is interrupted and relisted, a
//     key is reconciled, the controller is restarted or handed over, time passes. Caches of different resources are
//     behind independently of each other, and handlers behind their caches.
//  2. Settle goes on until nothing is left to do, so that the test can see whether the controller rests though it must
//     act.
//  3. What happened is logged if the test fails. -simulation.first and -simulation.seeds choose the seeds. Requests
//     that a controller sends concurrently are answered in any order, and listers return objects in any order; a seed
//     determines neither.
//
// The controller (queue.go, start.go):
//
//  4. Start makes an Instance with the queues of a controller, whose work is done in steps. Keys are taken in the order
//     in which they were added, unless their queue has AnyOrder. NewPasses is the queue of a controller that makes
//     passes, StartOwners the start of one that has a queue of owners only.
//
// Trouble (faults.go, late.go, lossy.go):
//
//  5. While the World is Faulty, requests fail, or are carried out and their answers are lost. Writes that MayComeLate
//     are carried out after their senders have gone on, or were replaced, the last of them during Settle. If it is
//     Hasty, other things happen while a request is under way; this is not for controllers that send requests
//     concurrently, nor for metadata. If it is Lossy, lists that fill caches lack objects that exist. Faulty and Lossy
//     end with Settle, Hasty with Play.
//
// The API server (server.go, write.go, patch.go, delete.go):
//
//  6. Hooks see the requests of the controller: Refuse before a create, Validate before a change, Deleted after a
//     deletion, Answered after any that was not refused by a fault. Admit completes what anybody creates. They are
//     called once a request has arrived, and must not send any.
//  7. A request that the simulation cannot answer as an API server would fails the test. Simplified are: server-side
//     apply, which is forced and has one manager, of whole fields at the top or of the status; lists, which are never
//     in pages; the metadata client, whose lists are empty.
//
// The caches (scopes.go, informer.go, registration.go):
//
//  8. Informers that the controller requests show what is stored, each with a delay of its own. They are filled at once,
//     except for those of AnyFor, and those of typed objects if the World is Late. Stall has one show nothing for long.
//
// The others (objects.go and a file for each):
//
//  9. What the other components and users do is up to the test, between steps: with Create, Change and Delete, which are
//     neither refused nor validated. Kubelet, Backends, TamperWithSlices, Namespaces, CollectGarbage and Release play
//     some of them.
//
// Objects of any kind (metadata.go, contents.go):
//
//  10. ServeMetadata is for controllers of objects of any kind: resources come and go, have several versions, and their
//     informers begin late or with an older state. Contents is for those that list, patch and delete such
//     objects. Encoding has them stored in a version that changes.
//
// Controllers that run by themselves (bubble.go, wall.go):
//
//  11. RunInBubbles has histories of a controller with goroutines and timers of its own (RunFree): nothing happens
//     before they rest, and their time is that of the world, which may be ahead of their timers by one step. A Wall is
//     the clock of a process that users set. The package clouds has the cloud of such controllers.
package simulation
