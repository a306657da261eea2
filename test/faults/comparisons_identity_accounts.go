package faults

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/manager"
)

func accountComparisons() []Scenario { return []Scenario{accountCorners(), tokenCorners()} }

// accountCorners has what users may do to default accounts and published certificates, in a namespace that ends.
func accountCorners() Scenario {
	const root = "kube-root-ca.crt"
	const described = `{.metadata.annotations.kubernetes\.io/description}`
	published := []Condition{Contains("configmaps", root, "{.data.ca\\.crt}", "BEGIN CERTIFICATE"), Contains("configmaps", root, described, "Contains a CA"), Has("configmaps", root, "{.data.more}", "")}
	return Scenario{
		Name: "accounts-and-certificates",
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.ServiceAccount.Enabled, &c.Controllers.RootCACertificatePublisher.Enabled}
		},
		Kinds: []schema.GroupVersionResource{serviceAccounts, configMaps},
		Steps: []Step{
			{
				"change what was made, and delete other accounts",
				[]Action{
					Repeat(Patch("serviceaccounts", "default", `{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}},"automountServiceAccountToken":false,"imagePullSecrets":[{"name":"x"}],"secrets":[{"name":"y"}]}`)),
					Create("{apiVersion: v1, kind: ServiceAccount, metadata: {name: other}}\n---\n{apiVersion: v1, kind: ServiceAccount, metadata: {name: kept, finalizers: [example.com/kept]}}"),
					Delete("serviceaccounts", "other", metav1.DeletePropagationBackground),
					Delete("serviceaccounts", "kept", metav1.DeletePropagationBackground),
					Repeat(Patch("configmaps", root, `{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}},"data":{"more":"x"},"binaryData":{"bin":"eA=="}}`)),
				},
				append([]Condition{Gone("serviceaccounts", "other")}, published...),
			},
			{
				"describe the certificates in another way",
				[]Action{Patch("configmaps", root, `{"metadata":{"annotations":{"kubernetes.io/description":"mine"}},"binaryData":null}`)},
				[]Condition{Has("configmaps", root, described, "mine")},
			},
			{"change them with that", []Action{Patch("configmaps", root, `{"data":null}`)}, published},
			{"take out the description", []Action{Patch("configmaps", root, `{"metadata":{"annotations":null}}`)}, published},
			{
				"delete all, and keep the certificates by a finalizer",
				[]Action{
					Delete("serviceaccounts", "default", metav1.DeletePropagationBackground),
					Patch("configmaps", root, `{"metadata":{"finalizers":["example.com/kept"]},"data":{"ca.crt":""}}`),
					Delete("configmaps", root, metav1.DeletePropagationBackground),
				},
				published,
			},
			{
				"let them go, and make those that follow immutable",
				[]Action{Patch("configmaps", root, `{"metadata":{"finalizers":null}}`), Repeat(Patch("configmaps", root, `{"immutable":true}`))},
				published,
			},
			{"have the namespace end", []Action{DeleteNamespace}, nil},
			{
				"delete what there is in it",
				[]Action{Delete("serviceaccounts", "default", metav1.DeletePropagationBackground), Delete("configmaps", root, metav1.DeletePropagationBackground)},
				[]Condition{Gone("configmaps", root)},
			},
		},
	}
}

// TokenSecret creates a Secret of the type for tokens of accounts, which names the UID of an account that exists.
func TokenSecret(name, account string) Action {
	return func(ctx context.Context, w *world) error {
		a, err := w.admin.CoreV1().ServiceAccounts(w.namespace).Get(ctx, account, metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, err = w.admin.CoreV1().Secrets(w.namespace).Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account, corev1.ServiceAccountUIDKey: string(a.UID)}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}, metav1.CreateOptions{})
		return err
	}
}

// NameUID has the annotation of a Secret name the UID of an account.
func NameUID(secret, account string) Action {
	return func(ctx context.Context, w *world) error {
		a, err := w.admin.CoreV1().ServiceAccounts(w.namespace).Get(ctx, account, metav1.GetOptions{})
		if err != nil {
			return err
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{corev1.ServiceAccountNameKey: account, corev1.ServiceAccountUIDKey: a.UID}}})
		if err != nil {
			return fmt.Errorf("encoding a patch: %w", err)
		}
		_, err = w.admin.CoreV1().Secrets(w.namespace).Patch(ctx, secret, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
}

func tokenCorners() Scenario {
	account := func(name, more string) Action {
		return Create("{apiVersion: v1, kind: ServiceAccount, metadata: {name: " + name + more + "}}")
	}
	secret := func(name, account, annotations, more string) Action {
		return Create(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s, annotations: {kubernetes.io/service-account.name: %q %s}}, type: kubernetes.io/service-account-token %s}", name, account, annotations, more))
	}
	filled := func(name string) Condition {
		return Contains("secrets", name, "{.data.token}", "ZXlK") // a token begins with this in base64
	}
	remove := func(resource, name string) Action { return Delete(resource, name, metav1.DeletePropagationBackground) }
	const wrongUID = `, kubernetes.io/service-account.uid: "12345678-1234-1234-1234-123456789012"`
	references := func(want string) Condition { return Has("serviceaccounts", "robot", "{.secrets[*].name}", want) }
	return Scenario{
		Name:        "account-tokens",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.ServiceAccountToken.Enabled} },
		Kinds:       []schema.GroupVersionResource{serviceAccounts, secrets},
		Steps: []Step{
			{
				"create accounts, and Secrets of all kinds",
				[]Action{
					account("robot", ", labels: {a: b}"), account("other", ""), account("leaving", ", finalizers: [example.com/kept]"), account("again", ""),
					secret("plain", "robot", "", ""),
					TokenSecret("with-uid", "robot"),
					secret("empty-uid", "robot", `, kubernetes.io/service-account.uid: ""`, ""),
					secret("wrong-uid", "robot", wrongUID, ""),
					secret("nobody", "nobody", "", ""),
					secret("nobody-kept", "nobody", "", ""),
					secret("own-token", "robot", "", ", stringData: {token: mine}"),
					secret("own-namespace", "robot", "", ", stringData: {namespace: elsewhere}"),
					secret("own-certificate", "robot", "", ", stringData: {ca.crt: mine}"),
					secret("own-all", "robot", "", ", stringData: {ca.crt: mine, namespace: elsewhere, token: mine, more: x}"),
					secret("more", "robot", `, a: b`, ", stringData: {more: x}"),
					secret("complete", "robot", "", ", stringData: {namespace: elsewhere, token: mine}"),
					secret("immutable", "robot", "", ", immutable: true, stringData: {token: mine}"),
					secret("kept", "leaving", "", ""), secret("of-again", "again", "", ""), TokenSecret("uid-of-again", "again"),
					secret("moving", "robot", "", ""), secret("moved", "robot", "", ""), secret("renamed", "robot", "", ""),
					Create("{apiVersion: v1, kind: Secret, metadata: {name: opaque, annotations: {kubernetes.io/service-account.name: robot}}, type: Opaque}"),
					Create("{apiVersion: v1, kind: Secret, metadata: {name: opaque-kept, annotations: {kubernetes.io/service-account.name: nobody}}, type: Opaque}"),
					Patch("serviceaccounts", "robot", `{"secrets":[{"name":"plain"},{"name":"opaque"},{"name":"never"},{"name":"with-uid","namespace":"elsewhere"},{"name":"plain"},{"name":"more","uid":"x"}],"imagePullSecrets":[{"name":"plain"}]}`),
					Patch("serviceaccounts", "other", `{"secrets":[{"name":"plain"}]}`),
				},
				[]Condition{
					filled("plain"), filled("with-uid"), filled("empty-uid"), Gone("secrets", "wrong-uid"), Gone("secrets", "nobody"), filled("own-namespace"), filled("own-certificate"),
					filled("more"), filled("kept"), filled("of-again"), filled("moving"), filled("moved"), filled("renamed"), Contains("secrets", "own-token", "{.data.ca\\.crt}", "LS0t"), Contains("secrets", "own-all", "{.data.ca\\.crt}", "LS0t"),
				},
			},
			{
				"change and delete Secrets",
				[]Action{
					remove("secrets", "plain"), remove("secrets", "opaque"), remove("secrets", "more"),
					NameUID("moving", "other"), NameUID("moved", "other"), Patch("secrets", "moved", `{"data":{"token":null}}`),
					Patch("secrets", "renamed", `{"metadata":{"annotations":{"kubernetes.io/service-account.name":"other"}}}`),
					Patch("secrets", "with-uid", `{"data":{"ca.crt":"eA==","namespace":null}}`),
					Patch("secrets", "empty-uid", `{"metadata":{"annotations":{"kubernetes.io/service-account.uid":null}}}`),
					Patch("secrets", "own-token", `{"metadata":{"annotations":{"kubernetes.io/service-account.uid":null}},"data":null}`),
					Patch("secrets", "own-namespace", `{"metadata":{"finalizers":["example.com/kept"]}}`), remove("secrets", "own-namespace"),
				},
				[]Condition{references("opaque never with-uid"), Gone("secrets", "renamed"), filled("moved"), filled("own-token")},
			},
			{
				"delete accounts, one of which stays, and create one again",
				[]Action{
					remove("serviceaccounts", "other"), remove("serviceaccounts", "leaving"), remove("serviceaccounts", "again"), account("again", ""),
					secret("late", "leaving", "", ""), Delete("secrets", "with-uid", metav1.DeletePropagationBackground),
				},
				[]Condition{Gone("secrets", "moving"), Gone("secrets", "moved"), Gone("secrets", "of-again"), Gone("secrets", "uid-of-again"), filled("late"), references("opaque never")},
			},
			{
				"let the account and the Secret go",
				[]Action{
					Patch("serviceaccounts", "leaving", `{"metadata":{"finalizers":null}}`), Patch("secrets", "own-namespace", `{"metadata":{"finalizers":null}}`), Patch("secrets", "complete", `{"metadata":{"finalizers":["example.com/kept"]}}`),
					secret("of-again", "again", "", ""),
				},
				[]Condition{Gone("secrets", "kept"), Gone("secrets", "late"), Gone("secrets", "own-namespace"), filled("of-again")},
			},
			{
				"delete the account of all Secrets",
				[]Action{Delete("serviceaccounts", "robot", metav1.DeletePropagationBackground)},
				[]Condition{Gone("secrets", "more"), Gone("secrets", "empty-uid"), Gone("secrets", "own-token"), Gone("secrets", "own-all")},
			},
		},
	}
}
