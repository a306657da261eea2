// Package footprint keeps a process small that has little to do. It belongs to a whole program, not to
// a Runtime, of which tests have several in one process.
//
// The rules:
//
//  1. Before the garbage collector runs, the heap may grow to twice what is alive, its default, or by
//     24 MiB, if that is more: each of its cycles takes time, and with a small heap they would follow
//     each other closely as soon as there is work, which is seen by how much is allocated. When the work
//     lasts, it may be 48 MiB.
//     At rest nothing waits for a cycle, so that garbage is collected when it reaches a share of what is
//     alive, less the rarer that is. What the work has left is freed, at most once in a minute.
//  2. Much of the program is needed only once, to register all kinds of objects, or at the start. When
//     the process begins, and whenever what the work has left is freed, the pages of the program leave
//     its memory. The kernel keeps them cached as long as there is memory for that, and maps again those
//     that are used.
//  3. If GOGC or GOMEMLIMIT is set, the operator has decided about the collector: the first rule does not apply.
package footprint
