// Command stages prints kwok's standard fast stages as one YAML stream: a node
// becomes Ready at once and heartbeats through its lease, a pod becomes Ready
// at once, completes if a Job owns it, and vanishes when it is deleted.
//
// The YAML is the one kwok publishes for this version, embedded in its module,
// so that the sandbox simulates nodes and pods as the pinned kwok does, but for one thing: a pod
// that is deleted without a grace period is left to the API server for ten seconds. kwok deletes
// pods by name, and would delete the next pod of that name if it comes late. It deletes the pod in the
// end: the API server marks such a pod before it removes it, and a request that is cut off in between
// leaves it marked until its kubelet removes it.
package main

import (
	"fmt"
	"os"
	"strings"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodeheartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

// What is replaced in kwok's stage that deletes pods.
const (
	name           = "name: pod-delete\n"
	isBeingDeleted = `
    - key: '.metadata.deletionTimestamp'
      operator: 'Exists'`
	next = "  next:\n"
)

// And what takes its place.
const (
	nameAtOnce = "name: pod-delete-at-once\n"
	isAtOnce   = `
    - key: '.metadata.deletionGracePeriodSeconds == 0'
      operator: 'In'
      values:
      - 'true'`
	isNotAtOnce = `
    - key: '.metadata.deletionGracePeriodSeconds == 0'
      operator: 'NotIn'
      values:
      - 'true'`
	nextWithDelay = "  delay:\n    durationMilliseconds: 10000\n" + next
)

func main() {
	for _, part := range []string{name, isBeingDeleted, next} {
		if strings.Count(podfast.DefaultPodDelete, part) != 1 {
			fmt.Fprintf(os.Stderr, "kwok's stage that deletes pods is another than expected: it has not one %q\n", part)
			os.Exit(1)
		}
	}
	stages := []string{
		nodefast.DefaultNodeInit,
		nodeheartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady,
		podfast.DefaultPodComplete,
		strings.Replace(podfast.DefaultPodDelete, isBeingDeleted, isBeingDeleted+isNotAtOnce, 1),
		strings.NewReplacer(name, nameAtOnce, isBeingDeleted, isBeingDeleted+isAtOnce, next, nextWithDelay).Replace(podfast.DefaultPodDelete),
	}
	if _, err := fmt.Println(strings.Join(stages, "\n---\n")); err != nil {
		fmt.Fprintln(os.Stderr, "printing the stages:", err)
		os.Exit(1)
	}
}
