// Package footprint keeps a process small that has little to do. It belongs to a whole program, not to
// a Runtime, of which tests have several in one process.
//
// The rules:
//
//  1. The garbage collector lets the heap grow to twice what is alive, its default, while it has to run
//     often: each of its cycles takes time. As its cycles become rare, it may take more of them, and the
//     heap may grow less.
//  2. Much of the program is needed only once, to register all kinds of objects, or at the start. When
//     the program has started, and whenever it comes to rest, its pages leave the memory of the process.
//     The kernel keeps them cached as long as there is memory for that, and maps again those that are
//     used.
//  3. Whoever sets GOGC or GOMEMLIMIT has decided about the collector, and rule 1 does not apply.
package footprint
