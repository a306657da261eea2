// Package runtime is the daemon: it makes the process do what its configuration file
// says, and goes on doing so while the file, the lease and the API server change.
//
// The model, in rules:
//
//  1. The daemon is itself a controller. Its desired state is a pure function of its
//     inputs: the configuration, the lease, what the API server serves, and the contents
//     of the files that controllers read. Whenever an input changes, one goroutine
//     computes it again and hands it to the supervisor. There is no other path for cold
//     start, reload, a lease won or lost, or shutdown.
//  2. A reload is a transaction. The new file is parsed, validated and checked, and every
//     new instance is built, before anything that runs is touched. If any of that fails,
//     the old configuration stays in force and the failure is shown in the log, in the
//     metrics, as an event on the lease, and in the status.
//  3. What is shared outlives controllers: informers, connections, discovery, the lease.
//     They make up the connection. It is replaced only when the configuration reaches
//     the API server in another way, and the old one goes when its last user has.
//  4. A process that does not hold the lease keeps the caches that its controllers would
//     use, and runs none of them. Losing the lease fences every instance at once, stops
//     them, and keeps the rest.
//  5. On shutdown, controllers finish the work in flight, then the lease is released, then
//     the rest goes.
package runtime
