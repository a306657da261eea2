// Package faults runs controllers under every fault that it can inject, and compares what comes of it with a
// run without one.
//
//  1. A Scenario is a script of what users do, in a namespace of its own, with the controllers that react.
//     Objects without a namespace belong to the run in which they were created. Scenarios about nodes and volumes
//     take place in a cluster without nodes and scheduler, and play other programs themselves: kubelets, an
//     attacher. Scenarios about what happens minutes or days later put the clock of the controllers forward. Those
//     about a cloud have one in memory, and what is in it counts. The reference run has no fault. It tells which
//     writes the controllers send and in which order, which kinds they read, and how everything ends.
//  2. From that, the faults follow (patterns.go), as in "Automatic Reliability Testing For Cluster Management
//     Controllers" (Sieve, OSDI 2022). Intermediate states: the process ends right before, or right
//     after, each write. Stale states: a cache shows the past, of each kind, at each step, also across a restart
//     and a takeover. Unobserved states: a cache never shows what was between two moments. And refusals: each
//     write is refused once, in every way in which the API server refuses.
//  3. Every fault ends. Then the final state has to be that of the reference, and stay so (verdict.go): nothing
//     was deleted that the reference keeps, nothing created beyond it, at no time more existed than the
//     scenario allows, and no more than three times its writes were sent. Nor may anything be left behind
//     (oracle_leaks.go): handlers and instances beyond those of the reference while a manager leads, goroutines
//     and metrics when all have ended, a panic in a log.
//  4. A run is named by its scenario and its fault: the pattern and, for one at a write, how many writes of that
//     verb to that resource came before it. So a name tells the same in every run, whatever the order in which
//     writes to different resources come. What depends on chance or on the time of day is removed from states
//     before they are compared (state.go).
//
// The same scenarios, and more that say little about faults (comparisons.go), are played beside upstream (dropin.go): with
// the unmodified kube-controller-manager of the release, with ours, and with both in turns, where one takes over from the
// other before each step. What comes of it has to be the same, events, series of metrics and the numbers of objects that
// came and went included, and a takeover alone may change nothing.
// A difference that a rule of the specifications explains is written down with the scenario, with that rule. Scenarios
// with a clock or a cloud of their own are left out: upstream's manager has neither.
//
// How to run it, with a control plane of its own:
//
//	go test ./test/faults                        the scenarios, and the sample of faults in sample.go
//	make faults                                  all faults, which takes hours
//	make faults SCENARIO=statefulset FAULTS=50   50 faults of one scenario, drawn by chance
//	make faults SCENARIO=statefulset/killed-after/create-pods-2   one of them
//	make faults SCENARIO='(job|cronjob)$'        those of some scenarios; several may run side by side
//	make faults RACE=-race                       under the race detector
//	make dropin SCENARIO='(job|cronjob)$'        some scenarios beside upstream, all by default
//
// make faults adds what came of them to results/results.json, and make generate puts that into docs/proof.md.
//
// "Kill" breaks the connections of a manager at the proxy, and leaves it alone with that: to the API server, and
// so to the next manager, this is the same as kill -9.
package faults
