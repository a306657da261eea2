// Package benchmark compares kcmd with the unmodified kube-controller-manager of the same
// Kubernetes release, on real control planes of package controlplane.
//
//  1. A Scenario is what happens on one control plane, which is started afresh, with an
//     empty etcd, for each subject in each round. The subjects alternate: A B B A A B …,
//     so that a machine that becomes slower or faster favours neither.
//  2. A scenario has phases, each measured by itself: processor time, memory, bytes and
//     time from the kernel, requests from the API server's audit log. All of it covers only
//     the manager, whatever it reports itself, and only the phase: a phase ends when the
//     manager is idle. Time is the time until the work was done. What is alive in the heap
//     is the only figure that the managers report; Go's runtime counts it for both.
//  3. Both run the same controllers, all those that run by default, with the same service
//     accounts, each with its lease, with the flags of a kubeadm cluster. A Mode defines their
//     client limits.
//  4. The state at the end of a phase is described and compared. If it is not the requested
//     state, or differs between the two, the figures are void.
//  5. The benchmark watches with few and small requests; its own processor time is part
//     of each result.
//
// Package report makes tables and plots of the results.
package benchmark
