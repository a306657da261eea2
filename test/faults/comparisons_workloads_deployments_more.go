package faults

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// progress is the reason of the condition Progressing of a Deployment.
func progress(name, reason string) Condition {
	return Has("deployments", name, "{.status.conditions[?(@.type=='Progressing')].reason}", reason)
}

// replicasAre is that the ReplicaSets of a Deployment have these sizes, in order.
func replicasAre(name, want string) Condition {
	return func(ctx context.Context, w *world) error {
		if err := Has("deployments", name)(ctx, w); err != nil {
			return err
		}
		return Values("replicasets", "app="+name, "{.spec.replicas}", want)(ctx, w)
	}
}

// deploymentsStuck rolls out pods that do not become ready, for longer than a deadline, and changes its mind meanwhile.
func deploymentsStuck() Scenario {
	const freed = `{"spec":{"template":{"metadata":{"labels":{"stuck":null}}}}}`
	const rolling = "progressDeadlineSeconds: 2, strategy: {rollingUpdate: {maxSurge: %s, maxUnavailable: %s}}, replicas: %d"
	return Scenario{
		Name:        "deployments-stuck",
		Controllers: ofDeployments,
		Bare:        true,
		Beside:      []func(context.Context, *world) error{Readies},
		Kinds:       []schema.GroupVersionResource{deployments, replicaSets, pods},
		Steps: []Step{
			{
				"create",
				[]Action{createAll("Deployment",
					workload{name: "never", spec: fmt.Sprintf(rolling, "1", "0", 1), labels: "stuck: here"},
					workload{name: "undone", spec: fmt.Sprintf(rolling, "1", "0", 2)},
					workload{name: "fixed", spec: fmt.Sprintf(rolling, "1", "0", 2)},
					workload{name: "grown", spec: fmt.Sprintf(rolling, "4", "0", 8)},
					workload{name: "shrunk", spec: fmt.Sprintf(rolling, "50%", "25%", 8)},
					workload{name: "zeroed", spec: fmt.Sprintf(rolling, "2", "0", 4)},
					workload{name: "stopped", spec: fmt.Sprintf(rolling, "2", "1", 4)},
					workload{name: "patient", spec: "replicas: 2, progressDeadlineSeconds: 2147483647"},
					workload{name: "renewed", spec: "replicas: 2, progressDeadlineSeconds: 2, strategy: {type: Recreate}"},
					workload{name: "third", spec: fmt.Sprintf(rolling, "2", "0", 5)},
				)},
				append(append(append(complete(2, "undone", "patient", "renewed", "fixed"), append(complete(4, "zeroed", "stopped"), complete(8, "grown", "shrunk")...)...), complete(5, "third")...),
					progress("never", "ProgressDeadlineExceeded"), progress("grown", "NewReplicaSetAvailable"), progress("shrunk", "NewReplicaSetAvailable"), progress("third", "NewReplicaSetAvailable")),
			},
			{
				"roll out",
				[]Action{PatchEach("deployments", bySide, `{"spec":{"template":{"metadata":{"labels":{"stuck":"here"},"annotations":{"a":"b"}}}}}`)},
				[]Condition{
					progress("never", "ProgressDeadlineExceeded"), progress("undone", "ProgressDeadlineExceeded"), progress("fixed", "ProgressDeadlineExceeded"), progress("grown", "ProgressDeadlineExceeded"),
					progress("shrunk", "ProgressDeadlineExceeded"), progress("zeroed", "ProgressDeadlineExceeded"), progress("stopped", "ProgressDeadlineExceeded"), progress("renewed", "ProgressDeadlineExceeded"),
					progress("patient", ""), progress("third", "ProgressDeadlineExceeded"), replicasAre("undone", "1 2"), replicasAre("fixed", "1 2"), replicasAre("grown", "4 8"), replicasAre("shrunk", "6 6"), replicasAre("zeroed", "2 4"), replicasAre("stopped", "3 3"),
					replicasAre("patient", "1 2"), replicasAre("renewed", "0 2"), replicasAre("third", "2 5"),
				},
			},
			{
				"change everything",
				[]Action{
					Patch("deployments", "never", freed), Patch("deployments", "undone", `{"spec":{"template":{"metadata":{"labels":{"stuck":null},"annotations":null}}}}`), Patch("deployments", "fixed", freed),
					Patch("deployments", "grown", `{"spec":{"replicas":14}}`), Patch("deployments", "shrunk", `{"spec":{"replicas":5}}`), Patch("deployments", "zeroed", `{"spec":{"replicas":0}}`),
					Patch("deployments", "stopped", `{"spec":{"paused":true,"replicas":6}}`), Patch("deployments", "renewed", `{"spec":{"template":{"metadata":{"labels":{"stuck":null},"annotations":null}}}}`),
					Patch("deployments", "third", `{"spec":{"template":{"metadata":{"annotations":{"a":"c"}}}}}`),
				},
				append(append(complete(1, "never"), complete(2, "undone", "renewed", "fixed")...),
					replicasAre("grown", "12 6"), replicasAre("shrunk", "4 4"), replicasAre("zeroed", "0 0"), replicasAre("stopped", "4 4"), progress("stopped", "ProgressDeadlineExceeded"), progress("third", "ProgressDeadlineExceeded"), replicasAre("third", "0 2 5")),
			},
			{
				"free some, and resume",
				[]Action{Patch("deployments", "patient", freed), Patch("deployments", "stopped", `{"spec":{"paused":false}}`), Patch("deployments", "zeroed", `{"spec":{"replicas":2}}`)},
				append(complete(2, "patient"), progress("stopped", "ProgressDeadlineExceeded"), replicasAre("zeroed", "0 2"), progress("zeroed", "NewReplicaSetAvailable")),
			},
		},
	}
}

// deploymentsAnnotated is about annotations, revisions, rollbacks, and ReplicaSets that exist or belong to others.
func deploymentsAnnotated() Scenario {
	annotate := func(name, annotations string) Action {
		return Patch("deployments", name, `{"metadata":{"annotations":{`+annotations+`}}}`)
	}
	rollBack := func(name, to string) Action {
		return annotate(name, fmt.Sprintf(`"deprecated.deployment.rollback.to":%q`, to))
	}
	const plus = "replicas: 2, strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}"
	names := []string{"annotated", "back", "latest", "nowhere", "unchanged", "only", "renumbered", "colliding", "halted"}
	var all []workload
	for _, name := range names {
		spec := plus
		if name == "unchanged" { // it has one ReplicaSet when it loses that
			spec += ", revisionHistoryLimit: 0"
		}
		all = append(all, workload{name: name, spec: spec})
	}
	const everything = `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","deployment.kubernetes.io/desired-replicas":"77","deployment.kubernetes.io/max-replicas":"x","deployment.kubernetes.io/revision-history":"1,2","mine":"kept","deployment.kubernetes.io/other":"copied"}}}`
	return Scenario{
		Name:        "deployments-annotated",
		Controllers: ofDeployments,
		Bare:        true,
		Beside:      []func(context.Context, *world) error{Readies},
		Kinds:       []schema.GroupVersionResource{deployments, replicaSets, pods, configMaps},
		Steps: []Step{
			{
				"create",
				[]Action{
					createAll("ReplicaSet", workload{name: "adopted", spec: "replicas: 1"}, workload{name: "stranger", spec: "replicas: 1"}), createAll("Deployment", all...),
					createAll("Deployment", workload{name: "adopted", spec: plus}, workload{name: "same", spec: plus}),
					Create(strings.Replace(workload{name: "twin", spec: plus}.yaml("Deployment"), "app: twin", "app: same", 3)),
				},
				append(complete(2, append([]string{"adopted"}, names...)...), Has("deployments", "same", "{.status.availableReplicas}", "2"), Has("deployments", "twin", "{.status.availableReplicas}", "2")),
			},
			{
				"annotate, and take the name of a ReplicaSet",
				[]Action{
					PatchEach("replicasets", "app=colliding", `{"spec":{"template":{"metadata":{"annotations":{"not":"theirs"}}}}}`),
					Patch("deployments", "annotated", everything), annotate("renumbered", `"deployment.kubernetes.io/revision":"7"`), Patch("replicasets", "adopted", `{"metadata":{"labels":{"app":"released"}}}`),
				},
				append(complete(2, "annotated", "renumbered", "colliding"), Has("deployments", "colliding", "{.status.collisionCount}", "1"), Values("replicasets", "app=annotated", `{.metadata.annotations.mine}`, "kept")),
			},
			{
				"roll out",
				[]Action{
					PatchEach("deployments", bySide, newImage), annotate("annotated", `"mine":null,"second":"added"`),
				},
				complete(2, names...),
			},
			{
				"roll out something else",
				[]Action{
					Patch("deployments", "halted", `{"spec":{"paused":true,"minReadySeconds":1}}`),
					PatchEach("deployments", bySide+",app!=colliding", `{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`), Patch("deployments", "colliding", `{"spec":{"template":{"metadata":{"annotations":null},"spec":{"containers":[{"name":"web","image":"web:1"}]}}}}`),
				},
				complete(2, names[:len(names)-1]...),
			},
			{
				"roll back",
				[]Action{
					rollBack("back", "1"), rollBack("latest", "0"), rollBack("nowhere", "99"), rollBack("unchanged", "3"), rollBack("renumbered", "7"), rollBack("halted", "1"), rollBack("annotated", "2"),
				},
				append(complete(2, names[:len(names)-1]...), Has("deployments", "back", `{.metadata.annotations.deprecated\.deployment\.rollback\.to}`, "", "{.spec.template.spec.containers[0].image}", "web:1"),
					Has("deployments", "nowhere", `{.metadata.annotations.deprecated\.deployment\.rollback\.to}`, "")),
			},
			{
				"resume, and lose ReplicaSets",
				[]Action{
					Patch("deployments", "halted", `{"spec":{"paused":false}}`), DeleteOne("replicasets", "app=only"), PatchEach("replicasets", "app=unchanged", `{"metadata":{"labels":{"app":"nobodys"}}}`),
				},
				append(complete(2, "halted"), Has("deployments", "only", "{.status.availableReplicas}", "2"), Has("deployments", "unchanged", "{.status.availableReplicas}", "2", "{.status.collisionCount}", "1")),
			},
		},
	}
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
		Chance: map[string]string{`^[1-9]\d* controllerrevisions/statefulset-foreground-\S+ were (created|deleted)`: "STS-84"},
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
