// Package config turns the bytes of one file into a configuration, and two
// configurations into a Plan.
//
// The model:
//
//  1. Load is the only way in: guard the bytes, parse, check against the types,
//     decode strictly, default, validate. Either all of it succeeds or nothing
//     is returned; no partly read configuration ever leaves the package.
//  2. Every problem of a file is reported at once, sorted by position, as
//     `file:line:column: field.path: message`; the message says what is allowed
//     and what was probably meant. A part that cannot be decoded is left out, so
//     that the rest can still be checked; a check across fields is skipped when
//     one of its fields could not be decoded.
//  3. Input is bounded: 1 MiB, 64 levels, 10,000 nodes through aliases, 1,000
//     reported problems. Within that, Load never panics.
//  4. What a single field may hold is data (Rules). The validator and the JSON
//     Schema are made from the same table.
//  5. Load looks at nothing but the bytes. CheckFiles looks at the files that a
//     configuration names, and is called where those files are.
//  6. NewPlan is pure: per controller start, stop, restart or keep with the
//     field paths that cause it, and what changes in place. What is reported
//     by `check-config` is what a reload executes.
package config
