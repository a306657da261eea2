package faults

import (
	"context"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// replicaComparisons are those of the two controllers that keep a number of equal pods.
func replicaComparisons() []Scenario {
	var all []Scenario
	for _, kind := range []string{"ReplicaSet", "ReplicationController"} {
		all = append(all, replicasClaiming(kind), replicasRanked(kind), replicasFailing(kind))
	}
	return all
}

var (
	policyBindings = admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings")
)

// ofReplicas enables the controller of a kind.
func ofReplicas(kind string) func(c *manager.Config) []**bool {
	return func(c *manager.Config) []**bool {
		controllers := &c.Controllers
		if kind == "ReplicaSet" {
			return []**bool{&controllers.ReplicaSet.Enabled}
		}
		return []**bool{&controllers.ReplicationController.Enabled}
	}
}

// barePod is a pod of a cluster without nodes, with further fields of its metadata.
func barePod(name, labels, metadata string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {%s}%s}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1"}]}}`, name, labels, metadata)
}

const (
	evicted       = `{"status":{"phase":"Failed","reason":"Evicted","message":"no room"}}`
	hasSucceeded  = `{"status":{"phase":"Succeeded"}}`
	withFinalizer = ", finalizers: [example.com/hold]"
	letGo         = `{"metadata":{"finalizers":null}}`
)

// replicasClaiming adopts, releases and replaces pods.
func replicasClaiming(kind string) Scenario {
	resource := strings.ToLower(kind) + "s"
	return Scenario{
		Name:        resource + "-claiming",
		Controllers: ofReplicas(kind),
		Bare:        true,
		Beside:      []func(context.Context, *world) error{Readies},
		Kinds:       []schema.GroupVersionResource{replicaSets, replicationControllers, pods, configMaps},
		Steps: []Step{
			{
				"create pods to adopt or not",
				[]Action{
					Create(barePod("orphan", "app: adopting", "")), Create(barePod("other", "app: strange", "")), Create(barePod("ended", "app: adopting, stuck: here", "")),
					Create(barePod("leaving", "app: adopting", withFinalizer)), Create(configMap("owner")), CreateOwned(barePod("owned", "app: adopting", ""), "owner"),
					Create(barePod("controlled", "app: adopting", "")), Own("pods", "controlled", "configmaps", "owner"),
					PatchStatus("pods", "ended", evicted), Delete("pods", "leaving", metav1.DeletePropagationBackground),
				},
				[]Condition{isReady("orphan"), isReady("other"), isReady("owned"), isReady("controlled"), isReady("leaving")},
			},
			{
				"create",
				[]Action{createAll(kind,
					workload{name: "adopting", spec: "replicas: 3"},
					workload{name: "surplus", spec: "replicas: 2"},
					workload{name: "zero", spec: "replicas: 0"},
					workload{name: "plain"},
					workload{name: "slow", spec: "replicas: 2, minReadySeconds: 2"},
					workload{name: "never", spec: "replicas: 2, minReadySeconds: 3600"},
					workload{name: "stuck", spec: "replicas: 2", labels: "stuck: here"},
					workload{name: "first", spec: "replicas: 1", labels: "more: labels"},
				)},
				[]Condition{
					Has(resource, "adopting", "{.status.availableReplicas}", "3"), Has(resource, "surplus", "{.status.availableReplicas}", "2"),
					Has(resource, "slow", "{.status.availableReplicas}", "2"), Has(resource, "never", "{.status.readyReplicas}", "2"),
					Has(resource, "stuck", "{.status.replicas}", "2"), Has(resource, "first", "{.status.availableReplicas}", "1"), Has(resource, "plain", "{.status.availableReplicas}", "1"),
					Has(resource, "zero", "{.status.replicas}", "0"),
				},
			},
			{
				"release, end and change pods",
				[]Action{
					Patch("pods", "orphan", `{"metadata":{"labels":{"app":"released"}}}`), // it is replaced
					Create(barePod("late", "app: surplus", "")),                           // somebody has to go
					PatchEach("pods", "app=plain", evicted, "status"),
					PatchEach("pods", "app=first", hasSucceeded, "status"),
					PatchEach("pods", "app=slow", unready, "status"),
					Patch("pods", "leaving", letGo),
					Patch(resource, "first", `{"spec":{"template":{"metadata":{"labels":{"even":"more"}}}}}`),
					Patch(resource, "never", `{"spec":{"minReadySeconds":0}}`),
					Patch(resource, "stuck", `{"spec":{"template":{"metadata":{"labels":{"even":"more"}}}}}`),
				},
				[]Condition{
					Has(resource, "adopting", "{.status.availableReplicas}", "3"), Has(resource, "surplus", "{.status.replicas}", "2"),
					Has(resource, "plain", "{.status.availableReplicas}", "1"), Has(resource, "first", "{.status.availableReplicas}", "1"),
					Has(resource, "slow", "{.status.readyReplicas}", ""), Has(resource, "never", "{.status.availableReplicas}", "2"),
					Gone("pods", "leaving"),
				},
			},
			{
				"scale, and hold pods",
				[]Action{
					PatchEach("pods", "app=never", `{"metadata":{"finalizers":["example.com/hold"]}}`),
					PatchEach("pods", "app=stuck", `{"metadata":{"finalizers":["example.com/hold"]}}`),
					PatchEach(resource, bySide+",app!=adopting", `{"spec":{"replicas":1}}`), // of those, chance would choose one
				},
				[]Condition{
					Has(resource, "never", "{.status.replicas}", "1"), Has(resource, "stuck", "{.status.replicas}", "1"), Has(resource, "zero", "{.status.availableReplicas}", "1"),
					Has(resource, "surplus", "{.status.replicas}", "1"),
				},
			},
			{
				"delete the owners without their pods",
				[]Action{
					Delete(resource, "adopting", metav1.DeletePropagationOrphan), Delete(resource, "surplus", metav1.DeletePropagationForeground),
					Delete(resource, "plain", metav1.DeletePropagationBackground),
				},
				[]Condition{Gone(resource, "plain"), Has(resource, "surplus", "{.metadata.deletionGracePeriodSeconds}", "0")},
			},
		},
	}
}

// replicasRanked scales in pods of which only one at a time is the one to go.
func replicasRanked(kind string) Scenario {
	resource := strings.ToLower(kind) + "s"
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {app: ranked, stuck: here}, annotations: {controller.kubernetes.io/pod-deletion-cost: %q}}, spec: {%s terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1"}]}}`
	const ready = `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}],"containerStatuses":[{"name":"web","ready":true,"restartCount":%d,"image":"web:1","imageID":""}]}}`
	const old, older = "2020-01-01T00:00:00Z", "2010-01-01T00:00:00Z"
	const node = "nodeName: somewhere,"
	var create []Action
	add := func(name, cost, spec, status string) {
		create = append(create, Create(fmt.Sprintf(pod, name, cost, spec)))
		if status != "" {
			create = append(create, PatchStatus("pods", name, status))
		}
	}
	// In the order in which they go.
	add("a-unassigned", "100", "", fmt.Sprintf(ready, old, 0))
	add("b-pending", "100", node, "")
	add("c-unknown", "100", node, `{"status":{"phase":"Unknown"}}`)
	add("d-unready", "100", node, unready)
	add("e-cheaper", "-10", node, fmt.Sprintf(ready, old, 0))
	add("f-zero", "0", node, fmt.Sprintf(ready, "2025-01-01T00:00:00Z", 0))
	add("g-one", "1", node, fmt.Sprintf(ready, older, 0))
	add("h-younger", "7", node, fmt.Sprintf(ready, "2026-11-29T00:00:00Z", 0))
	add("i-restarted", "7", node, fmt.Sprintf(ready, older, 3))
	add("j-last", "7", node, fmt.Sprintf(ready, older, 0))
	add("k-dearest", "2147483647", node, fmt.Sprintf(ready, older, 0))
	scale := func(n int) Step {
		return Step{
			fmt.Sprintf("scale in to %d", n),
			[]Action{Patch(resource, "ranked", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))},
			[]Condition{Has(resource, "ranked", "{.status.replicas}", fmt.Sprint(n)), Count("pods", "app=ranked", n)},
		}
	}
	return Scenario{
		Name:        resource + "-ranked",
		Controllers: ofReplicas(kind),
		Bare:        true,
		Kinds:       []schema.GroupVersionResource{replicaSets, replicationControllers, pods},
		Steps: []Step{
			{"create pods", create, []Condition{Seen("pods", "k-dearest")}},
			{"adopt them", []Action{createAll(kind, workload{name: "ranked", spec: "replicas: 11"})}, []Condition{Has(resource, "ranked", "{.status.replicas}", "11")}},
			scale(9), scale(7), scale(6), scale(5), scale(4), scale(3), scale(1),
		},
	}
}

// replicasFailing cannot create or delete pods for some time.
func replicasFailing(kind string) Scenario {
	resource := strings.ToLower(kind) + "s"
	const path = "{.status.conditions[?(@.type=='ReplicaFailure')].reason}"
	fails := func(name, reason string) Condition { return Has(resource, name, path, reason) }
	return Scenario{
		Name: resource + "-failing",
		Controllers: func(c *manager.Config) []**bool {
			return append(ofReplicas(kind)(c), &c.Controllers.ResourceQuota.Enabled)
		},
		Bare:   true,
		Before: []Action{Denies},
		Beside: []func(context.Context, *world) error{Readies},
		Kinds:  []schema.GroupVersionResource{replicaSets, replicationControllers, pods, policies, policyBindings, quotas},
		Steps: []Step{
			{
				"create quotas",
				[]Action{Create("{apiVersion: v1, kind: ResourceQuota, metadata: {name: web}, spec: {hard: {requests.example.com/things: 2}}}")},
				[]Condition{Has("resourcequotas", "web", `{.status.used.requests\.example\.com/things}`, "0")},
			},
			{
				"create",
				[]Action{createAll(kind,
					workload{name: "denied", spec: "replicas: 2", labels: "denied: create-pods"},
					workload{name: "staying", spec: "replicas: 3", labels: "denied: delete-pods"},
					workload{name: "gone", spec: "replicas: 2", labels: "denied: create-pods"},
					workload{name: "accountless", spec: "replicas: 1", pod: "priorityClassName: nowhere"},
				)},
				[]Condition{
					fails("denied", "FailedCreate"), fails("gone", "FailedCreate"), fails("accountless", "FailedCreate"), Has(resource, "staying", "{.status.availableReplicas}", "3"),
				},
			},
			{
				"want more than a quota allows",
				[]Action{Create(strings.ReplaceAll(workload{name: "greedy", spec: "replicas: 3"}.yaml(kind), `image: "web:1"`, `image: "web:1", resources: {limits: {example.com/things: 1}}`))},
				[]Condition{fails("greedy", "FailedCreate"), Has(resource, "greedy", "{.status.availableReplicas}", "2")},
			},
			{
				"scale in",
				[]Action{Patch(resource, "staying", `{"spec":{"replicas":1}}`), Patch(resource, "gone", `{"spec":{"replicas":0}}`)},
				[]Condition{fails("staying", "FailedDelete"), fails("gone", "")},
			},
			{
				"end the causes",
				[]Action{
					Patch(resource, "denied", `{"spec":{"template":{"metadata":{"labels":{"denied":null}}}}}`),
					PatchEach("pods", "app=staying", `{"metadata":{"labels":{"denied":null}}}`),
					Patch(resource, "accountless", `{"spec":{"template":{"spec":{"priorityClassName":null}}}}`),
				},
				[]Condition{
					fails("denied", ""), fails("accountless", ""), fails("staying", ""), Has(resource, "denied", "{.status.availableReplicas}", "2"), Has(resource, "staying", "{.status.availableReplicas}", "1"),
				},
			},
			{
				"raise the quota", // a takeover between would retry at once what may otherwise be retried seconds later
				[]Action{
					Patch("resourcequotas", "web", `{"spec":{"hard":{"requests.example.com/things":"5"}}}`),
					Repeat(Action(Has("resourcequotas", "web", `{.status.hard.requests\.example\.com/things}`, "5"))),
					Patch(resource, "greedy", `{"spec":{"minReadySeconds":1}}`),
				},
				[]Condition{fails("greedy", ""), Has(resource, "greedy", "{.status.availableReplicas}", "3")},
			},
		},
	}
}
