// Package controller defines what a controller is, and what it gets to work with.
//
// The model, in rules:
//
//  1. A controller is described by a static Descriptor and built by its New from an
//     Env and a value. The value is the small comparable part of the configuration
//     that the controller's behaviour depends on; it is all of the configuration the
//     controller can see. The runtime restarts a controller if and only if its value
//     (or the content of a file the value names) changed. Files that a value follows
//     restart nothing, see FileFollower.
//  2. New has no side effects outside the Env: it may request informers, add event handlers
//     and read files. It makes no API request and starts no goroutine. The runtime may build
//     an instance and discard it, and it builds one while its predecessor is still at work.
//     New may return nil and no error: with this value there is nothing to run, and the
//     controller is idle until the value changes. A handler or an index that was refused
//     fails New without being checked for, see Scope.Err.
//  3. Run blocks until its context ends and every goroutine it started has returned. It starts
//     them through pkg/controller/concurrent, so that the runtime recovers every panic. When
//     the context ends, keys in flight are finished and no new key is taken. Returning earlier,
//     with or without an error, is a crash: the runtime restarts the controller with backoff.
//  4. The end of the context asks an instance to stop; Env.Fenced tells it that it
//     has lost the right to act. Between the two an instance finishes what it began.
//     After Fenced, its clients refuse every write.
//  5. Everything an instance holds hangs off its Env: handlers (Env.Informers), metric
//     series (Env.Metrics), events (Env.Events). The runtime releases all of it after
//     Run returned, so a controller has nothing to clean up but its own goroutines.
//  6. A controller knows no other controller, no lease, no file, no process.
package controller
