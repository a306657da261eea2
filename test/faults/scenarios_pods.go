package faults

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

var (
	daemonSets             = appsv1.SchemeGroupVersion.WithResource("daemonsets")
	replicationControllers = corev1.SchemeGroupVersion.WithResource("replicationcontrollers")
)

// podScenarios are those of the other controllers that create pods.
func podScenarios() []Scenario { return []Scenario{daemonSet(), replicationController()} }

func daemonSet() Scenario {
	runs := func(n int) []Condition {
		number := fmt.Sprint(n)
		return []Condition{
			Has("daemonsets", "web", "{.status.desiredNumberScheduled}", number, "{.status.updatedNumberScheduled}", number, "{.status.numberReady}", number, "{.status.numberAvailable}", number),
			Count("pods", "app=web", n),
		}
	}
	return Scenario{
		Name:        "daemonset",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.DaemonSet.Enabled} },
		Kinds:       []schema.GroupVersionResource{daemonSets, pods, revisions},
		AtMost:      map[string]int{"pods/web-*": 3},
		Steps: []Step{
			{
				"create",
				[]Action{Create("apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: web}\nspec:\n  updateStrategy: {rollingUpdate: {maxUnavailable: 3}}" + template)},
				runs(3),
			},
			{"roll out", []Action{Patch("daemonsets", "web", newImage)}, runs(3)},
			{"lose a pod", []Action{DeleteOne("pods", "app=web")}, runs(3)},
			{
				"keep it to one node",
				[]Action{Patch("daemonsets", "web", `{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null},"template":{"spec":{"nodeSelector":{"kubernetes.io/hostname":"node-1"}}}}}`)},
				[]Condition{Has("daemonsets", "web", "{.status.desiredNumberScheduled}", "1", "{.status.currentNumberScheduled}", "1", "{.status.numberMisscheduled}", "0"), Count("pods", "app=web", 1)},
			},
		},
	}
}

func replicationController() Scenario {
	controller := "apiVersion: v1\nkind: ReplicationController\nmetadata: {name: web}\nspec:\n  replicas: 2" +
		strings.Replace(template, "{matchLabels: {app: web}}", "{app: web}", 1)
	ready := func(n int) []Condition {
		return []Condition{Has("replicationcontrollers", "web", "{.status.readyReplicas}", fmt.Sprint(n)), Count("pods", "app=web", n)}
	}
	return Scenario{
		Name:        "replicationcontroller",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.ReplicationController.Enabled} },
		Kinds:       []schema.GroupVersionResource{replicationControllers, pods},
		AtMost:      map[string]int{"pods/web-*": 3},
		Steps: []Step{
			{"create", []Action{Create(controller)}, ready(2)},
			{"scale out", []Action{Patch("replicationcontrollers", "web", `{"spec":{"replicas":3}}`)}, ready(3)},
			{"lose a pod", []Action{DeleteOne("pods", "app=web")}, ready(3)},
			{"scale in", []Action{Patch("replicationcontrollers", "web", `{"spec":{"replicas":1}}`)}, ready(1)},
			{
				"delete and create again under the name", // nobody collects the pod of the first
				[]Action{Delete("replicationcontrollers", "web", metav1.DeletePropagationBackground), Create(controller)},
				[]Condition{Has("replicationcontrollers", "web", "{.status.readyReplicas}", "2"), Count("pods", "app=web", 3)},
			},
		},
	}
}
