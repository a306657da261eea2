package faults

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/manager"
)

// nodeSilence is about nodes whose kubelets report nothing, from the beginning or from some time on.
func nodeSilence() Scenario {
	const tolerates = "  tolerations: [{operator: Exists}]"
	configure, flags := lifecycle(4*time.Second, nil)
	quiet := []string{"never", "some", "full", "unready", "was-unknown", "excluded", "partly"}
	join := []Action{}
	for _, name := range quiet {
		join = append(join, Silence(name))
	}
	for i := range 8 {
		join = append(join, nodeLike(fmt.Sprintf("well-%d", i), "labels: {kubernetes.io/os: linux}", ""))
	}
	join = append(join,
		nodeLike("never", "", ""), nodeLike("some", "", ""), nodeLike("full", "", ""), joins("unready", "", ""), nodeLike("was-unknown", "", ""),
		nodeLike("excluded", "labels: {node.kubernetes.io/exclude-disruption: ''}", ""), nodeLike("partly", "", ""),
		says("some", "MemoryPressure=True,NetworkUnavailable=True"), says("full", "Ready=True,MemoryPressure=False,DiskPressure=False,PIDPressure=False,NetworkUnavailable=False,Other=True"),
		says("unready", "Ready=False,DiskPressure=True"), says("was-unknown", "Ready=Unknown,MemoryPressure=True"), says("excluded", "Ready=True"), says("partly", "PIDPressure=Unknown,Ready=True"),
		podAt("on-full", "full", tolerates), playsReady("on-full", "True"), podAt("unready-on-full", "full", tolerates), playsReady("unready-on-full", "False"),
		podAt("bare-on-full", "full", tolerates), podAt("ended-on-full", "full", tolerates),
		PatchStatus("pods", "ended-on-full", `{"status":{"phase":"Succeeded","conditions":[{"type":"Ready","status":"True","reason":"PodCompleted"}]}}`),
		podAt("on-unready", "unready", tolerates), playsReady("on-unready", "True"), podAt("on-excluded", "excluded", tolerates), playsReady("on-excluded", "True"),
		podAt("on-was-unknown", "was-unknown", tolerates), playsReady("on-was-unknown", "True"), podAt("on-well", "well-0", tolerates), playsReady("on-well", "True"),
		podAt("unknown-on-full", "full", tolerates), playsReady("unknown-on-full", "Unknown"), podAt("on-never", "never", tolerates), playsReady("on-never", "True"),
	)
	silent := func(name string) Condition {
		return Has("nodes", name, "{.status.conditions[?(@.type=='Ready')].status}", "Unknown", "{.spec.taints[?(@.effect=='NoExecute')].key}", unreachableKey)
	}
	var silence, fine []Condition
	for _, name := range []string{"never", "some", "full", "unready", "was-unknown", "excluded", "partly"} {
		silence = append(silence, silent(name))
		fine = append(fine, taintsAre(name, "NoExecute=", "NoSchedule="))
	}
	return Scenario{
		Name: "node-silence", Bare: true, Controllers: onlyNodeLifecycle, Configure: configure, Flags: flags,
		Beside: []func(context.Context, *world) error{Kubelets},
		Kinds:  []schema.GroupVersionResource{nodes, pods},
		Differs: map[string]string{ // they are marked by one that begins while their node is silent
			`pods/on-(never|unready|was-unknown) differs: .status.conditions`:                 "NLC-91",
			`too much: event of .* Pod on-(never|unready|was-unknown): Warning NodeNotReady:`: "NLC-91",
		},
		Steps: []Step{
			{
				"nodes join, some of which do not report", join,
				append(silence, taintsAre("well-0", "NoExecute=", "NoSchedule="), readiness("pods", "on-full", "False"), readiness("pods", "on-excluded", "False"),
					readiness("pods", "unknown-on-full", "False"), readiness("pods", "on-unready", "True")),
			},
			{
				"they report", []Action{Revive("never"), Revive("some"), Revive("full"), Revive("unready"), Revive("was-unknown"), Revive("excluded"), Revive("partly")},
				fine,
			},
			{
				"another one falls silent, with what runs there", []Action{Silence("well-0"), Silence("full")},
				[]Condition{silent("well-0"), silent("full"), readiness("pods", "on-well", "False")},
			},
			{
				"one is deleted, and comes back under its name without a status",
				[]Action{Delete("nodes", "full", metav1.DeletePropagationBackground), Rest(2500 * time.Millisecond), nodeLike("full", "", "")},
				[]Condition{Has("nodes", "full", "{.status.conditions[?(@.type=='Ready')].reason}", "NodeStatusNeverUpdated"), silent("well-0")},
			},
		},
	}
}

// holds waits until conditions hold.
func holds(conditions []Condition) (all []Action) {
	for _, one := range conditions {
		all = append(all, Repeat(Check(one)))
	}
	return all
}

// nodeZones is about zones in which some nodes are down, or all are.
func nodeZones() Scenario {
	configure, flags := lifecycle(10*time.Minute, func(c *manager.Config) {
		settings := &c.Controllers.NodeLifecycle
		settings.SecondaryNodeEvictionRate, settings.LargeClusterSizeThreshold, settings.UnhealthyZoneThreshold = ptr.To[float32](500), ptr.To[int32](4), ptr.To[float32](0.6)
	})
	flags = append(flags, "--secondary-node-eviction-rate=500", "--large-cluster-size-threshold=4", "--unhealthy-zone-threshold=0.6")
	in := func(name, zone string) Action {
		return nodeLike(name, "labels: {topology.kubernetes.io/region: r, topology.kubernetes.io/zone: "+zone+"}", "")
	}
	var join []Action
	for _, name := range []string{"full-0", "full-1", "normal-0", "normal-1", "normal-2", "small-0", "small-1", "small-2", "small-3", "large-0", "large-1", "large-2", "large-3", "large-4"} {
		join = append(join, in(name, name[:len(name)-2]))
	}
	// The zone that is to stop is so by the nodes that have no status yet, before any of them is said to be down.
	join = append(join,
		says("full-0", "Ready=True"), says("full-1", "Ready=True"), says("normal-0", "Ready=True"), says("normal-1", "Ready=True"), says("normal-2", "Ready=True"), says("large-0", "Ready=True"),
		says("small-0", "Ready=True"), Rest(2500*time.Millisecond),
	)
	down := func(names ...string) (all []Action) {
		for _, name := range names {
			all = append(all, says(name, "Ready=False"))
		}
		return all
	}
	tainted := func(names ...string) (all []Condition) {
		for _, name := range names {
			all = append(all, taintsAre(name, "NoExecute="+notReadyKey, "NoSchedule="+notReadyKey))
		}
		return all
	}
	spared := func(names ...string) (all []Condition) {
		for _, name := range names {
			all = append(all, taintsAre(name, "NoExecute=", "NoSchedule="+notReadyKey))
		}
		return all
	}
	return Scenario{
		Name: "node-zones", Bare: true, Controllers: onlyNodeLifecycle, Configure: configure, Flags: flags,
		Kinds: []schema.GroupVersionResource{nodes},
		Steps: []Step{
			{"nodes join", join, []Condition{taintsAre("full-0", "NoSchedule=")}},
			{
				"some go down, in one zone all, in a small one too many, and in a large one",
				append(down("full-0", "full-1", "normal-0", "small-1", "small-2", "small-3", "large-1", "large-2", "large-3", "large-4"), Rest(2500*time.Millisecond)),
				slices.Concat(tainted("full-0", "full-1", "normal-0", "large-1", "large-2", "large-3", "large-4"), spared("small-1", "small-2", "small-3")),
			},
			{
				"all but one go down", append(down("normal-1", "normal-2", "large-0"), Rest(2500*time.Millisecond)),
				slices.Concat(tainted("full-0", "normal-0", "normal-1", "normal-2", "large-0", "large-4"), spared("small-1", "small-2", "small-3")),
			},
			{
				// The zone of the last one has stopped: elsewhere, upstream may taint it while it removes the taints of the
				// others. Nor does anybody take over meanwhile: one of upstream may taint a node when it begins.
				"the last one goes down, and one zone comes back",
				slices.Concat(
					down("small-0"), []Action{Rest(2500 * time.Millisecond)},
					holds(spared("full-0", "full-1", "normal-0", "normal-1", "normal-2", "small-0", "small-1", "large-0", "large-4")),
					[]Action{says("normal-0", "Ready=True"), says("normal-1", "Ready=True"), Rest(2500 * time.Millisecond)},
				),
				slices.Concat(tainted("full-0", "full-1", "small-0", "large-0", "normal-2"), []Condition{taintsAre("normal-0", "NoExecute=", "NoSchedule=")}),
			},
		},
	}
}

// nodeEvictions is about what becomes of pods when their node falls silent or says that it is not ready.
func nodeEvictions() Scenario {
	configure, flags := lifecycle(4*time.Second, nil)
	pod := func(name, node, seconds string) []Action {
		const tolerate = "tolerations: [{key: %s, operator: Exists, effect: NoExecute%s}, {key: %s, operator: Exists, effect: NoExecute%s}]"
		return []Action{heldPod(name, node, "", fmt.Sprintf(tolerate, notReadyKey, seconds, unreachableKey, seconds)), playsReady(name, "True")}
	}
	const short, long = ", tolerationSeconds: 1", ", tolerationSeconds: 3600"
	join := []Action{Silence("down")}
	for _, name := range []string{"well-0", "well-1", "well-2", "silent"} {
		join = append(join, nodeLike(name, "", ""))
	}
	for _, name := range []string{"silent", "well-0", "down"} {
		join = slices.Concat(join, pod("short-on-"+name, name, short), pod("long-on-"+name, name, long), pod("forever-on-"+name, name, ""), []Action{heldPod("default-on-"+name, name, "", "")})
	}
	join = append(join, joins("down", "", ""), says("down", "Ready=False"))
	return Scenario{
		Name: "node-evictions", Bare: true, Controllers: bothOfTaints, Configure: configure, Flags: flags,
		Beside: []func(context.Context, *world) error{Kubelets},
		Kinds:  []schema.GroupVersionResource{nodes, pods},
		Differs: map[string]string{ // they are marked by one that begins while their node is silent
			`pods/(short|long|forever)-on-down differs: .status.conditions`:                 "NLC-91",
			`too much: event of .* Pod (short|long|forever)-on-down: Warning NodeNotReady:`: "NLC-91",
			// One of upstream that begins takes the taints away for a moment.
			`too much: event of .* Pod short-on-(down|silent): .*Cancelling deletion`: "NLC-80",
		},
		Steps: []Step{
			{"nodes join, one of which is not ready and then silent", join, []Condition{marked("short-on-down"), readiness("nodes", "down", "Unknown"), readiness("pods", "long-on-down", "True"), readiness("nodes", "silent", "True")}},
			{"another one falls silent", []Action{Silence("silent")}, []Condition{marked("short-on-silent"), unmarked("long-on-silent"), readiness("pods", "long-on-silent", "False"), readiness("pods", "forever-on-silent", "False")}},
			{"they come back", []Action{Rest(time.Second), Revive("silent"), Revive("down")}, []Condition{taintsAre("silent", "NoExecute=", "NoSchedule="), taintsAre("down", "NoExecute=", "NoSchedule="), unmarked("long-on-silent")}},
		},
	}
}
