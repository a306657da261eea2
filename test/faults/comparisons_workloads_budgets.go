package faults

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// budgetComparisons are those of PodDisruptionBudgets.
func budgetComparisons() []Scenario { return []Scenario{budgetsCounting(), budgetsOwners()} }

// budget is one for the pods with the label app=<app>. It has no selector if that is empty.
func budget(name, app, spec string) string {
	if app != "" {
		spec += ", selector: {matchLabels: {app: " + app + "}}"
	}
	return fmt.Sprintf("{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: %s}, spec: {%s}}", name, spec)
}

// allows is what budgets say of the pods: how many there should be, are wanted healthy, are healthy, and may go.
func allows(name string, expected, desired, healthy, allowed int) Condition {
	return Has("poddisruptionbudgets", name, "{.status.expectedPods}", fmt.Sprint(expected), "{.status.desiredHealthy}", fmt.Sprint(desired),
		"{.status.currentHealthy}", fmt.Sprint(healthy), "{.status.disruptionsAllowed}", fmt.Sprint(allowed))
}

// budgetsCounting has budgets of every form, evictions, and pods that change.
func budgetsCounting() Scenario {
	return Scenario{
		Name: "poddisruptionbudgets-counting",
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.Disruption.Enabled, &c.Controllers.ReplicaSet.Enabled}
		},
		Bare:   true,
		Beside: []func(context.Context, *world) error{Readies},
		Kinds:  []schema.GroupVersionResource{budgets, replicaSets, pods},
		Differs: map[string]string{
			`^(missing|too much): event of .* MultiplePodDisruptionBudgets: .*Chose ".*" arbitrarily\.$`: "PDB-5",
			`^too much: event of .* PodDisruptionBudget toomany: Normal NoPods: `:                        "PDB-46",
		},
		Steps: []Step{
			{
				"create pods",
				[]Action{
					createAll("ReplicaSet",
						workload{name: "web", spec: "replicas: 7"}, workload{name: "small", spec: "replicas: 1"}, workload{name: "evicted", spec: "replicas: 3"},
						workload{name: "sick", spec: "replicas: 3"}, workload{name: "twice", spec: "replicas: 2"},
					),
					Create(barePod("bare-a", "app: bare", "")), Create(barePod("bare-b", "app: bare", "")), Create(barePod("bare-c", "app: bare, stuck: here", "")),
				},
				[]Condition{
					Has("replicasets", "web", "{.status.readyReplicas}", "7"), Has("replicasets", "small", "{.status.readyReplicas}", "1"), Has("replicasets", "evicted", "{.status.readyReplicas}", "3"),
					Has("replicasets", "sick", "{.status.readyReplicas}", "3"), Has("replicasets", "twice", "{.status.readyReplicas}", "2"), isReady("bare-a"), isReady("bare-b"),
				},
			},
			{
				"create budgets",
				[]Action{CreateAll(
					budget("min", "web", "minAvailable: 5"), budget("toomany", "small", "minAvailable: 100"), budget("none", "nobody", "minAvailable: 1"), budget("nonepercent", "nobody2", "minAvailable: 50%"),
					budget("everything", "evicted", "minAvailable: 1"), budget("bare", "bare", "minAvailable: 1"), budget("sick", "sick", "maxUnavailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow"),
					budget("sickly", "sick2", "maxUnavailable: 1, unhealthyPodEvictionPolicy: IfHealthyBudget"), budget("unset", "", "minAvailable: 1"), budget("neither", "web2", "minAvailable: 0"),
				)},
				[]Condition{
					allows("min", 7, 5, 7, 2), allows("toomany", 1, 100, 1, 0), allows("none", 0, 1, 0, 0), allows("nonepercent", 0, 0, 0, 0), allows("everything", 3, 1, 3, 2), allows("bare", 3, 1, 2, 1),
					allows("sick", 3, 2, 3, 1), allows("sickly", 0, 0, 0, 0), allows("unset", 0, 1, 0, 0), allows("neither", 0, 0, 0, 0),
				},
			},
			{
				"change them to percents",
				[]Action{
					Patch("poddisruptionbudgets", "min", `{"spec":{"minAvailable":"50%"}}`), Patch("poddisruptionbudgets", "toomany", `{"spec":{"minAvailable":"100%"}}`),
					Patch("poddisruptionbudgets", "bare", `{"spec":{"minAvailable":"50%"}}`), Patch("poddisruptionbudgets", "none", `{"spec":{"minAvailable":null,"maxUnavailable":"50%"}}`),
				},
				[]Condition{allows("min", 7, 4, 7, 3), allows("toomany", 1, 1, 1, 0), allows("bare", 0, 0, 2, 0), allows("none", 0, 0, 0, 0)},
			},
			{
				"change them to what may be missing",
				[]Action{
					Patch("poddisruptionbudgets", "min", `{"spec":{"minAvailable":null,"maxUnavailable":"30%"}}`), Patch("poddisruptionbudgets", "toomany", `{"spec":{"minAvailable":null,"maxUnavailable":5}}`),
					Patch("poddisruptionbudgets", "bare", `{"spec":{"minAvailable":null,"maxUnavailable":1}}`), Patch("poddisruptionbudgets", "none", `{"spec":{"maxUnavailable":"0%"}}`),
				},
				[]Condition{allows("min", 7, 4, 7, 3), allows("toomany", 1, 0, 1, 1), allows("bare", 0, 0, 2, 0), allows("none", 0, 0, 0, 0)},
			},
			{
				"evict a pod, end one, and lose some health",
				[]Action{
					evictOne("app=evicted"), PatchEach("pods", "app=sick", unready, "status"), PatchStatus("pods", "bare-a", hasSucceeded),
					Patch("pods", "bare-b", `{"metadata":{"finalizers":["example.com/hold"]}}`), Delete("pods", "bare-b", metav1.DeletePropagationBackground),
					CreateAll(budget("one", "twice", "minAvailable: 1"), budget("two", "twice", "maxUnavailable: 0")),
				},
				[]Condition{allows("everything", 3, 1, 3, 2), allows("sick", 3, 2, 0, 0), allows("one", 2, 1, 2, 1), allows("two", 2, 2, 2, 0)},
			},
			{
				"touch pods that several select",
				[]Action{
					PatchEach("pods", "app=twice", unready, "status"), PatchEach("pods", "app=small", `{"metadata":{"labels":{"app":"nobody"}}}`), Rest(time.Second),
					Patch("poddisruptionbudgets", "one", `{"metadata":{"annotations":{"a":"b"}}}`), Patch("poddisruptionbudgets", "two", `{"metadata":{"annotations":{"a":"b"}}}`), // upstream wakes one of them
				},
				[]Condition{allows("one", 2, 1, 0, 0), allows("two", 2, 2, 0, 0), Has("replicasets", "small", "{.status.readyReplicas}", "1"), Has("poddisruptionbudgets", "none", "{.status.currentHealthy}", "1")},
			},
			{
				"select everything",
				[]Action{Patch("poddisruptionbudgets", "unset", `{"spec":{"selector":{}}}`), Delete("poddisruptionbudgets", "none", metav1.DeletePropagationBackground)},
				[]Condition{Has("poddisruptionbudgets", "unset", "{.status.desiredHealthy}", "1")},
			},
		},
	}
}

// evictOne has the API server delete the first of the pods that a selector of labels selects.
func evictOne(labels string) Action {
	return func(ctx context.Context, w *world) error {
		_, list, err := w.selected(ctx, "pods", labels)
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return fmt.Errorf("no pod has the labels %s", labels)
		}
		return Evict(list.Items[0].GetName())(ctx, w)
	}
}

// budgetsOwners has pods of owners of every kind, and some that are not there.
func budgetsOwners() Scenario {
	owned := func(name, owner string) string {
		return barePod(name, "app: "+name, ", ownerReferences: [{"+owner+", controller: true}]")
	}
	const uid = "uid: 11111111-2222-3333-4444-555555555555"
	return Scenario{
		Name: "poddisruptionbudgets-owners",
		Controllers: func(c *manager.Config) []**bool {
			controllers := &c.Controllers
			return []**bool{
				&controllers.Disruption.Enabled, &controllers.ReplicaSet.Enabled, &controllers.ReplicationController.Enabled, &controllers.Deployment.Enabled, &controllers.StatefulSet.Enabled, &controllers.Job.Enabled,
			}
		},
		Bare:   true,
		Beside: []func(context.Context, *world) error{Readies},
		Kinds:  []schema.GroupVersionResource{budgets, replicaSets, replicationControllers, deployments, sets, jobs, revisions, pods, configMaps},
		Steps: []Step{
			{
				"create pods",
				[]Action{
					createAll("ReplicaSet", workload{name: "rs", spec: "replicas: 3"}), createAll("ReplicationController", workload{name: "rc", spec: "replicas: 3"}),
					createAll("Deployment", workload{name: "deployment", spec: "replicas: 3"}), createAll("StatefulSet", workload{name: "set", spec: "replicas: 3, podManagementPolicy: Parallel"}),
					Create(`{apiVersion: batch/v1, kind: Job, metadata: {name: job}, spec: {parallelism: 2, completions: 2, template: {metadata: {labels: {app: job}}, spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1"}]}}}}`),
					Create(configMap("config")), Create(barePod("config", "app: config", "")), Own("pods", "config", "configmaps", "config"),
					Create(owned("unknown", "apiVersion: example.com/v1, kind: Thing, name: thing, "+uid)),
					Create(owned("gone", "apiVersion: apps/v1, kind: ReplicaSet, name: gone, "+uid)),
					Create(owned("gonerc", "apiVersion: v1, kind: ReplicationController, name: gone, "+uid)),
					Create(owned("goneset", "apiVersion: apps/v1, kind: StatefulSet, name: gone, "+uid)),
					Create(owned("other", "apiVersion: apps/v1, kind: ReplicaSet, name: rs, "+uid)),
					Create(owned("foreign", "apiVersion: example.com/v1, kind: ReplicaSet, name: rs, "+uid)),
					Create(owned("daemon", "apiVersion: apps/v1, kind: DaemonSet, name: gone, "+uid)),
					Create(owned("version", "apiVersion: apps/v9, kind: StatefulSet, name: set, "+uid)),
					Create(owned("extension", "apiVersion: extensions/v1beta1, kind: ReplicaSet, name: rs, "+uid)),
					Create(barePod("mixed", "app: mixed", "")),
				},
				[]Condition{
					Has("replicasets", "rs", "{.status.readyReplicas}", "3"), Has("replicationcontrollers", "rc", "{.status.readyReplicas}", "3"), Has("deployments", "deployment", "{.status.readyReplicas}", "3"),
					Has("statefulsets", "set", "{.status.readyReplicas}", "3"), Has("jobs", "job", "{.status.ready}", "2"), isReady("config"), isReady("unknown"), isReady("gone"), isReady("gonerc"), isReady("goneset"), isReady("other"),
					isReady("foreign"), isReady("daemon"), isReady("version"), isReady("extension"), isReady("mixed"),
				},
			},
			{
				"create budgets",
				[]Action{CreateAll(
					budget("rs", "rs", "maxUnavailable: 1"), budget("rc", "rc", "maxUnavailable: 1"), budget("deployment", "deployment", "minAvailable: 34%"), budget("set", "set", "maxUnavailable: 34%"),
					budget("job", "job", "maxUnavailable: 1"), budget("config", "config", "maxUnavailable: 1"), budget("unknown", "unknown", "maxUnavailable: 1"), budget("gone", "gone", "maxUnavailable: 1"),
					budget("gonerc", "gonerc", "maxUnavailable: 1"), budget("goneset", "goneset", "minAvailable: 50%"), budget("other", "other", "maxUnavailable: 1"), budget("foreign", "foreign", "maxUnavailable: 1"),
					budget("daemon", "daemon", "maxUnavailable: 1"), budget("version", "version", "maxUnavailable: 1"), budget("extension", "extension", "maxUnavailable: 1"), budget("mixed", "mixed", "maxUnavailable: 1"),
				)},
				[]Condition{
					allows("rs", 3, 2, 3, 1), allows("rc", 3, 2, 3, 1), allows("deployment", 3, 2, 3, 1), allows("set", 3, 1, 3, 2), allows("job", 0, 0, 0, 0), allows("mixed", 0, 0, 1, 0),
					Has("poddisruptionbudgets", "daemon", "{.status.conditions[?(@.type=='DisruptionAllowed')].reason}", "SyncFailed"),
				},
			},
			{
				"scale the owners, and count what has owners that cannot be scaled",
				[]Action{
					Patch("replicasets", "rs", `{"spec":{"replicas":4}}`), Patch("replicationcontrollers", "rc", `{"spec":{"replicas":2}}`), Patch("deployments", "deployment", `{"spec":{"replicas":5}}`), Patch("statefulsets", "set", `{"spec":{"replicas":1}}`),
					Patch("poddisruptionbudgets", "job", `{"spec":{"maxUnavailable":null,"minAvailable":1}}`), Patch("poddisruptionbudgets", "unknown", `{"spec":{"maxUnavailable":null,"minAvailable":1}}`),
					Patch("poddisruptionbudgets", "daemon", `{"spec":{"maxUnavailable":null,"minAvailable":0}}`),
				},
				[]Condition{
					allows("rs", 4, 3, 4, 1), allows("rc", 2, 1, 2, 1), allows("deployment", 5, 2, 5, 3), allows("set", 1, 0, 1, 1), allows("job", 2, 1, 2, 1), allows("unknown", 1, 1, 1, 0), allows("daemon", 1, 0, 1, 1),
				},
			},
		},
	}
}
