// Package config turns the bytes of one file into a configuration.
//
// The model:
//
//  1. Load is the only way in: parse, decode strictly, default, validate. Either all of it
//     succeeds or nothing is returned; no partly read configuration ever leaves the package.
//  2. Every problem of a file is reported at once, sorted by position, as
//     `file:line:column: field.path: message`; the message states what is allowed and
//     suggests what was probably meant. A part that cannot be decoded is left out, so that
//     the rest can still be checked; a check across fields is skipped when one of its fields
//     could not be decoded.
//  3. Input is bounded: 1 MiB, 64 levels, 20,000 values, 10,000 of them through
//     aliases, 1,000 reported errors and as many warnings. Within that, Load never
//     panics, and takes less than a second and 200 MiB.
//  4. What a single field may hold is data (package rules), and so are the feature gates of
//     each version (package gates). The validator and the JSON Schema are generated from the
//     same tables.
//  5. Load reads nothing but the bytes. CheckFiles reads the files that a configuration
//     names, and is called where those files are. CheckEdit rejects an edit only for files
//     that it newly names: a file that has turned bad since it came into force is a warning.
//     The clock of a machine that has just booted may be wrong: CheckStart only warns of what
//     depends on the time.
//  6. What an edit does to a running process is decided by package plan, whose list of fields
//     that nothing reads is also what Load warns of.
//  7. The configuration has every controller of Kubernetes. Package registry lists them.
//
// This package is the sequence of steps; each step is a package of its own, and imports point
// down:
//
//	config       Load, Document; files of upstream's version (package upstream/conversion)
//	  validation   the rules of single fields and those across fields
//	  named        the files that a configuration names
//	  decode       a tree compared with Go types, strictly
//	  rules        what a single field may hold, as data
//	  registry     the controllers of Kubernetes
//	  tree         YAML or JSON within limits, with positions
//	  problem      problems, their positions, suggestions
//	  v1beta1      the types and their defaults
package config
