// Package footprint keeps a process small that has little to do. It belongs to a whole program, not to
// a Runtime, of which tests have several in one process.
//
// The rules:
//
//  1. While the process works, which is seen by how much it allocates, the garbage collector lets the
//     heap grow to twice what is alive, its default: each of its cycles takes time. When the work lasts,
//     the heap may also grow by 48 MiB, if that is more. At rest it may grow less, as long as cycles
//     stay rare, and what the work has left is freed, at most once in a minute.
//  2. Much of the program is needed only once, to register all kinds of objects, or at the start. When
//     the process begins, and whenever what the work has left is freed, the pages of the program leave
//     its memory. The kernel keeps them cached as long as there is memory for that, and maps again those
//     that are used.
//  3. Whoever sets GOGC or GOMEMLIMIT has decided about the collector: the first rule does not apply.
package footprint
