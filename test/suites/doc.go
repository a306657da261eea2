// Package suites runs upstream's integration suites, unmodified, against the manager.
//
//  1. Each of these tests starts an API server and one of upstream's controllers in its own process. The suites are compiled
//     from Kubernetes' module, in which the packages in testdata have taken the place of those of the controllers: their
//     constructors have upstream's names, and their Run starts the manager with that controller alone (package launch).
//  2. The manager runs in a process of its own. It gets the client's server and credentials, and the feature gates of the
//     test, as edits of its file when the test changes them.
//  3. What reaches into a controller cannot pass: a test that shortens a backoff, looks into a queue or reads metrics in its
//     own process, or that pretends to be an older release. Such tests are left out by name, each with its reason.
//
// `make suites` runs all, which takes more than an hour. docs/proof.md has the list.
package suites
