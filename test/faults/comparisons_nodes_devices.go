package faults

import (
	"fmt"
	"strings"
	"time"

	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

var deviceTaintRules = resourcev1beta2.SchemeGroupVersion.WithResource("devicetaintrules")

// holdDevice is a pod that stays when it has been deleted, with the device that useDevice gives it.
func holdDevice(name, device, tolerations string) Action {
	return useDevice(name, device, tolerations, "faults.kcmd.dev/hold")
}

// devicesOf creates a ResourceSlice for all nodes with devices of a pool.
func devicesOf(name, pool string, generation, count int, devices ...string) Action {
	return Create(fmt.Sprintf("{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: %s}, spec: {driver: %s, allNodes: true, pool: {name: %s, generation: %d, resourceSliceCount: %d}, devices: [%s]}}",
		name, csiDriver, pool, generation, count, strings.Join(devices, ", ")))
}

// device is one of a slice, with taints.
func device(name, taints string) string { return fmt.Sprintf("{name: %s, taints: [%s]}", name, taints) }

// isEvicted is that a pod is being deleted because of its devices.
func isEvicted(pod string) Condition {
	return Has("pods", pod, "{.status.conditions[?(@.type=='DisruptionTarget')].reason}", "DeletionByDeviceTaintManager", "{.metadata.deletionGracePeriodSeconds}", "0")
}

// deviceTaints is about taints that drivers publish, and what requests tolerate.
func deviceTaints() Scenario {
	const broken = "{key: broken, value: v, effect: NoExecute}"
	tolerates := func(effect, seconds string) string {
		return "{key: broken, operator: Exists, effect: " + effect + seconds + "}"
	}
	change := func(slice, spec string) Action { return Patch("resourceslices", slice, `{"spec":`+spec+`}`) }
	return Scenario{
		Name: "device-taints", Bare: true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.DeviceTaintEviction.Enabled} },
		Kinds:       []schema.GroupVersionResource{slicesOfDevices, deviceClaims, nodes, pods},
		Differs: map[string]string{
			`missing: event of .* Pod (negative|no-effect|none|not-equal|other-effect|second|shortest|zero): .*Cancelling deletion`: "DTE-60",
		},
		Steps: []Step{
			{
				"pods use devices with taints",
				[]Action{
					Node("node-a"),
					devicesOf("first", devicePool, 1, 1, device("fine", ""), device("broken", broken), device("soft", "{key: broken, effect: NoSchedule}, {key: x, effect: None}"), device("two", broken+", {key: more, effect: NoExecute}"), device("later", "")),
					holdDevice("on-fine", "fine", ""), holdDevice("none", "broken", ""), holdDevice("forever", "broken", tolerates("NoExecute", "")), holdDevice("second", "broken", tolerates("NoExecute", ", tolerationSeconds: 1")),
					holdDevice("zero", "broken", tolerates("NoExecute", ", tolerationSeconds: 0")), holdDevice("negative", "broken", tolerates("NoExecute", ", tolerationSeconds: -3")),
					holdDevice("no-effect", "broken", "{key: broken, operator: Exists}"), holdDevice("other-effect", "broken", tolerates("NoSchedule", "")), holdDevice("equal", "broken", "{key: broken, operator: Equal, value: v, effect: NoExecute}"),
					holdDevice("not-equal", "broken", "{key: broken, value: w, effect: NoExecute}"), holdDevice("any-key", "broken", "{operator: Exists, effect: NoExecute}"),
					holdDevice("shortest", "broken", tolerates("NoExecute", ", tolerationSeconds: 3600")+", {operator: Exists, effect: NoExecute, tolerationSeconds: 1}"),
					holdDevice("once-forever", "broken", tolerates("NoExecute", ", tolerationSeconds: 0")+", "+tolerates("NoExecute", "")),
					holdDevice("on-soft", "soft", ""), holdDevice("half", "two", tolerates("NoExecute", "")), holdDevice("both", "two", "{operator: Exists, effect: NoExecute}"), holdDevice("on-unknown", "unknown", ""),
					holdDevice("canceled", "broken", tolerates("NoExecute", ", tolerationSeconds: 3600")), holdDevice("deallocated", "broken", tolerates("NoExecute", ", tolerationSeconds: 3600")),
					holdDevice("on-later", "later", ""), holdDevice("ended", "later", ""), PatchStatus("pods", "ended", `{"status":{"phase":"Succeeded"}}`),
				},
				append(each(isEvicted, "none", "second", "zero", "negative", "other-effect", "not-equal", "shortest", "half"), each(unmarked, "on-fine", "forever", "equal", "any-key", "once-forever", "on-soft", "both", "on-unknown", "canceled")...),
			},
			{
				"taints go, and come to others",
				[]Action{
					Rest(time.Second), PatchStatus("resourceclaims", "deallocated", `{"status":{"allocation":null,"reservedFor":null}}`),
					change("first", `{"devices":[{"name":"fine","taints":[{"key":"broken","effect":"NoSchedule"}]},{"name":"broken"},{"name":"later","taints":[{"key":"late","effect":"NoExecute"}]}]}`),
				},
				append(each(isEvicted, "on-later", "ended"), each(unmarked, "canceled", "deallocated", "on-fine")...),
			},
			{
				"a slice of a newer generation replaces it, and is deleted",
				[]Action{
					devicesOf("second", devicePool, 2, 1, device("fine", ""), device("broken", "{key: other, effect: NoExecute, timeAdded: '2020-01-01T00:00:00Z'}")), Rest(time.Second),
					Delete("resourceslices", "first", metav1.DeletePropagationBackground), Rest(time.Second), Delete("resourceslices", "second", metav1.DeletePropagationBackground),
				},
				append(each(isEvicted, "forever", "canceled"), each(unmarked, "on-fine", "any-key", "on-unknown")...),
			},
		},
	}
}

// deviceRules is about rules that give devices taints, and what their status says.
func deviceRules() Scenario {
	rule := func(name, selector, taint string) Action {
		return Create(fmt.Sprintf("{apiVersion: resource.k8s.io/v1beta2, kind: DeviceTaintRule, metadata: {name: %s}, spec: {deviceSelector: {%s}, taint: {%s}}}", name, selector, taint))
	}
	says := func(rule, status, reason, message string) Condition {
		return Has("devicetaintrules", rule, "{.status.conditions[*].status}", status, "{.status.conditions[*].reason}", reason, "{.status.conditions[*].message}", message)
	}
	const would = " if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
	return Scenario{
		Name: "device-rules", Bare: true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.DeviceTaintEviction.Enabled} },
		Configure:   func(c *manager.Config) { c.FeatureGates = map[string]bool{"DRADeviceTaintRules": true} },
		Kinds:       []schema.GroupVersionResource{slicesOfDevices, deviceClaims, nodes, pods, deviceTaintRules},
		Steps: []Step{
			{
				"rules without effect come",
				[]Action{
					Node("node-a"), devicesOf("first", devicePool, 1, 1, device("a", ""), device("b", ""), device("c", "")), devicesOf("other", "other", 1, 2, device("a", "")),
					holdDevice("on-a", "a", ""), holdDevice("on-b", "b", ""), holdDevice("patient", "a", "{key: broken, operator: Exists, effect: NoExecute, tolerationSeconds: 3600}"), holdDevice("always", "b", "{operator: Exists, effect: NoExecute}"),
					Rest(time.Second),
					rule("all", "", "key: broken, effect: None"), rule("driver", "driver: "+csiDriver, "key: broken, effect: None"), rule("pool", "driver: "+csiDriver+", pool: "+devicePool, "key: other, effect: None"),
					rule("device", "driver: "+csiDriver+", pool: "+devicePool+", device: a", "key: broken, effect: None"), rule("nobody", "driver: nobody.example.com", "key: broken, effect: None"),
					rule("by-pool", "pool: other", "key: broken, effect: None"), rule("schedule", "driver: "+csiDriver, "key: broken, effect: NoSchedule"),
					Create("{apiVersion: resource.k8s.io/v1beta2, kind: DeviceTaintRule, metadata: {name: no-selector}, spec: {taint: {key: broken, effect: None}}}"),
					Create("{apiVersion: resource.k8s.io/v1beta2, kind: DeviceTaintRule, metadata: {name: no-selector-evicts}, spec: {taint: {key: broken, effect: NoExecute}}}"),
					rule("evicts-nobody", "device: c", "key: broken, effect: NoExecute"), rule("unknown-device", "device: z", "key: broken, effect: None"),
				},
				[]Condition{
					says("device", "False", "NoEffect", "1 published device selected. 2 allocated devices selected. 2 pods would be evicted in 1 namespace"+would), says("schedule", "False", "OtherEffect", "Eviction only happens for the NoExecute effect."),
					says("no-selector-evicts", "False", "NotStarted", ""), says("evicts-nobody", "False", "NotStarted", ""),
					says("unknown-device", "False", "NoEffect", "0 published devices selected. 0 allocated devices selected. 0 pods would be evicted in 0 different namespaces"+would),
				},
			},
			{
				// A manager that has taken over counts again when a status is ten seconds old.
				"rules evict",
				[]Action{
					Rest(11 * time.Second), Patch("devicetaintrules", "device", `{"spec":{"taint":{"effect":"NoExecute","timeAdded":null}}}`), Patch("devicetaintrules", "schedule", `{"spec":{"taint":{"effect":"None"}}}`),
					rule("late", "driver: "+csiDriver+", device: b", "key: broken, value: x, effect: NoExecute"), rule("late-none", "device: a", "key: broken, effect: None"),
				},
				[]Condition{
					isEvicted("on-a"), isEvicted("on-b"), unmarked("patient"), unmarked("always"), says("device", "True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace. 1 pod evicted since starting the controller."),
					says("late", "False", "Completed", "1 pod evicted since starting the controller."),
				},
			},
		},
	}
}

// poolAnswers is about what requests about pools say.
func poolAnswers() Scenario {
	request := func(name, spec string) Action {
		return Create(fmt.Sprintf("{apiVersion: resource.k8s.io/v1alpha3, kind: ResourcePoolStatusRequest, metadata: {name: %s}, spec: {%s}}", name, spec))
	}
	on := func(node string) string { return ", nodeName: " + node }
	slice := func(name, driver, pool, where string, generation, count int, devices string) Action {
		return Create(fmt.Sprintf("{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: %s}, spec: {driver: %s, pool: {name: %s, generation: %d, resourceSliceCount: %d}, devices: [%s]%s}}", name, driver, pool, generation, count, devices, where))
	}
	const all, two, one = ", allNodes: true", "{name: a}, {name: b}", "{name: a}"
	answered := func(names ...string) (conditions []Condition) {
		for _, name := range names {
			conditions = append(conditions, Has("resourcepoolstatusrequests", name, "{.status.conditions[?(@.type=='Complete')].status}", "True"))
		}
		return conditions
	}
	return Scenario{
		Name: "pool-answers", Bare: true,
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.ResourcePoolStatusRequest.Enabled}
		},
		Configure: func(c *manager.Config) { c.FeatureGates = map[string]bool{"DRAResourcePoolStatus": true} },
		Kinds:     []schema.GroupVersionResource{poolRequests, slicesOfDevices, deviceClaims, pods},
		Before: []Action{
			slice("a-1", csiDriver, devicePool, all, 1, 1, two), useDevice("user", "a", ""), useDevice("user-of-unknown", "z", ""),
			slice("b-1", csiDriver, "node", on("node-a"), 3, 2, two), slice("b-2", csiDriver, "node", on("node-a"), 3, 2, one), slice("b-old", csiDriver, "node", on("node-a"), 2, 1, "{name: x}"),
			slice("c-1", csiDriver, "two-nodes", on("node-a"), 1, 2, one), slice("c-2", csiDriver, "two-nodes", on("node-b"), 1, 2, one), slice("d-1", "other.example.com", "pool", all, 1, 1, two),
			slice("e-1", "half.example.com", "half", all, 1, 2, two), slice("e-2", "half.example.com", "whole", all, 1, 1, two), slice("f-1", "zero.example.com", "empty", all, 1, 1, ""),
		},
		Steps: []Step{
			{
				"ask", []Action{
					Rest(time.Second), request("by-driver", "driver: "+csiDriver), request("by-pool", "driver: "+csiDriver+", poolName: node"), request("limited", "driver: "+csiDriver+", limit: 2"), request("other", "driver: other.example.com"),
					request("no-pool", "driver: "+csiDriver+", poolName: none"), request("no-driver", "driver: none.example.com"), request("whole", "driver: half.example.com, poolName: whole"), request("empty", "driver: zero.example.com"),
				}, answered("by-driver", "by-pool", "limited", "other", "no-pool", "no-driver", "whole", "empty"),
			},
			{
				"ask again, and for more", []Action{
					slice("g-1", "late.example.com", "pool", all, 1, 1, one), slice("g-2", "late.example.com", "too-many", all, 1, 1, one), slice("g-3", "late.example.com", "too-many", all, 1, 1, "{name: b}"), Rest(time.Second),
					Patch("resourcepoolstatusrequests", "by-driver", `{"metadata":{"labels":{"a":"b"}}}`), Delete("resourcepoolstatusrequests", "other", metav1.DeletePropagationBackground), request("other", "driver: other.example.com, limit: 1"), request("late", "driver: late.example.com"),
					request("half-by-limit", "driver: half.example.com, limit: 1"),
				}, answered("other", "late"),
			},
		},
	}
}

// groupsProtected is about groups of pods that are deleted.
func groupsProtected() Scenario {
	group := func(name, metadata string) Action {
		return Create(fmt.Sprintf("{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {name: %s, %s}, spec: {schedulingPolicy: {basic: {}}}}", name, metadata))
	}
	member := func(name, group string) Action {
		return Create(podWith(name, "schedulingGroup: {podGroupName: "+group+"}"))
	}
	remove := func(resource, name string, how metav1.DeletionPropagation) Action {
		return Delete(resource, name, how)
	}
	const background, foreground, orphan = metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan
	held := func(name string) Condition {
		return Contains("podgroups", name, "{.metadata.finalizers}", "podgroup-protection")
	}
	gone := func(name string) Condition { return Gone("podgroups", name) }
	return Scenario{
		Name: "groups-protected", Bare: true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.PodGroupProtection.Enabled} },
		Configure:   func(c *manager.Config) { c.FeatureGates = map[string]bool{"GenericWorkload": true} },
		Kinds:       []schema.GroupVersionResource{podGroups, pods},
		Steps: []Step{
			{
				"groups are deleted in all ways",
				[]Action{
					group("empty", ""), group("background", ""), group("foreground", ""), group("orphan", ""), group("ended", ""), group("mixed", ""), group("kept", ""), group("bare", ""), group("other", "finalizers: [faults.kcmd.dev/hold]"),
					Patch("podgroups", "bare", `{"metadata":{"finalizers":null}}`),
					member("m-background", "background"), member("m-foreground", "foreground"), member("m-orphan", "orphan"), member("m-ended", "ended"), member("m-mixed-1", "mixed"), member("m-mixed-2", "mixed"), member("m-bare", "bare"),
					heldPod("m-leaving", "ghost", "", "schedulingGroup: {podGroupName: kept}"), remove("pods", "m-leaving", background), SetPhase("m-ended", "Succeeded"), SetPhase("m-mixed-1", "Failed"), SetPhase("m-background", "Unknown"), member("m-unknown", "none"), SetPhase("m-unknown", "Failed"),
					remove("podgroups", "empty", background), remove("podgroups", "background", background), remove("podgroups", "foreground", foreground), remove("podgroups", "orphan", orphan), remove("podgroups", "ended", background),
					remove("podgroups", "mixed", background), remove("podgroups", "kept", background), remove("podgroups", "bare", background), remove("podgroups", "other", background),
				},
				append(each(gone, "empty", "ended", "bare"), append(each(held, "background", "foreground", "orphan", "mixed", "kept"), Has("podgroups", "other", "{.metadata.finalizers[*]}", "faults.kcmd.dev/hold"))...),
			},
			{
				"pods end, one is made again without the group",
				[]Action{
					SetPhase("m-mixed-2", "Succeeded"), SetPhase("m-foreground", "Failed"), SetPhase("m-orphan", "Failed"), Patch("pods", "m-leaving", `{"metadata":{"finalizers":null}}`),
					remove("pods", "m-background", background), Create(podWith("m-background", "priority: 0")),
				},
				append(each(gone, "mixed", "kept", "background"), Has("podgroups", "foreground", "{.metadata.finalizers[*]}", "foregroundDeletion"), Has("podgroups", "orphan", "{.metadata.finalizers[*]}", "orphan")),
			},
		},
	}
}
