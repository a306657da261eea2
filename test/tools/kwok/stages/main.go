// Command stages prints kwok's standard fast stages as one YAML stream: a node
// becomes Ready at once and heartbeats through its lease, a pod becomes Ready
// at once, completes if a Job owns it, and vanishes when it is deleted.
//
// The YAML is the one kwok publishes for this version, embedded in its module,
// so that the sandbox simulates nodes and pods as the pinned kwok does, but for one thing: a pod
// that is deleted without a grace period is left to the API server. kwok deletes pods by name, and
// would delete the next pod of that name if it comes late.
package main

import (
	"fmt"
	"os"
	"strings"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodeheartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

// The condition under which kwok deletes a pod, and the one that is added.
const (
	isBeingDeleted = `
    - key: '.metadata.deletionTimestamp'
      operator: 'Exists'`
	isNotAtOnce = `
    - key: '.metadata.deletionGracePeriodSeconds == 0'
      operator: 'NotIn'
      values:
      - 'true'`
)

func main() {
	if !strings.Contains(podfast.DefaultPodDelete, isBeingDeleted) {
		fmt.Fprintln(os.Stderr, "kwok's stage that deletes pods has another condition than expected")
		os.Exit(1)
	}
	stages := []string{
		nodefast.DefaultNodeInit,
		nodeheartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady,
		podfast.DefaultPodComplete,
		strings.Replace(podfast.DefaultPodDelete, isBeingDeleted, isBeingDeleted+isNotAtOnce, 1),
	}
	if _, err := fmt.Println(strings.Join(stages, "\n---\n")); err != nil {
		fmt.Fprintln(os.Stderr, "printing the stages:", err)
		os.Exit(1)
	}
}
