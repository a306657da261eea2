// Command stages prints kwok's standard fast stages as one YAML stream: a node
// becomes Ready at once and heartbeats through its lease, a pod becomes Ready
// at once, completes if a Job owns it, and vanishes when it is deleted.
//
// The YAML is the one kwok publishes for this version, embedded in its module,
// so that the sandbox simulates nodes and pods exactly as the pinned kwok does.
package main

import (
	"fmt"
	"os"
	"strings"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodeheartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

func main() {
	stages := []string{
		nodefast.DefaultNodeInit,
		nodeheartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady,
		podfast.DefaultPodComplete,
		podfast.DefaultPodDelete,
	}
	if _, err := fmt.Println(strings.Join(stages, "\n---\n")); err != nil {
		fmt.Fprintln(os.Stderr, "printing the stages:", err)
		os.Exit(1)
	}
}
