// Package benchmark compares our kube-controller-manager with the unmodified one of the
// Kubernetes release, on real control planes of package controlplane.
//
//  1. A Scenario is what happens on one control plane, which is started afresh, with an
//     empty etcd, for each subject in each round. The subjects alternate: A B B A A B …,
//     so that a machine that becomes slower or faster favours neither.
//  2. A scenario has phases, each measured by itself: processor time, memory, bytes and
//     time from the kernel, requests from the API server's audit log. All of it is that
//     of the manager alone, no matter what it says of itself, and of the phase alone: a
//     phase ends when the manager has become quiet. Time is that until the work was done.
//  3. Both run the same controllers, those that we have, as the same service accounts,
//     each with its lease, with the flags of a kubeadm cluster. A Mode says which client
//     limits they have.
//  4. What is left at the end of a phase is described and compared. If it is not what
//     was asked for, or not the same for both, the figures are void.
//  5. The benchmark watches with few and small requests; its own processor time is part
//     of each result.
//
// Package report makes tables and plots of the results.
package benchmark
