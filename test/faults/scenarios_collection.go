package faults

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// collectionScenarios are those of the controllers that delete what nobody needs any more.
func collectionScenarios() []Scenario { return []Scenario{garbageCollector(), namespace()} }

func garbageCollector() Scenario {
	remove := func(name string, how metav1.DeletionPropagation) Action { return Delete("configmaps", name, how) }
	gone := func(name string) Condition { return Gone("configmaps", name) }
	owners := func(name, names string) Condition {
		return Has("configmaps", name, "{.metadata.ownerReferences[*].name}", names)
	}
	return Scenario{
		Name:        "garbagecollector",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.GarbageCollector.Enabled} },
		Kinds:       []schema.GroupVersionResource{configMaps},
		Reads:       []string{"configmaps"},
		Steps: []Step{
			{
				"create owners and dependents",
				[]Action{
					Create(configMap("back") + "\n---\n" + configMap("fore") + "\n---\n" + configMap("left") + "\n---\n" + configMap("stays")),
					CreateOwned(configMap("of-back"), "back"), CreateOwned(configMap("of-of-back"), "of-back"), CreateOwned(configMap("of-fore"), "fore"),
					CreateOwned(configMap("of-left"), "left"), CreateOwned(configMap("of-two"), "back", "stays"),
				},
				nil,
			},
			{"delete in the background", []Action{remove("back", metav1.DeletePropagationBackground)}, []Condition{gone("of-of-back"), owners("of-two", "stays")}},
			{"delete in the foreground", []Action{remove("fore", metav1.DeletePropagationForeground)}, []Condition{gone("of-fore"), gone("fore")}},
			{"delete, and orphan", []Action{remove("left", metav1.DeletePropagationOrphan)}, []Condition{gone("left"), owners("of-left", "")}},
			{
				"delete, and create again under the name",
				[]Action{remove("stays", metav1.DeletePropagationBackground), Create(configMap("stays")), CreateOwned(configMap("of-second"), "stays")},
				[]Condition{gone("of-two")},
			},
		},
	}
}

func namespace() Scenario {
	return Scenario{
		Name:        "namespace",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.Namespace.Enabled} },
		Kinds:       []schema.GroupVersionResource{configMaps, secrets, pods},
		Steps: []Step{
			{
				"fill",
				[]Action{Create(configMap("a") + "\n---\n{apiVersion: v1, kind: Secret, metadata: {name: b}}\n---\n" + podOn(0, "c"))},
				[]Condition{isReady("c")},
			},
			{"delete", []Action{DeleteNamespace}, []Condition{NamespaceGone}},
		},
	}
}
