package faults

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// setComparisons are those of StatefulSets.
func setComparisons() []Scenario {
	return []Scenario{setsRolling(), setsUnavailable(), setsClaims(), setsFailing()}
}

func ofSets(c *manager.Config) []**bool { return []**bool{&c.Controllers.StatefulSet.Enabled} }

// updated is that so many pods of StatefulSets are there and available, all of the newest template.
func updated(n int, names ...string) []Condition {
	number := fmt.Sprint(n)
	var all []Condition
	for _, name := range names {
		all = append(all, Has("statefulsets", name, "{.status.replicas}", number, "{.status.availableReplicas}", number, "{.status.updatedReplicas}", number), Count("pods", "app="+name, n))
	}
	return all
}

// setsRolling makes, scales and rolls out StatefulSets of every strategy.
func setsRolling() Scenario {
	complete := []string{"ordered", "parallel", "fifth", "slow", "forgetful", "short"}
	const rolling = "updateStrategy: {rollingUpdate: {partition: %d}}"
	part := func(name string, of, updated int) Condition {
		old := fmt.Sprint(of - updated)
		if updated == of {
			old = fmt.Sprint(of)
		}
		return Has("statefulsets", name, "{.status.availableReplicas}", fmt.Sprint(of), "{.status.updatedReplicas}", strings.TrimPrefix(fmt.Sprint(updated), "0"), "{.status.currentReplicas}", strings.TrimPrefix(old, "0"))
	}
	return Scenario{
		Name:        "statefulsets-rolling",
		Controllers: ofSets,
		Bare:        true,
		Beside:      []func(context.Context, *world) error{Readies},
		Kinds:       []schema.GroupVersionResource{sets, pods, revisions},
		Steps: []Step{
			{
				"create",
				[]Action{createAll("StatefulSet",
					workload{name: "ordered", spec: "replicas: 2"},
					workload{name: "parallel", spec: "replicas: 2, podManagementPolicy: Parallel"},
					workload{name: "fifth", spec: "replicas: 2, ordinals: {start: 5}"},
					workload{name: "slow", spec: "replicas: 2, minReadySeconds: 1"},
					workload{name: "forgetful", spec: "replicas: 2, revisionHistoryLimit: 0"},
					workload{name: "short", spec: "replicas: 2, revisionHistoryLimit: 1"},
					workload{name: "part", spec: "replicas: 2, " + fmt.Sprintf(rolling, 1)},
					workload{name: "far", spec: "replicas: 2, podManagementPolicy: Parallel, " + fmt.Sprintf(rolling, 100)},
					workload{name: "fifthpart", spec: "replicas: 2, ordinals: {start: 5}, " + fmt.Sprintf(rolling, 1)},
					workload{name: "ondelete", spec: "replicas: 2, updateStrategy: {type: OnDelete}"},
					workload{name: "zero", spec: "replicas: 0"},
				)},
				append(updated(2, append([]string{"part", "far", "fifthpart", "ondelete"}, complete...)...), Has("statefulsets", "zero", "{.status.replicas}", "0")),
			},
			{
				"roll out",
				[]Action{PatchEach("statefulsets", bySide, newImage)},
				append(updated(2, complete...), part("part", 2, 1), part("far", 2, 0), part("fifthpart", 2, 1), part("ondelete", 2, 0)),
			},
			{
				"scale out",
				[]Action{PatchEach("statefulsets", bySide, `{"spec":{"replicas":3}}`), Delete("pods", "ondelete-1", metav1.DeletePropagationBackground), Delete("pods", "far-0", metav1.DeletePropagationBackground)},
				append(updated(3, append([]string{"zero"}, complete...)...),
					part("part", 3, 2), part("fifthpart", 3, 2), Has("statefulsets", "far", "{.status.availableReplicas}", "3"), Has("statefulsets", "ondelete", "{.status.availableReplicas}", "3", "{.status.updatedReplicas}", "2")),
			},
			{
				"roll out something else, without partitions",
				[]Action{
					PatchEach("statefulsets", bySide, `{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`),
					Patch("statefulsets", "part", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`),
					Patch("statefulsets", "far", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":2}}}}`),
					Patch("statefulsets", "fifthpart", `{"spec":{"updateStrategy":{"rollingUpdate":null}}}`),
				},
				append(updated(3, append([]string{"part", "fifthpart", "zero"}, complete...)...), part("far", 3, 1)),
			},
			{
				"roll back",
				[]Action{PatchEach("statefulsets", bySide, `{"spec":{"template":{"metadata":{"annotations":null},"spec":{"containers":[{"name":"web","image":"web:1"}]}}}}`)},
				updated(3, append([]string{"part", "fifthpart", "zero"}, complete...)...),
			},
			{
				"scale in and move",
				[]Action{
					Patch("statefulsets", "fifth", `{"spec":{"replicas":1,"ordinals":{"start":6}}}`), Patch("statefulsets", "ordered", `{"spec":{"replicas":1,"ordinals":{"start":1}}}`),
					PatchEach("statefulsets", bySide, `{"spec":{"replicas":1}}`),
				},
				append(updated(1, "parallel", "fifth", "ordered", "forgetful", "zero", "short", "slow"), Has("statefulsets", "part", "{.status.replicas}", "1")),
			},
			{
				"delete",
				[]Action{Delete("statefulsets", "short", metav1.DeletePropagationForeground), Delete("statefulsets", "slow", metav1.DeletePropagationBackground)},
				[]Condition{Gone("statefulsets", "slow")},
			},
		},
	}
}

// setsUnavailable replaces several pods at a time.
func setsUnavailable() Scenario {
	const rolling = "replicas: 4, podManagementPolicy: %s, updateStrategy: {rollingUpdate: {maxUnavailable: %s, partition: %d}}"
	names := []string{"two", "half", "few", "ordered", "orderly"}
	return Scenario{
		Name:        "statefulsets-unavailable",
		Controllers: ofSets,
		Configure:   func(c *manager.Config) { c.FeatureGates = map[string]bool{"MaxUnavailableStatefulSet": true} },
		Bare:        true,
		Beside:      []func(context.Context, *world) error{Readies},
		Kinds:       []schema.GroupVersionResource{sets, pods, revisions},
		Steps: []Step{
			{
				"create",
				[]Action{createAll("StatefulSet",
					workload{name: "two", spec: fmt.Sprintf(rolling, "Parallel", "2", 0)},
					workload{name: "half", spec: fmt.Sprintf(rolling, "Parallel", "50%", 0)},
					workload{name: "few", spec: fmt.Sprintf(rolling, "Parallel", "10%", 0)},
					workload{name: "ordered", spec: fmt.Sprintf(rolling, "OrderedReady", "2", 0)},
					workload{name: "orderly", spec: fmt.Sprintf(rolling, "OrderedReady", "100%", 0)},
					workload{name: "part", spec: fmt.Sprintf(rolling, "Parallel", "3", 2)},
				)},
				updated(4, append([]string{"part"}, names...)...),
			},
			{"roll out", []Action{PatchEach("statefulsets", bySide, newImage)}, append(updated(4, names...), Has("statefulsets", "part", "{.status.availableReplicas}", "4", "{.status.updatedReplicas}", "2"))},
			{
				"roll out what does not become ready",
				[]Action{PatchEach("statefulsets", bySide, `{"spec":{"template":{"metadata":{"labels":{"stuck":"here"}}}}}`)},
				[]Condition{
					Has("statefulsets", "two", "{.status.updatedReplicas}", "2", "{.status.readyReplicas}", "2"), Has("statefulsets", "half", "{.status.updatedReplicas}", "2", "{.status.readyReplicas}", "2"),
					Has("statefulsets", "few", "{.status.updatedReplicas}", "1", "{.status.readyReplicas}", "3"), Has("statefulsets", "part", "{.status.updatedReplicas}", "2", "{.status.readyReplicas}", "2"),
				},
			},
		},
	}
}

// setsClaims has claims of every retention policy.
func setsClaims() Scenario {
	const spec = "replicas: 2, persistentVolumeClaimRetentionPolicy: {whenDeleted: %s, whenScaled: %s}, volumeClaimTemplates: [" +
		"{metadata: {name: data, labels: {of: template}, annotations: {an: annotation}}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}," +
		"{metadata: {name: log}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]"
	names := []string{"keep", "scaled", "deleted", "both"}
	return Scenario{
		Name: "statefulsets-claims",
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.StatefulSet.Enabled, &c.Controllers.GarbageCollector.Enabled, &c.Controllers.PersistentVolumeClaimProtection.Enabled}
		},
		Bare:   true,
		Beside: []func(context.Context, *world) error{Readies},
		Kinds:  []schema.GroupVersionResource{sets, pods, revisions, claims, configMaps},
		Differs: map[string]string{
			// Upstream puts the volumes of claims in any order.
			`^pods/\S+ differs: (\.spec\.volumes\[[01]\]\.(name|persistentVolumeClaim\.claimName) is "[^"]*" instead of "[^"]*"(, )?)+$`: "STS-12",
			`SuccessfulUpdate: Update Pod edited-\d in StatefulSet edited successful$`:                                                   "STS-73",
		},
		Chance: map[string]string{`^[1-9]\d* controllerrevisions/(both|scaled)-\S+ were (created|deleted)`: "STS-84"},
		Steps: []Step{
			{
				"create claims in advance",
				[]Action{
					Create("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data-both-0}, spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 2Gi}}}}"),
					Create("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data-owned-0}, spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 2Gi}}}}"),
					Create(configMap("owner")), Own("persistentvolumeclaims", "data-owned-0", "configmaps", "owner"),
				},
				nil,
			},
			{
				"create",
				[]Action{createAll("StatefulSet",
					workload{name: "keep", spec: fmt.Sprintf(spec, "Retain", "Retain")},
					workload{name: "scaled", spec: fmt.Sprintf(spec, "Retain", "Delete")},
					workload{name: "deleted", spec: fmt.Sprintf(spec, "Delete", "Retain")},
					workload{name: "both", spec: fmt.Sprintf(spec, "Delete", "Delete"), pod: "volumes: [{name: data, emptyDir: {}}, {name: other, emptyDir: {}}]"},
					workload{name: "owned", spec: fmt.Sprintf(spec, "Delete", "Delete")},
					workload{name: "edited", spec: fmt.Sprintf(spec, "Delete", "Delete")},
				)},
				append(updated(2, append([]string{"owned", "edited"}, names...)...), Count("persistentvolumeclaims", "app=keep", 4), Count("persistentvolumeclaims", "app=owned", 3)),
			},
			{
				"scale in, and edit a policy",
				[]Action{
					PatchEach("statefulsets", bySide+",app!=edited", `{"spec":{"replicas":1}}`),
					Patch("statefulsets", "edited", `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Retain"}}}`),
				},
				append(updated(1, names...), Count("persistentvolumeclaims", "app=keep", 4), Count("persistentvolumeclaims", "app=scaled", 2), Count("persistentvolumeclaims", "app=deleted", 4), Gone("persistentvolumeclaims", "data-both-1"), Count("persistentvolumeclaims", "app=both", 1), Count("persistentvolumeclaims", "app=owned", 1),
					Values("persistentvolumeclaims", "app=edited", "{.metadata.ownerReferences[*].name}", "")),
			},
			{
				"scale out again",
				[]Action{PatchEach("statefulsets", bySide, `{"spec":{"replicas":2}}`)},
				append(updated(2, append([]string{"owned", "edited"}, names...)...), Count("persistentvolumeclaims", "app=scaled", 4)),
			},
			{
				"delete",
				[]Action{
					Delete("statefulsets", "keep", metav1.DeletePropagationBackground), Delete("statefulsets", "scaled", metav1.DeletePropagationForeground),
					Delete("statefulsets", "deleted", metav1.DeletePropagationBackground), Delete("statefulsets", "both", metav1.DeletePropagationForeground),
					Delete("statefulsets", "owned", metav1.DeletePropagationBackground), Delete("statefulsets", "edited", metav1.DeletePropagationOrphan),
				},
				[]Condition{
					Gone("statefulsets", "keep"), Gone("statefulsets", "scaled"), Gone("statefulsets", "both"), Gone("statefulsets", "edited"), Count("pods", "app=keep", 0), Count("pods", "app=deleted", 0),
					Count("persistentvolumeclaims", "app=deleted", 0), Count("persistentvolumeclaims", "app=keep", 4), Count("persistentvolumeclaims", "app=scaled", 4), Count("pods", "app=owned", 0), Gone("persistentvolumeclaims", "log-owned-0"),
				},
			},
		},
	}
}

// setsFailing is about pods that end, do not become ready or belong to somebody else, and requests that are refused.
func setsFailing() Scenario {
	const template = "volumeClaimTemplates: [{metadata: {name: data, labels: {denied: create-persistentvolumeclaims}}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]"
	return Scenario{
		Name:        "statefulsets-failing",
		Controllers: ofSets,
		Bare:        true,
		Before:      []Action{Denies},
		Beside:      []func(context.Context, *world) error{Readies},
		Kinds:       []schema.GroupVersionResource{sets, pods, revisions, claims, policies, policyBindings},
		Steps: []Step{
			{
				"create",
				[]Action{
					Create(barePod("taken-0", "other: pod", "")), Create(barePod("adopting-0", "app: adopting", "")), Create(barePod("adopting-7", "app: adopting", "")), Create(barePod("adopting-x", "app: adopting", "")),
					createAll("StatefulSet",
						workload{name: "ending", spec: "replicas: 3"},
						workload{name: "endingparallel", spec: "replicas: 3, podManagementPolicy: Parallel"},
						workload{name: "stuck", spec: "replicas: 2", labels: "stuck: here"},
						workload{name: "stuckparallel", spec: "replicas: 2, podManagementPolicy: Parallel", labels: "stuck: here"},
						workload{name: "broken", spec: "replicas: 2"},
						workload{name: "brokenparallel", spec: "replicas: 2, podManagementPolicy: Parallel"},
						workload{name: "denied", spec: "replicas: 2", labels: "denied: create-pods"},
						workload{name: "unclaimed", spec: "replicas: 2, " + template},
						workload{name: "staying", spec: "replicas: 2", labels: "denied: delete-pods"},
						workload{name: "taken", spec: "replicas: 2"},
						workload{name: "adopting", spec: "replicas: 2"},
						workload{name: "relabelled", spec: "replicas: 2, podManagementPolicy: Parallel"},
						workload{name: "released", spec: "replicas: 2"},
					),
				},
				append(append(updated(3, "ending", "endingparallel"), updated(2, "broken", "brokenparallel", "staying", "relabelled", "released")...),
					Has("statefulsets", "stuck", "{.status.replicas}", "1"), Has("statefulsets", "stuckparallel", "{.status.replicas}", "2"), Gone("pods", "adopting-7"), Has("statefulsets", "adopting", "{.status.availableReplicas}", "2")),
			},
			{
				"end and change pods, and roll out what does not become ready",
				[]Action{
					PatchStatus("pods", "ending-1", evicted), PatchStatus("pods", "ending-2", hasSucceeded), PatchStatus("pods", "endingparallel-0", evicted), PatchStatus("pods", "endingparallel-2", hasSucceeded),
					Patch("statefulsets", "broken", `{"spec":{"template":{"metadata":{"labels":{"stuck":"here"}}}}}`),
					Patch("statefulsets", "brokenparallel", `{"spec":{"template":{"metadata":{"labels":{"stuck":"here"}}}}}`),
					Patch("statefulsets", "staying", `{"spec":{"replicas":1}}`),
					Patch("pods", "released-1", `{"metadata":{"labels":{"app":"nobodys"}}}`),
					Patch("pods", "relabelled-1", `{"metadata":{"labels":{"statefulset.kubernetes.io/pod-name":"another","apps.kubernetes.io/pod-index":"9"}}}`),
					Patch("pods", "adopting-1", `{"metadata":{"labels":{"controller-revision-hash":"unknown"}}}`),
				},
				append(updated(3, "ending", "endingparallel"), Has("statefulsets", "broken", "{.status.readyReplicas}", "1", "{.status.updatedReplicas}", "1"), Has("statefulsets", "brokenparallel", "{.status.readyReplicas}", "1", "{.status.updatedReplicas}", "1"),
					Values("pods", "app=relabelled", `{.metadata.labels.statefulset\.kubernetes\.io/pod-name}`, "relabelled-0 relabelled-1"), Has("statefulsets", "adopting", "{.status.availableReplicas}", "2", "{.status.updatedReplicas}", "2")),
			},
			{
				"roll back",
				[]Action{
					Patch("statefulsets", "broken", `{"spec":{"template":{"metadata":{"labels":{"stuck":null}}}}}`),
					Patch("statefulsets", "brokenparallel", `{"spec":{"template":{"metadata":{"labels":{"stuck":null}}}}}`),
					Patch("statefulsets", "denied", `{"spec":{"template":{"metadata":{"labels":{"denied":null}}}}}`),
					Patch("pods", "staying-1", `{"metadata":{"labels":{"denied":null}}}`),
					Delete("pods", "taken-0", metav1.DeletePropagationBackground), Delete("pods", "released-1", metav1.DeletePropagationBackground),
				},
				append(updated(2, "brokenparallel", "denied", "released"), Gone("pods", "staying-1"), Has("statefulsets", "taken", "{.status.availableReplicas}", "2")),
			},
			{
				"delete the pod that holds a rollout up",
				[]Action{Delete("pods", "broken-1", metav1.DeletePropagationBackground), Delete("statefulsets", "stuck", metav1.DeletePropagationBackground)},
				updated(2, "broken"),
			},
		},
	}
}
