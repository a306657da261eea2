// Package instance builds controllers from what is in force, for the supervisor.
//
// The rules:
//
//  1. Building sends nothing, starts nothing and fails like any other error if it panics.
//     Close releases what an instance holds: a scope on the informers, a use of the
//     connection, and its metrics.
//  2. The clients of an instance are fenced twice: by the term of the lock it runs in, and by a
//     fence of its own, which closes when the instance is closed or abandoned. Its events are
//     fenced by the terms of its controller, which outlive it.
//  3. An instance works when its caches contain what its predecessor wrote: in another process,
//     by the barrier of the term; and in this one, if the last instance on the same connection
//     handed nothing over.
//  4. While a change is being prepared, new instances are built from an [Offer], which is not
//     yet in force.
//  5. A standby is built like what runs, on a scope that calls no handlers.
package instance
