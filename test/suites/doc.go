// Package suites runs upstream's own suites, unmodified, against the manager.
//
// The integration suites:
//
//  1. Each of these tests starts an API server and one of upstream's controllers in its own process. The suites are compiled
//     from Kubernetes' module, in which the packages in testdata have taken the place of those of the controllers: their
//     constructors have upstream's names, and their Run starts the manager with that controller alone (package launch).
//  2. The manager runs in a process of its own. It gets the client's server and credentials, and the feature gates of the
//     test, as edits of its file when the test changes them.
//  3. What reaches into a controller cannot pass: a test that shortens a backoff, looks into a queue or reads metrics in its
//     own process, or that pretends to be an older release. Such tests are left out by name, each with its reason.
//
// The end-to-end suite:
//
//  4. It is one program, and knows nothing of what runs the cluster. The cluster is the sandbox: its nodes and pods are
//     simulated. A spec that needs a container that runs, a network or the endpoint of a kubelet cannot pass, whichever
//     manager there is. specs.txt has those that can, and that depend on a controller.
//  5. A simulated pod of a Job ends as its command says (stages).
//  6. Each spec runs in a process of its own, several at the same time, and after them one by one those that are marked
//     [Serial] or [Disruptive].
//
// `make suites` and `make endtoend` run them. docs/proof.md has the lists.
package suites
