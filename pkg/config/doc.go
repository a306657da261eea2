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
//  3. Input is bounded: 1 MiB, 64 levels, 20,000 values, 10,000 of them through
//     aliases, 1,000 reported problems. Within that, Load never panics, and takes
//     less than a second and 200 MiB.
//  4. What a single field may hold is data (Rules), and so are the feature gates of
//     each version (featuregates.txt). The validator and the JSON Schema are made
//     from the same tables.
//  5. Load looks at nothing but the bytes. CheckFiles looks at the files that a
//     configuration names, and is called where those files are. CheckEdit holds against
//     an edit only what it names anew: a file that has turned bad since it came into
//     force is a warning.
//  6. NewPlan is pure: per controller start, stop, restart or keep with the
//     field paths that cause it, and what changes in place. What is reported
//     by `check-config` is what a reload executes.
//  7. The configuration has every controller of Kubernetes. Built says which of them
//     this build has; enabling another is an error, and what only others read is
//     reported as having no effect.
package config
