// Package simulation is a small cluster in which a controller is at work while whatever can happen to it does, in
// a random order that a seed determines.
//
//  1. A Step is one thing that happens: an event reaches a cache or a handler, a watch is interrupted and relisted, a
//     key is reconciled, the controller is restarted or handed over, time passes. Caches of different resources are
//     behind independently of each other, and handlers behind their caches.
//  2. While the World is Faulty, requests fail, or are carried out and their answers are lost. If it is Hasty, other
//     things happen while a request is under way; this is not for controllers that send requests concurrently, nor for
//     metadata. If it is Lossy, lists that fill caches lack objects that exist. Faulty and Lossy end with Settle, Hasty
//     with Play.
//  3. What the other components and users do is up to the test, between steps. Kubelet, Backends, Namespaces and
//     CollectGarbage play some of them. What they do with Create, Change and Delete is neither refused nor validated.
//  4. Hooks see the requests of the controller: Refuse before a create, Validate before a change, Deleted after a
//     deletion, Answered after any that was not refused by a fault. Admit completes what anybody creates. They are
//     called once a request has arrived, and must not send any.
//  5. Settle goes on until nothing is left to do, so that the test can see whether the controller rests though it must
//     act.
//  6. ServeMetadata is for controllers of objects of any kind: resources come and go, have several versions, and their
//     informers begin late or with an older state. Contents is for those that list, patch and delete such objects.
//     Encoding has them stored in a version that changes.
//  7. What happened is logged if the test fails. -simulation.first and -simulation.seeds choose the seeds. Requests
//     that a controller sends concurrently are answered in any order, and listers return objects in any order; a seed
//     determines neither. Keys are taken in the order in which they were added, unless their queue has AnyOrder.
//  8. A request that the simulation cannot answer as an API server would fails the test. Simplified are: server-side
//     apply, which has one manager, of whole fields at the top or of the status; lists, which are never in pages; the
//     metadata client, whose lists are empty.
//  9. RunInBubbles has histories of a controller with goroutines and timers of its own (RunFree): nothing happens
//     before they rest, and their time is that of the world, which may be ahead of their timers by one step. A Wall is
//     the clock of a process that users set.
package simulation
