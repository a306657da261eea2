package faults

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

var (
	pods        = corev1.SchemeGroupVersion.WithResource("pods")
	replicaSets = appsv1.SchemeGroupVersion.WithResource("replicasets")
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
	sets        = appsv1.SchemeGroupVersion.WithResource("statefulsets")
	revisions   = appsv1.SchemeGroupVersion.WithResource("controllerrevisions")
	jobs        = batchv1.SchemeGroupVersion.WithResource("jobs")
)

// template is the pod template of all workloads; what has to follow it is indented less.
const template = `
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: web, image: "web:1"}]
`

// newImage changes the template.
const newImage = `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}`

func replicaSet() Scenario {
	return Scenario{
		Name:        "replicaset",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.ReplicaSet.Enabled} },
		Kinds:       []schema.GroupVersionResource{replicaSets, pods},
		AtMost:      map[string]int{"pods/web-*": 5},
		// With a cache of pods that is behind, nobody can know of the pod that is to be adopted.
		Spare: map[string]int{"pods/web-*": 1},
		Steps: []Step{
			{
				"create a pod to adopt",
				[]Action{Create("{apiVersion: v1, kind: Pod, metadata: {name: orphan, labels: {app: web}}, spec: {containers: [{name: web, image: w}], terminationGracePeriodSeconds: 0}}")},
				[]Condition{Has("pods", "orphan", "{.status.phase}", "Running")},
			},
			{
				"create",
				[]Action{
					Create("apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web}\nspec:\n  replicas: 3" + template),
				},
				[]Condition{Has("replicasets", "web", "{.status.readyReplicas}", "3"), Count("pods", "app=web", 3)},
			},
			{
				"scale out",
				[]Action{Patch("replicasets", "web", `{"spec":{"replicas":5}}`)},
				[]Condition{Has("replicasets", "web", "{.status.readyReplicas}", "5"), Count("pods", "app=web", 5)},
			},
			{
				"lose a pod",
				[]Action{Delete("pods", "orphan", metav1.DeletePropagationBackground)},
				[]Condition{Gone("pods", "orphan"), Has("replicasets", "web", "{.status.readyReplicas}", "5"), Count("pods", "app=web", 5)},
			},
			{
				"scale in",
				[]Action{Patch("replicasets", "web", `{"spec":{"replicas":1}}`)},
				[]Condition{Has("replicasets", "web", "{.status.replicas}", "1"), Count("pods", "app=web", 1)},
			},
			{
				"delete and create again under the name", // nobody collects the pod of the first
				[]Action{
					Delete("replicasets", "web", metav1.DeletePropagationBackground),
					Create("apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web}\nspec:\n  replicas: 2" + template),
				},
				[]Condition{Has("replicasets", "web", "{.status.readyReplicas}", "2"), Count("pods", "app=web", 3)},
			},
		},
	}
}

func deployment() Scenario {
	available := func(n string) []Condition {
		return []Condition{
			Has("deployments", "web", "{.status.replicas}", n, "{.status.updatedReplicas}", n, "{.status.availableReplicas}", n),
			Count("pods", "app=web", int(n[0]-'0')),
		}
	}
	return Scenario{
		Name: "deployment",
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.Deployment.Enabled, &c.Controllers.ReplicaSet.Enabled}
		},
		Kinds: []schema.GroupVersionResource{deployments, replicaSets, pods},
		Steps: []Step{
			{"create", []Action{Create("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 3" + template)}, available("3")},
			{"roll out", []Action{Patch("deployments", "web", newImage)}, available("3")},
			{"roll back and scale out", []Action{
				Patch("deployments", "web", `{"spec":{"replicas":4,"template":{"spec":{"containers":[{"name":"web","image":"web:1"}]}}}}`),
			}, available("4")},
		},
	}
}

func statefulSet() Scenario {
	return Scenario{
		Name:        "statefulset",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.StatefulSet.Enabled} },
		Kinds:       []schema.GroupVersionResource{sets, pods, revisions},
		AtMost:      map[string]int{"pods/web-0": 1, "pods/web-1": 1, "pods/web-2": 1},
		Steps: []Step{
			{
				"create",
				[]Action{Create("apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: web}\nspec:\n  serviceName: web\n  replicas: 3" + template)},
				[]Condition{Has("statefulsets", "web", "{.status.availableReplicas}", "3"), Count("pods", "app=web", 3)},
			},
			{
				"roll out from the end to a partition",
				[]Action{
					Patch("statefulsets", "web", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":1}}}}`),
					Patch("statefulsets", "web", newImage),
				},
				[]Condition{Has("statefulsets", "web", "{.status.updatedReplicas}", "2", "{.status.availableReplicas}", "3"), Count("pods", "app=web", 3)},
			},
			{
				"scale in",
				[]Action{Patch("statefulsets", "web", `{"spec":{"replicas":1}}`)},
				[]Condition{Has("statefulsets", "web", "{.status.replicas}", "1"), Count("pods", "app=web", 1)},
			},
		},
	}
}

func job() Scenario {
	return Scenario{
		Name:        "job",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.Job.Enabled} },
		Kinds:       []schema.GroupVersionResource{jobs, pods},
		AtMost:      map[string]int{"pods/web-*": 2},
		Steps: []Step{{
			"run",
			[]Action{Create(`
apiVersion: batch/v1
kind: Job
metadata: {name: web}
spec:
  completions: 4
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers: [{name: web, image: "web:1"}]
`)},
			[]Condition{Has("jobs", "web", "{.status.succeeded}", "4", "{.status.active}", "", "{.status.conditions[?(@.type=='Complete')].status}", "True")},
		}},
	}
}
