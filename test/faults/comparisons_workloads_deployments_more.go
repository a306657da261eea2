package faults

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// progress is the reason of the condition Progressing of a Deployment.
func progress(name, reason string) Condition {
	return Has("deployments", name, "{.status.conditions[?(@.type=='Progressing')].reason}", reason)
}

// deploymentsDenied cannot create ReplicaSets or pods for some time.
func deploymentsDenied() Scenario {
	return Scenario{
		Name: "deployments-denied",
		Controllers: func(c *manager.Config) []**bool {
			return append(ofDeployments(c), &c.Controllers.ResourceQuota.Enabled)
		},
		Bare:   true,
		Before: []Action{Denies},
		Beside: []func(context.Context, *world) error{Readies},
		Kinds:  []schema.GroupVersionResource{deployments, replicaSets, pods, policies, policyBindings, quotas},
		Steps: []Step{
			{
				"create",
				[]Action{createAll("Deployment",
					workload{name: "nosets", spec: "replicas: 2", labels: "denied: create-replicasets"},
					workload{name: "nosetsendless", spec: "replicas: 2, progressDeadlineSeconds: 2147483647", labels: "denied: create-replicasets"},
					workload{name: "nopods", spec: "replicas: 2, progressDeadlineSeconds: 2", labels: "denied: create-pods"},
					workload{name: "nodeletion", spec: "replicas: 1, revisionHistoryLimit: 0", labels: "denied: delete-pods"},
					workload{name: "broken", spec: "replicas: 2, strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}"},
					workload{name: "recreated", spec: "replicas: 2, strategy: {type: Recreate}", labels: "denied: delete-pods"},
				)},
				append(append(complete(2, "broken", "recreated"), complete(1, "nodeletion")...), progress("nosets", "ReplicaSetCreateError"), progress("nopods", "ProgressDeadlineExceeded"),
					Has("deployments", "nopods", "{.status.conditions[?(@.type=='ReplicaFailure')].reason}", "FailedCreate")),
			},
			{
				"roll out",
				[]Action{
					Patch("deployments", "broken", `{"spec":{"template":{"metadata":{"labels":{"denied":"create-pods"}}}}}`), Patch("deployments", "nodeletion", `{"spec":{"template":{"metadata":{"labels":{"denied":"other"}}}}}`),
					Patch("deployments", "recreated", `{"spec":{"template":{"metadata":{"labels":{"denied":"other"}}}}}`),
				},
				[]Condition{
					Has("deployments", "broken", "{.status.conditions[?(@.type=='ReplicaFailure')].reason}", "FailedCreate"), Has("deployments", "nodeletion", "{.status.conditions[?(@.type=='ReplicaFailure')].reason}", "FailedDelete"),
					Has("deployments", "recreated", "{.status.conditions[?(@.type=='ReplicaFailure')].reason}", "FailedDelete"),
				},
			},
			{
				"end the causes",
				[]Action{
					Patch("deployments", "nosets", `{"spec":{"template":{"metadata":{"labels":{"denied":null}}}}}`), Patch("deployments", "nosetsendless", `{"spec":{"template":{"metadata":{"labels":{"denied":null}}}}}`),
					Patch("deployments", "nopods", `{"spec":{"template":{"metadata":{"labels":{"denied":null}}}}}`), Patch("deployments", "broken", `{"spec":{"template":{"metadata":{"labels":{"denied":null}}}}}`),
					PatchEach("pods", "denied=delete-pods", `{"metadata":{"labels":{"denied":"other"}}}`),
				},
				append(append(complete(2, "nosets", "nosetsendless", "nopods", "broken", "recreated"), complete(1, "nodeletion")...), progress("nopods", "NewReplicaSetAvailable"), progress("broken", "NewReplicaSetAvailable")),
			},
		},
	}
}

// workloadsDeleted deletes workloads of all kinds in every way, while the garbage collector runs.
func workloadsDeleted() Scenario {
	kinds := []string{"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet"}
	propagations := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
	nameOf := func(kind string, how metav1.DeletionPropagation) string {
		return strings.ToLower(kind + "-" + string(how))
	}
	var create, remove, again []Action
	var created, removed, adopted []Condition
	for _, kind := range kinds {
		resource := strings.ToLower(kind) + "s"
		for _, how := range propagations {
			name := nameOf(kind, how)
			one := workload{name: name}
			ready := Has(resource, name, "{.status.readyReplicas}{.status.numberReady}", "1")
			create, created = append(create, createAll(kind, one)), append(created, ready)
			remove, removed = append(remove, Delete(resource, name, how)), append(removed, Gone(resource, name))
			if how != metav1.DeletePropagationOrphan {
				removed = append(removed, Count("pods", "app="+name, 0))
				continue
			}
			again, adopted = append(again, createAll(kind, one)), append(adopted, ready, Count("pods", "app="+name, 1))
		}
	}
	return Scenario{
		Name: "workloads-deleted",
		Controllers: func(c *manager.Config) []**bool {
			controllers := &c.Controllers
			return append(ofDeployments(c), &controllers.ReplicationController.Enabled, &controllers.StatefulSet.Enabled, &controllers.DaemonSet.Enabled, &controllers.GarbageCollector.Enabled)
		},
		Bare:   true,
		Beside: []func(context.Context, *world) error{Readies},
		Kinds:  []schema.GroupVersionResource{deployments, replicaSets, replicationControllers, sets, daemonSets, revisions, pods, nodes},
		Steps: []Step{
			{"create", append([]Action{createNode("n1", "", "")}, create...), created},
			{"delete", remove, removed},
			{"create those again whose pods are still there", again, adopted},
			{"roll out", []Action{
				Patch("deployments", "deployment-orphan", newImage), Patch("statefulsets", "statefulset-orphan", newImage), Patch("daemonsets", "daemonset-orphan", newImage),
			}, append(append(complete(1, "deployment-orphan"), updated(1, "statefulset-orphan")...), scheduled(1, 0, "daemonset-orphan")...)},
		},
	}
}
