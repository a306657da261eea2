package faults

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

func bootstrapComparisons() []Scenario { return []Scenario{signerCorners(), cleanerCorners()} }

// inSystem does something in the namespace of the system.
func inSystem(do Action) Action { return In(metav1.NamespaceSystem, do) }

// bootstrapSecret is a Secret of the type for bootstrap tokens, with any name and data.
func bootstrapSecret(name, data string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s}, type: bootstrap.kubernetes.io/token, stringData: {%s}}", name, data)
}

func signerCorners() Scenario {
	const valid = `token-id: %s, token-secret: 0123456789abcdef, usage-bootstrap-signing: "true"`
	secrets := map[string]string{}
	token := func(id, data string) { secrets["bootstrap-token-"+id] = data }
	token("plain0", fmt.Sprintf(valid, "plain0"))
	token("short0", `token-id: short0, token-secret: x, usage-bootstrap-signing: "true"`)
	token("long00", `token-id: long00, token-secret: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef, usage-bootstrap-signing: "true"`)
	token("nocode", `token-id: nocode, usage-bootstrap-signing: "true"`)
	token("empty0", `token-id: empty0, token-secret: "", usage-bootstrap-signing: "true"`)
	token("noid00", `token-secret: 0123456789abcdef, usage-bootstrap-signing: "true"`)
	token("other0", fmt.Sprintf(valid, "plain0"))
	token("nouse0", "token-id: nouse0, token-secret: 0123456789abcdef")
	token("usenot", `token-id: usenot, token-secret: 0123456789abcdef, usage-bootstrap-signing: "false"`)
	token("usecap", `token-id: usecap, token-secret: 0123456789abcdef, usage-bootstrap-signing: "True"`)
	token("auth00", `token-id: auth00, token-secret: 0123456789abcdef, usage-bootstrap-authentication: "true"`)
	token("both00", fmt.Sprintf(valid, "both00")+`, usage-bootstrap-authentication: "true", auth-extra-groups: "system:bootstrappers:x", description: text`)
	token("past00", fmt.Sprintf(valid, "past00")+`, expiration: "2020-01-01T00:00:00Z"`)
	token("future", fmt.Sprintf(valid, "future")+`, expiration: "2120-01-01T00:00:00Z"`)
	token("zone00", fmt.Sprintf(valid, "zone00")+`, expiration: "2120-01-01T00:00:00+02:00"`)
	token("notime", fmt.Sprintf(valid, "notime")+`, expiration: "tomorrow"`)
	token("noexpi", fmt.Sprintf(valid, "noexpi")+`, expiration: ""`)
	token("space0", fmt.Sprintf(valid, "space0")+`, expiration: " 2120-01-01T00:00:00Z"`)
	token("Upper0", "")
	token("toolong", fmt.Sprintf(valid, "toolong"))
	delete(secrets, "bootstrap-token-Upper0") // no Secret can have that name
	secrets["token-prefix"] = fmt.Sprintf(valid, "prefix")
	var create []Action
	for name, data := range secrets {
		create = append(create, inSystem(Forget("secrets", name)), inSystem(Create(bootstrapSecret(name, data))))
	}
	create = append(create, inSystem(Forget("secrets", "bootstrap-token-opaque")),
		inSystem(Create("{apiVersion: v1, kind: Secret, metadata: {name: bootstrap-token-opaque}, stringData: {"+fmt.Sprintf(valid, "opaque")+"}}")))
	var forget []Action
	for name := range secrets {
		forget = append(forget, inSystem(Forget("secrets", name)))
	}
	forget = append(forget, inSystem(Forget("secrets", "bootstrap-token-opaque")))
	signed := func(id string) Condition {
		return Contains("configmaps", "cluster-info", "{.data.jws-kubeconfig-"+id+"}", ".")
	}
	unsigned := func(id string) Condition {
		return Has("configmaps", "cluster-info", "{.data.jws-kubeconfig-"+id+"}", "")
	}
	return Scenario{
		Name:        "bootstrap-signatures",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.BootstrapSigner.Enabled} },
		Kinds:       []schema.GroupVersionResource{configMaps},
		Place:       metav1.NamespacePublic,
		Steps: []Step{
			{
				"create tokens of all kinds, and what is signed, with signatures that are wrong",
				append(create, Create(`
apiVersion: v1
kind: ConfigMap
metadata: {name: cluster-info, labels: {a: b}, annotations: {c: d}}
data: {kubeconfig: "text\nof two lines ü", more: kept, jws-kubeconfig-plain0: wrong, jws-kubeconfig-gone00: wrong, jws-kubeconfig-past00: wrong, jws-kubeconfig-: wrong, jws-kubeconfig: kept}
binaryData: {binary: eA==}
`), Create("{apiVersion: v1, kind: ConfigMap, metadata: {name: other-info}, data: {kubeconfig: x, jws-kubeconfig-gone00: kept}}")),
				[]Condition{signed("plain0"), signed("future"), unsigned("gone00"), unsigned("past00")},
			},
			{
				"change tokens",
				[]Action{
					inSystem(Patch("secrets", "bootstrap-token-plain0", `{"stringData":{"token-secret":"changed"}}`)),
					inSystem(Patch("secrets", "bootstrap-token-future", `{"stringData":{"expiration":"2020-01-01T00:00:00Z"}}`)),
					inSystem(Patch("secrets", "bootstrap-token-past00", `{"data":{"expiration":null}}`)),
					inSystem(Patch("secrets", "bootstrap-token-nouse0", `{"stringData":{"usage-bootstrap-signing":"true"}}`)),
					inSystem(Patch("secrets", "bootstrap-token-both00", `{"stringData":{"usage-bootstrap-signing":""}}`)),
					inSystem(Patch("secrets", "bootstrap-token-zone00", `{"metadata":{"finalizers":["example.com/kept"]}}`)),
					inSystem(Delete("secrets", "bootstrap-token-zone00", metav1.DeletePropagationBackground)),
					inSystem(Delete("secrets", "bootstrap-token-short0", metav1.DeletePropagationBackground)),
				},
				[]Condition{signed("past00"), signed("nouse0"), unsigned("future"), unsigned("both00"), unsigned("short0")},
			},
			{"change what is signed", []Action{Patch("configmaps", "cluster-info", `{"data":{"kubeconfig":"","jws-kubeconfig-plain0":null}}`)}, []Condition{signed("plain0")}},
			{
				"take out what is signed, and let a token go",
				[]Action{
					Patch("configmaps", "cluster-info", `{"data":{"kubeconfig":null}}`),
					inSystem(Patch("secrets", "bootstrap-token-zone00", `{"metadata":{"finalizers":null}}`)),
				},
				nil,
			},
			{
				"delete the ConfigMap, and create it again",
				[]Action{
					Delete("configmaps", "cluster-info", metav1.DeletePropagationBackground),
					Create("{apiVersion: v1, kind: ConfigMap, metadata: {name: cluster-info}, data: {kubeconfig: again}}"),
				},
				[]Condition{signed("plain0")},
			},
			{"delete all tokens", forget, []Condition{unsigned("plain0")}},
		},
	}
}

// expiring creates a token that expires in some time.
func expiring(id string, in time.Duration) Action {
	return func(ctx context.Context, w *world) error {
		return Create(bootstrapToken(id, fmt.Sprintf(", expiration: %q", time.Now().Add(in).UTC().Format(time.RFC3339))))(ctx, w)
	}
}

func cleanerCorners() Scenario {
	gone := func(id string) Condition { return Gone("secrets", "bootstrap-token-"+id) }
	expires := func(name, when string) Action {
		return Create(bootstrapSecret(name, fmt.Sprintf("expiration: %q", when)))
	}
	change := func(id, when string) Action {
		return Patch("secrets", "bootstrap-token-"+id, fmt.Sprintf(`{"stringData":{"expiration":%q}}`, when))
	}
	return Scenario{
		Name:        "bootstrap-expirations",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.TokenCleaner.Enabled} },
		Kinds:       []schema.GroupVersionResource{secrets},
		Place:       metav1.NamespaceSystem,
		Steps: []Step{
			{
				"create tokens",
				[]Action{
					expiring("soon00", 3*time.Second), expiring("later0", 7*time.Second), expiring("extend", time.Hour), expiring("kept00", time.Hour), Create(bootstrapToken("always", "")),
					expires("anything", "2020-01-01T00:00:00Z"), expires("bootstrap-token-notime", "tomorrow"), expires("bootstrap-token-empty0", ""), expires("bootstrap-token-zone00", "2020-01-01T00:00:00+14:00"),
					expires("bootstrap-token-space0", " 2120-01-01T00:00:00Z"), expires("bootstrap-token-nofrac", "2120-01-01T00:00:00.5Z"), expires("bootstrap-token-lower0", "2120-01-01t00:00:00z"), expires("bootstrap-token-day000", "2120-01-01"),
					Create(`{apiVersion: v1, kind: Secret, metadata: {name: bootstrap-token-final0, finalizers: [example.com/kept]}, type: bootstrap.kubernetes.io/token, stringData: {expiration: "2020-01-01T00:00:00Z"}}`),
					Create(`{apiVersion: v1, kind: Secret, metadata: {name: bootstrap-token-immut0}, immutable: true, type: bootstrap.kubernetes.io/token, stringData: {expiration: "2020-01-01T00:00:00Z"}}`),
					Create(`{apiVersion: v1, kind: Secret, metadata: {name: bootstrap-token-opaque}, stringData: {expiration: "2020-01-01T00:00:00Z"}}`),
				},
				[]Condition{gone("soon00"), gone("later0"), Gone("secrets", "anything"), gone("notime"), gone("zone00"), gone("space0"), gone("day000"), gone("immut0")},
			},
			{
				"change expirations",
				[]Action{change("extend", "2120-01-01T00:00:00Z"), change("kept00", "2020-01-01T00:00:00Z"), change("empty0", "garbage"), change("always", "2020-01-01T00:00:00Z"), expiring("soon00", 2*time.Second)},
				[]Condition{gone("kept00"), gone("empty0"), gone("always"), gone("soon00")},
			},
			{
				"let one go, and create one again",
				[]Action{Patch("secrets", "bootstrap-token-final0", `{"metadata":{"finalizers":null}}`), Create(bootstrapToken("always", ""))},
				[]Condition{gone("final0")},
			},
		},
	}
}
