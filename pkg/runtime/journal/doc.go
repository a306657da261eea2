// Package journal keeps the last writes of controllers in memory, so that an operator can ask what
// was done to an object, and why.
//
//  1. Every write of a controller is recorded with its outcome, also one that was refused before
//     it was sent. Writes of events, leases, reviews and tokens are not.
//  2. A Record has names, codes and messages only, nothing of what was written.
//  3. Records take at most MaxBytes. They are kept in segments, which are allocated as writes
//     fill them; a new segment replaces the oldest one. A journal without writes takes nothing.
//  4. Writes are also counted, by controller and result; see [Journal.Register]. That costs one
//     addition per write, and a scrape reads the sums.
//  5. Recording costs one encoding under a lock and keeps nothing that the garbage collector has to
//     look at. Nothing is indexed: reading decodes all records.
package journal
