// Package runtime is the daemon: it makes the process do what its configuration file
// specifies, and keeps doing so while the file, the lease and the API server change.
//
// The model, in rules:
//
//  1. The daemon is itself a controller. Its desired state is a pure function of its inputs:
//     the configuration, the locks it holds, what the API server serves, and the contents of
//     the files that controllers read. Whenever an input changes, one goroutine computes it
//     again and hands it to the supervisor. There is no other path for cold start, reload, a
//     lease won or lost, or shutdown. Other goroutines hand their results to that one
//     (package loop): the types distinguish what belongs to it from what others may read.
//  2. A reload is a transaction in two phases. The new file is parsed, validated and checked;
//     then every part of the process prepares its share of the change, which has no effect and
//     may fail: a socket is bound, a connection is proved, new instances are built. If all of
//     it succeeds everything is committed, which cannot fail. Otherwise what was prepared is
//     discarded, the old configuration stays in force, untouched at every moment, and the
//     failure is shown in the log, in the metrics, as an event on the lease, and in the status.
//     The start is the same transaction with nothing in force before, but it proves nothing and
//     waits. On request, what comes into force is kept (package lastgood), and a process that
//     cannot start with its file starts with that.
//  3. What is shared outlives controllers: clients, informers, discovery, events. They make up
//     the connection (package connection). It is replaced only when the configuration, or the
//     kubeconfig, leads to another API server or user, and when etcd was restored (see
//     restores), and the old one is closed after its last user. Renewed credentials are used
//     within the connection (see rotation).
//  4. Each controller runs under one lock: the main one, that of its lease group, or the
//     migration lock (locks.Of). What may run under which lock is decided by package
//     leadership: a controller starts when its lock is held and no other process claims it
//     (package claims), and begins to work when its caches contain what its predecessor wrote
//     (package takeover). Losing a lock fences what runs under it at once, stops it, and keeps
//     the rest.
//  5. A process that does not hold a lock keeps the caches that the controllers under it
//     would use, also as kinds come and go, unless it is to stand by cold.
//  6. A lock that is no longer needed is given back when nothing runs under it. The same
//     happens on shutdown: controllers finish the work in flight, each lock is released when
//     the controllers under it have stopped, then the rest ends.
//
// Begin with runtime.go, the loop; then desired.go, what should run; transaction.go, how it
// changes; reload.go, what a change of the file does. Each package below it has its rules in its
// documentation, pkg/runtime/supervisor and pkg/runtime/leadership first.
package runtime
