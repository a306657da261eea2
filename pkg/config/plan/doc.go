// Package plan computes what an edit of the configuration does to a running process.
//
// The model, in rules:
//
//  1. What each part of the process depends on is a value: a pure function of the whole
//     configuration. There is one such function per part, here, and the daemon acts on these
//     values alone: SpecOf for a controller, locks.KeyOf for a lock, SourceOf for the
//     connection, and the list in process.go for what changes in place.
//  2. A Plan is the difference of these values between two configurations. A controller
//     whose Spec changed is restarted, a lock whose key changed is given back and contended
//     for again, a connection whose Source changed is replaced. There is no other decision
//     about what an edit restarts.
//  3. What a controller runs with besides (the contents of files, the generation of the
//     connection, the leadership term, what the API server serves) does not come from the
//     configuration. The daemon adds it, and explains by it what differs from the Plan.
//  4. A changed field is a cause of what happens to a part when that field alone decides:
//     applying only it to the old configuration makes of the part what the new one makes of
//     it, or withholding only it from the new one changes the part. If no field decides
//     alone, the causes are a smallest set of fields that decide together. What would have
//     changed the part otherwise, but for another field, is no cause: with leader election
//     turned off, nothing restarts because of its groups.
//  5. A changed field has no effect if it is no cause and withholding it from the new
//     configuration changes no part. A field that only keeps a part as it is, against
//     another change, has an effect.
//  6. What other fields make useless (UnreadIn) has its default value in what the parts
//     read (Effective). Validation warns of the same list, so that a warning and a Plan
//     cannot contradict each other.
package plan
