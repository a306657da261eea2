package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/manager"
)

// nodesComparisons are those about nodes, and about devices.
func nodesComparisons() []Scenario {
	return slices.Concat(
		[]Scenario{nodeConditions(), nodeSilence(), nodeZones(), taintTolerations(), taintedNodes(), taintNumbers(), nodeEvictions(), nodeRanges(), nodeRangesDual(), nodeRangesSix(), nodeRangesFew(), ttlSizes()},
		[]Scenario{claimsMade(), claimsReserved(), claimsExtended(), claimsOfGroups(), deviceTaints(), deviceRules(), poolAnswers(), groupsProtected()},
	)
}

// nodeLike creates a node with metadata and a specification: in a flow style, without their braces.
func nodeLike(name, metadata, spec string) Action {
	return Create(fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %q, %s}, spec: {%s}}", name, metadata, spec))
}

// joins creates a node, and waits until it has lost the taint that the API server gives to those without a status: one
// that is said to be down before that keeps it, and who comes first depends on chance.
func joins(name, metadata, spec string) Action {
	return InTurn(nodeLike(name, metadata, spec), Repeat(Check(Has("nodes", name, "{.spec.taints[?(@.key=='node.kubernetes.io/not-ready')].effect}", ""))))
}

// says has the status of a node contain conditions, as of now: Ready=True,MemoryPressure=False.
func says(node, conditions string) Action {
	return func(ctx context.Context, w *world) error {
		now := time.Now().UTC().Format(time.RFC3339)
		var all []string
		for one := range strings.SplitSeq(conditions, ",") {
			kind, status, _ := strings.Cut(one, "=")
			all = append(all, fmt.Sprintf(`{"type":%q,"status":%q,"reason":"Played","message":"by a scenario","lastHeartbeatTime":%q,"lastTransitionTime":%q}`, kind, status, now, now))
		}
		return PatchStatus("nodes", node, `{"status":{"conditions":[`+strings.Join(all, ",")+`]}}`)(ctx, w)
	}
}

// readyNode creates a node that is ready.
func readyNode(name string) []Action {
	return []Action{nodeLike(name, "labels: {kubernetes.io/os: linux}", ""), says(name, "Ready=True")}
}

// taintsAre is that a node has these taints, by key and in order: "NoExecute=a b", "NoSchedule=".
func taintsAre(node string, wanted ...string) Condition {
	var pairs []string
	for _, one := range wanted {
		effect, keys, _ := strings.Cut(one, "=")
		pairs = append(pairs, fmt.Sprintf("{.spec.taints[?(@.effect=='%s')].key}", effect), keys)
	}
	return Has("nodes", node, pairs...)
}

// readiness is that the condition Ready of an object has a status.
func readiness(resource, name, status string) Condition {
	return Has(resource, name, "{.status.conditions[?(@.type=='Ready')].status}", status)
}

const (
	notReadyKey    = "node.kubernetes.io/not-ready"
	unreachableKey = "node.kubernetes.io/unreachable"
)

// lifecycle are the settings that scenarios about the conditions of nodes share: a short period, and taints at once.
func lifecycle(grace time.Duration, change func(*manager.Config)) (func(*manager.Config), []string) {
	configure := func(c *manager.Config) {
		settings := &c.Controllers.NodeLifecycle
		settings.NodeMonitorPeriod = &metav1.Duration{Duration: time.Second}
		settings.NodeMonitorGracePeriod, settings.NodeStartupGracePeriod = &metav1.Duration{Duration: grace}, &metav1.Duration{Duration: grace}
		settings.NodeEvictionRate = ptr.To[float32](1000)
		if change != nil {
			change(c)
		}
	}
	return configure, []string{"--node-monitor-period=1s", "--node-monitor-grace-period=" + grace.String(), "--node-startup-grace-period=" + grace.String(), "--node-eviction-rate=1000"}
}

func onlyNodeLifecycle(c *manager.Config) []**bool {
	return []**bool{&c.Controllers.NodeLifecycle.Enabled}
}

// nodeConditions is about the taints and labels of nodes that go on reporting.
func nodeConditions() Scenario {
	const foreign = "taints: [{key: mine, effect: NoSchedule}, {key: mine, value: v, effect: NoExecute}, {key: node.kubernetes.io/memory-pressure, effect: PreferNoSchedule}, {key: node.kubernetes.io/disk-pressure, value: x, effect: NoSchedule}]"
	configure, flags := lifecycle(10*time.Minute, nil)
	join := slices.Concat(readyNode("ready-1"), readyNode("ready-2"), readyNode("ready-3"), readyNode("ready-4"), readyNode("ready-5"), readyNode("ready-6"), readyNode("ready-7"), readyNode("ready-8"))
	type row struct{ name, metadata, spec, conditions string }
	for _, r := range []row{
		{"memory", "", "", "Ready=True,MemoryPressure=True"},
		{"disk", "", "", "Ready=True,DiskPressure=True"},
		{"pid", "", "", "Ready=True,PIDPressure=True"},
		{"network", "", "", "Ready=True,NetworkUnavailable=True"},
		{"false", "labels: {kubernetes.io/os: linux, kubernetes.io/arch: amd64}", "", "Ready=False"},
		{"unknown", "labels: {kubernetes.io/arch: arm64, beta.kubernetes.io/arch: amd64}", "", "Ready=Unknown"},
		{"everything", "", "unschedulable: true", "Ready=False,MemoryPressure=True,DiskPressure=True,PIDPressure=True,NetworkUnavailable=True"},
		{"not-known", "", "", "Ready=True,MemoryPressure=Unknown,DiskPressure=Unknown,PIDPressure=Unknown,NetworkUnavailable=Unknown,Other=True"},
		{"cordoned", "labels: {beta.kubernetes.io/os: windows}", "unschedulable: true", "Ready=True"},
		{"foreign", "", foreign, "Ready=True"},
		{"pressed", "", foreign, "Ready=True,MemoryPressure=True,DiskPressure=True"},
		{"had-taints", "", "taints: [{key: node.kubernetes.io/unreachable, effect: NoExecute}, {key: node.kubernetes.io/not-ready, effect: NoExecute}, {key: node.kubernetes.io/unreachable, effect: NoSchedule}]", "Ready=True"},
		{"was-lost", "", "taints: [{key: node.kubernetes.io/unreachable, effect: NoExecute}]", "Ready=False"},
		{"empty-label", "labels: {kubernetes.io/os: '', kubernetes.io/arch: ''}", "", "Ready=True"},
		{"excluded", "labels: {node.kubernetes.io/exclude-disruption: ''}", "", "Ready=False"},
	} {
		come := nodeLike
		if strings.HasPrefix(r.conditions, "Ready=False") {
			come = joins
		}
		join = append(join, come(r.name, r.metadata, r.spec), says(r.name, r.conditions))
	}
	join = append(join, nodeLike("no-status", "labels: {kubernetes.io/os: linux}", ""), nodeLike("no-ready", "", ""), says("no-ready", "MemoryPressure=True"))
	return Scenario{
		Name: "node-conditions", Bare: true, Controllers: onlyNodeLifecycle, Configure: configure, Flags: flags,
		Kinds: []schema.GroupVersionResource{nodes, pods},
		// Its condition becomes Unknown by a write of the scenario.
		Differs: map[string]string{`^too much: event of node-controller about v1 Node network: Normal NodeNotReady`: "NLC-116"},
		Steps: []Step{
			{
				"nodes join in all conditions", join,
				[]Condition{
					taintsAre("false", "NoExecute="+notReadyKey, "NoSchedule="+notReadyKey), taintsAre("unknown", "NoExecute="+unreachableKey, "NoSchedule="+unreachableKey),
					taintsAre("had-taints", "NoExecute=", "NoSchedule="), taintsAre("was-lost", "NoExecute="+notReadyKey), taintsAre("excluded", "NoExecute="+notReadyKey),
					taintsAre("everything", "NoExecute="+notReadyKey), taintsAre("memory", "NoSchedule=node.kubernetes.io/memory-pressure"),
					Has("nodes", "unknown", `{.metadata.labels.beta\.kubernetes\.io/arch}`, "arm64"),
				},
			},
			{
				"pods are bound",
				[]Action{
					Create(podWith("bound-false", "priority: 0")), Create(podWith("bound-unknown", "priority: 0")), Create(podWith("bound-ready", "priority: 0")),
					Create(podWith("bound-unready", "priority: 0")), Create(podWith("bound-bare", "priority: 0")), Create(podWith("bound-no-status", "priority: 0")),
					playsReady("bound-false", "True"), playsReady("bound-unknown", "True"), playsReady("bound-ready", "True"), playsReady("bound-unready", "False"), playsReady("bound-no-status", "True"),
					BindPod("bound-false", "false"), BindPod("bound-unknown", "unknown"), BindPod("bound-ready", "ready-1"), BindPod("bound-unready", "false"), BindPod("bound-bare", "false"),
					BindPod("bound-no-status", "no-status"), podAt("born-there", "ready-1", ""), playsReady("born-there", "True"),
				},
				[]Condition{readiness("pods", "bound-false", "False"), readiness("pods", "bound-unknown", "False"), Has("pods", "bound-bare", "{.spec.nodeName}", "false")},
			},
			{
				"conditions change",
				[]Action{
					says("memory", "Ready=True,MemoryPressure=False,DiskPressure=True"), says("disk", "Ready=True"), says("network", "Ready=Unknown,NetworkUnavailable=True"),
					says("false", "Ready=Unknown"), says("unknown", "Ready=False"), says("everything", "Ready=True"), says("ready-1", "Ready=False"),
					Patch("nodes", "everything", `{"spec":{"unschedulable":null}}`), Patch("nodes", "cordoned", `{"spec":{"unschedulable":null,"taints":null},"metadata":{"labels":{"kubernetes.io/os":"linux"}}}`),
					Patch("nodes", "ready-2", `{"spec":{"unschedulable":true}}`), Patch("nodes", "ready-3", `{"metadata":{"labels":{"kubernetes.io/arch":"s390x","beta.kubernetes.io/os":null}}}`),
					says("pressed", "Ready=True"), says("no-ready", "Ready=True"), Patch("nodes", "pid", `{"spec":{"taints":null}}`),
					Patch("nodes", "ready-4", `{"spec":{"taints":[{"key":"node.kubernetes.io/pid-pressure","effect":"NoSchedule"},{"key":"node.kubernetes.io/unreachable","effect":"NoExecute"},{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}]}}`),
					Patch("nodes", "was-lost", `{"spec":{"taints":null}}`), Patch("nodes", "ready-5", `{"metadata":{"labels":null}}`),
				},
				[]Condition{
					taintsAre("false", "NoExecute="+unreachableKey, "NoSchedule="+unreachableKey), taintsAre("unknown", "NoExecute="+notReadyKey, "NoSchedule="+notReadyKey),
					taintsAre("everything", "NoExecute=", "NoSchedule="), taintsAre("ready-1", "NoExecute="+notReadyKey, "NoSchedule="+notReadyKey),
					taintsAre("network", "NoExecute="+unreachableKey), taintsAre("ready-4", "NoExecute=node.kubernetes.io/out-of-service", "NoSchedule="),
					taintsAre("was-lost", "NoExecute="+notReadyKey), taintsAre("pid", "NoSchedule=node.kubernetes.io/pid-pressure"),
				},
			},
			{
				"nodes leave, and one comes again",
				[]Action{
					Delete("nodes", "ready-6", metav1.DeletePropagationBackground), Delete("nodes", "false", metav1.DeletePropagationBackground),
					Delete("nodes", "no-status", metav1.DeletePropagationBackground), Rest(2500 * time.Millisecond),
					nodeLike("false", "labels: {kubernetes.io/os: linux}", ""), says("false", "Ready=True"), says("ready-1", "Ready=True"),
				},
				[]Condition{taintsAre("false", "NoExecute=", "NoSchedule="), taintsAre("ready-1", "NoExecute=", "NoSchedule=")},
			},
		},
	}
}

// playsReady has the condition Ready of a pod that runs have a status, a reason and a message.
func playsReady(pod, status string) Action {
	return PatchStatus("pods", pod, fmt.Sprintf(`{"status":{"phase":"Running","conditions":[{"type":"Initialized","status":"True"},{"type":"Ready","status":%q,"reason":"Played","message":"by a scenario"}]}}`, status))
}
