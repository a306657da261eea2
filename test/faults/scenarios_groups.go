package faults

import (
	"fmt"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

var podGroups = schedulingv1alpha2.SchemeGroupVersion.WithResource("podgroups")

func podGroupProtection() Scenario {
	group := func(name string) Action {
		return Create("{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {name: " + name + "}, spec: {schedulingPolicy: {basic: {}}}}")
	}
	member := func(name, group string) Action {
		return podAt(name, "node-a", fmt.Sprintf("  schedulingGroup: {podGroupName: %s}", group))
	}
	remove := func(resource, name string) Action {
		return Delete(resource, name, metav1.DeletePropagationBackground)
	}
	// held is that a group is being deleted and is still there.
	held := func(name string) Action {
		return Check(Has("podgroups", name, "{.metadata.finalizers[*]}", "scheduling.k8s.io/podgroup-protection"))
	}
	return Scenario{
		Name:        "podgroup-protection",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.PodGroupProtection.Enabled} },
		Configure:   func(c *manager.Config) { c.FeatureGates = map[string]bool{"GenericWorkload": true} },
		Kinds:       []schema.GroupVersionResource{podGroups, pods},
		Steps: []Step{
			{
				"create groups",
				[]Action{group("empty"), group("used"), group("kept"), member("a", "used"), member("b", "used"), member("c", "kept")},
				nil,
			},
			{"delete groups", []Action{remove("podgroups", "empty"), remove("podgroups", "used")}, []Condition{Gone("podgroups", "empty")}},
			{
				"end a pod, and lose the other",
				[]Action{held("used"), PatchStatus("pods", "a", `{"status":{"phase":"Succeeded"}}`), held("used"), remove("pods", "b")},
				[]Condition{Gone("podgroups", "used")},
			},
			{
				"create a group again under the name, with a pod, and delete it at once",
				[]Action{group("used"), group("empty"), member("d", "used"), remove("podgroups", "used"), remove("podgroups", "empty")},
				[]Condition{Gone("podgroups", "empty")},
			},
			{"end its pod", []Action{held("used"), PatchStatus("pods", "d", `{"status":{"phase":"Failed"}}`)}, []Condition{Gone("podgroups", "used")}},
		},
	}
}
