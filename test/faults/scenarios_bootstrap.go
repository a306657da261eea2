package faults

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// bootstrapScenarios are those of the controllers of bootstrap tokens.
func bootstrapScenarios() []Scenario { return []Scenario{bootstrapSigner(), tokenCleaner()} }

// bootstrapToken is a Secret with a token of an ID, which has six characters.
func bootstrapToken(id, more string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: bootstrap-token-%s}, type: bootstrap.kubernetes.io/token, "+
		"stringData: {token-id: %s, token-secret: 0123456789abcdef, usage-bootstrap-signing: \"true\" %s}}", id, id, more)
}

func bootstrapSigner() Scenario {
	inSystem := func(do Action) Action { return In(metav1.NamespaceSystem, do) }
	remove := func(id string) Action {
		return inSystem(Delete("secrets", "bootstrap-token-"+id, metav1.DeletePropagationBackground))
	}
	signedBy := func(ids ...string) []Condition {
		all := []Condition{}
		for _, id := range []string{"first1", "other2"} {
			all = append(all, signature(id, ids))
		}
		return all
	}
	return Scenario{
		Name:        "bootstrapsigner",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.BootstrapSigner.Enabled} },
		Kinds:       []schema.GroupVersionResource{configMaps},
		Place:       metav1.NamespacePublic,
		Steps: []Step{
			{
				"create what is signed, and a token",
				[]Action{
					inSystem(Forget("secrets", "bootstrap-token-first1")), inSystem(Forget("secrets", "bootstrap-token-other2")),
					Create("{apiVersion: v1, kind: ConfigMap, metadata: {name: cluster-info}, data: {kubeconfig: x, more: kept}}"),
					inSystem(Create(bootstrapToken("first1", ""))),
				},
				signedBy("first1"),
			},
			{"create another token", []Action{inSystem(Create(bootstrapToken("other2", "")))}, signedBy("first1", "other2")},
			{"take out a signature", []Action{Patch("configmaps", "cluster-info", `{"data":{"jws-kubeconfig-first1":null}}`)}, signedBy("first1", "other2")},
			{"delete a token", []Action{remove("first1")}, signedBy("other2")},
			{"delete the other", []Action{remove("other2")}, signedBy()},
		},
	}
}

// signature is that cluster-info has one by a token if, and only if, it is among some.
func signature(id string, among []string) Condition {
	const path = "{.data['jws-kubeconfig-%s']}"
	for _, one := range among {
		if one == id {
			return Contains("configmaps", "cluster-info", fmt.Sprintf(path, id), ".")
		}
	}
	return Has("configmaps", "cluster-info", fmt.Sprintf(path, id), "")
}

func tokenCleaner() Scenario {
	const past, future = "2020-01-01T00:00:00Z", "2120-01-01T00:00:00Z"
	expires := func(id, when string) Action {
		return Create(bootstrapToken(id, fmt.Sprintf(", expiration: %q", when)))
	}
	gone := func(id string) Condition { return Gone("secrets", "bootstrap-token-"+id) }
	return Scenario{
		Name:        "tokencleaner",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.TokenCleaner.Enabled} },
		Kinds:       []schema.GroupVersionResource{secrets},
		Place:       metav1.NamespaceSystem,
		Steps: []Step{
			{"create tokens", []Action{expires("future", future), Create(bootstrapToken("always", "")), expires("passed", past)}, []Condition{gone("passed")}},
			{"have a token expire", []Action{Patch("secrets", "bootstrap-token-future", fmt.Sprintf(`{"stringData":{"expiration":%q}}`, past))}, []Condition{gone("future")}},
			{"create it again under its name", []Action{expires("future", future)}, nil},
		},
	}
}
