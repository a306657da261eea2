package faults

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// editedComparisons are about fields that change, pods that linger, and names that are long.
func editedComparisons() []Scenario {
	return []Scenario{deploymentsEdited(), workloadsNamed(), replicasRelated()}
}

const linger = `{"metadata":{"finalizers":["example.com/hold"]}}`

// deploymentsEdited changes further fields of Deployments, and rolls out while pods linger.
func deploymentsEdited() Scenario {
	const plus = "replicas: 2, strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}"
	terminating := func(name, n string) Condition {
		return Has("deployments", name, "{.status.terminatingReplicas}", n)
	}
	return Scenario{
		Name:        "deployments-edited",
		Controllers: ofDeployments,
		Bare:        true,
		// Upstream's manager may still name the ReplicaSet before, if it has not seen that the rollout was incomplete.
		Chance: map[string]string{`^deployments/recreating differs: \.status\.conditions\[1\]\.message is "ReplicaSet \\"recreating-6cf6995567\\" has`: "DEP-35a"},
		Beside: []func(context.Context, *world) error{Readies},
		Kinds:  []schema.GroupVersionResource{deployments, replicaSets, pods},
		Steps: []Step{
			{
				"create",
				[]Action{
					createAll("Deployment",
						workload{name: "recreating", spec: "replicas: 2, strategy: {type: Recreate}"}, workload{name: "replacing", spec: plus}, workload{name: "history"}, workload{name: "deadline"},
						workload{name: "undated", spec: "progressDeadlineSeconds: 2147483647"}, workload{name: "later"}, workload{name: "switching", spec: plus}, workload{name: "back", spec: "replicas: 2, strategy: {type: Recreate}"},
						workload{name: "scaled", spec: "replicas: 3"}, workload{name: "never", spec: "minReadySeconds: 500"}),
					Create(strings.Replace(workload{name: "expressive", spec: plus}.yaml("Deployment"), "matchLabels: {app: expressive}", "matchExpressions: [{key: app, operator: In, values: [expressive, other]}, {key: none, operator: DoesNotExist}]", 1)),
				},
				append(append(complete(2, "recreating", "replacing", "switching", "back", "expressive"), complete(1, "history", "deadline", "undated", "later")...),
					append(complete(3, "scaled"), Has("deployments", "never", "{.status.readyReplicas}", "1"))...),
			},
			{
				"roll out while pods linger, and edit",
				[]Action{
					PatchEach("pods", "app=recreating", linger), PatchEach("pods", "app=replacing", linger), PatchEach("pods", "app=scaled", linger),
					Patch("deployments", "recreating", newImage), Patch("deployments", "replacing", newImage), Patch("deployments", "scaled", `{"spec":{"replicas":0}}`), Patch("deployments", "history", newImage),
					Patch("deployments", "deadline", `{"spec":{"progressDeadlineSeconds":2147483647}}`), Patch("deployments", "undated", `{"spec":{"progressDeadlineSeconds":600}}`), Patch("deployments", "later", `{"spec":{"minReadySeconds":1}}`),
					Patch("deployments", "switching", `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null},"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}`),
					Patch("deployments", "back", `{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1,"maxUnavailable":0}},"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}`),
					Patch("deployments", "expressive", `{"spec":{"template":{"metadata":{"labels":{"app":"other"}}}}}`),
				},
				append(append(complete(2, "switching", "back"), complete(1, "history", "deadline", "undated", "later")...),
					terminating("recreating", "2"), terminating("scaled", "3"), Has("deployments", "replacing", "{.status.updatedReplicas}", "2", "{.status.replicas}", "2", "{.status.terminatingReplicas}", "2"),
					Has("deployments", "expressive", "{.status.updatedReplicas}", "2", "{.status.replicas}", "2", "{.status.availableReplicas}", "2"), progress("deadline", "")),
			},
			{
				"let the pods go, and edit the template twice",
				[]Action{
					PatchEach("pods", "app=recreating", letGo), PatchEach("pods", "app=scaled", letGo), Patch("deployments", "history", `{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`),
					Patch("deployments", "never", `{"spec":{"minReadySeconds":0}}`), Patch("deployments", "later", `{"spec":{"revisionHistoryLimit":0,"minReadySeconds":0,"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}`),
				},
				append(complete(2, "recreating"), append(complete(1, "history", "never", "later"), terminating("scaled", "0"), Count("replicasets", "app=later", 1))...),
			},
			{
				"shorten the history, and count on from another revision",
				[]Action{
					Patch("deployments", "history", `{"spec":{"revisionHistoryLimit":1}}`), PatchEach("replicasets", "app=undated", `{"metadata":{"annotations":{"deployment.kubernetes.io/revision":"8"}}}`),
					Delete("deployments", "expressive", metav1.DeletePropagationForeground), Delete("deployments", "back", metav1.DeletePropagationBackground),
				},
				append(complete(1, "undated"), Has("deployments", "undated", `{.metadata.annotations.deployment\.kubernetes\.io/revision}`, "8"), Count("replicasets", "app=history", 2), Gone("deployments", "back")),
			},
		},
	}
}

// workloadsNamed has workloads with names of which something has to be cut, or that are too long.
func workloadsNamed() Scenario {
	long := func(kind string, length int) workload {
		return workload{name: strings.ToLower(kind[:2]) + strings.Repeat("x", length-2), app: fmt.Sprintf("%s-%d", strings.ToLower(kind), length)}
	}
	var create []Action
	add := func(kind string, lengths ...int) {
		for _, length := range lengths {
			create = append(create, createAll(kind, long(kind, length)))
		}
	}
	add("Deployment", 46, 58, 63, 100, 253)
	add("ReplicaSet", 58, 63, 253)
	add("ReplicationController", 58, 63, 253)
	add("DaemonSet", 52, 63, 230)
	add("StatefulSet", 50, 52, 53)
	available := func(resource string, apps ...string) (all []Condition) {
		for _, app := range apps {
			all = append(all, Values(resource, "app="+app, "{.status.availableReplicas}{.status.numberAvailable}", "1"))
		}
		return all
	}
	return Scenario{
		Name: "workloads-named",
		Controllers: func(c *manager.Config) []**bool {
			controllers := &c.Controllers
			return append(ofDeployments(c), &controllers.ReplicationController.Enabled, &controllers.StatefulSet.Enabled, &controllers.DaemonSet.Enabled)
		},
		Bare:   true,
		Beside: []func(context.Context, *world) error{Readies},
		Kinds:  []schema.GroupVersionResource{deployments, replicaSets, replicationControllers, sets, daemonSets, revisions, pods, nodes},
		Steps: []Step{
			{
				"create", append([]Action{createNode("n1", "", "")}, create...),
				append(append(append(available("deployments", "deployment-46", "deployment-58", "deployment-63", "deployment-100", "deployment-253"), available("replicationcontrollers", "replicationcontroller-58", "replicationcontroller-63", "replicationcontroller-253")...),
					available("daemonsets", "daemonset-52", "daemonset-63", "daemonset-230")...), available("statefulsets", "statefulset-50", "statefulset-52")...),
			},
			{
				"roll out",
				[]Action{PatchEach("deployments", bySide, newImage), PatchEach("daemonsets", bySide, newImage), PatchEach("statefulsets", bySide, newImage)},
				append(append(available("deployments", "deployment-46", "deployment-58", "deployment-63", "deployment-100", "deployment-253"), available("daemonsets", "daemonset-52", "daemonset-63", "daemonset-230")...),
					Values("deployments", bySide, "{.status.updatedReplicas}", "1 1 1 1 1"), Values("statefulsets", "app=statefulset-52", "{.status.updatedReplicas}", "1"), Values("daemonsets", bySide, "{.status.updatedNumberScheduled}", "1 1 1")),
			},
		},
	}
}

// replicasRelated scales in ReplicaSets that have one owner, as those of a Deployment have, and whose pods share nodes.
func replicasRelated() Scenario {
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {app: %s, stuck: here}}, spec: {nodeName: %s, terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1"}]}}`
	var create []Action
	for _, one := range []struct{ name, node string }{
		{"mine-a", "n1"}, {"mine-b", "n1"}, {"mine-c", "n1"}, {"mine-d", "n2"}, {"mine-e", "n2"}, {"mine-f", "n3"},
		{"sister-a", "n3"}, {"sister-b", "n3"}, {"sister-c", "n3"}, {"alone-a", "n1"}, {"alone-b", "n1"},
	} {
		app, _, _ := strings.Cut(one.name, "-")
		create = append(create, Create(fmt.Sprintf(pod, one.name, app, one.node)), PatchStatus("pods", one.name, fmt.Sprintf(aReady, "2020-01-01T00:00:00Z")))
	}
	return Scenario{
		Name:        "replicasets-related",
		Controllers: ofReplicas("ReplicaSet"),
		Bare:        true,
		Kinds:       []schema.GroupVersionResource{replicaSets, pods, configMaps},
		Steps: []Step{
			// A ReplicaSet would create pods in place of those that the cache does not show: it shows all when it shows the last one.
			{"create pods", append(create, Create(configMap("owner"))), []Condition{Seen("pods", "alone-b")}},
			{
				"adopt them",
				[]Action{
					createAll("ReplicaSet", workload{name: "mine", spec: "replicas: 6"}, workload{name: "sister", spec: "replicas: 3"}, workload{name: "alone", spec: "replicas: 2"}),
					Own("replicasets", "mine", "configmaps", "owner"), Own("replicasets", "sister", "configmaps", "owner"),
				},
				[]Condition{Has("replicasets", "mine", "{.status.availableReplicas}", "6"), Has("replicasets", "sister", "{.status.availableReplicas}", "3")},
			},
			{"scale in", []Action{Patch("replicasets", "mine", `{"spec":{"replicas":5}}`)}, []Condition{Count("pods", "app=mine", 5), Gone("pods", "mine-f")}},
			{"scale in again", []Action{Patch("replicasets", "mine", `{"spec":{"replicas":2}}`)}, []Condition{Count("pods", "app=mine", 2), Has("replicasets", "mine", "{.status.replicas}", "2")}},
		},
	}
}
