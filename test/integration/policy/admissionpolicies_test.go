package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/dynamic"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/must"
)

// createPolicy creates a policy for a kind whose validations have these expressions.
func createPolicy(t *testing.T, name, group, resource string, expressions ...string) {
	t.Helper()
	p := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}},
		},
	}}}
	for _, e := range expressions {
		p.Spec.Validations = append(p.Spec.Validations, admissionregistrationv1.Validation{Expression: e})
	}
	policies := admin.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	must.Get(policies.Create(t.Context(), p, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = policies.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// checked waits until the present generation of a policy has been checked.
func checked(t *testing.T, name string) (warnings []admissionregistrationv1.ExpressionWarning) {
	t.Helper()
	await.That(t, name+" has been checked", func(ctx context.Context) error {
		p, err := admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.Status.TypeChecking == nil || p.Status.ObservedGeneration != p.Generation {
			return fmt.Errorf("the status of generation %d is %+v", p.Generation, p.Status)
		}
		warnings = p.Status.TypeChecking.ExpressionWarnings
		return nil
	})
	return warnings
}

// wantWarnings fails unless there is one warning for each, with the field and the texts.
func wantWarnings(t *testing.T, got []admissionregistrationv1.ExpressionWarning, want ...[]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("warnings are %+v, want %q", got, want)
	}
	for i, w := range want {
		for _, text := range w[1:] {
			if got[i].FieldRef != w[0] || !strings.Contains(got[i].Warning, text) {
				t.Errorf("warning %d is %+v, want %q", i, got[i], w)
			}
		}
	}
}

// Pins VAP-12, VAP-20, VAP-36 and VAP-38.
func TestExpressionsOfPoliciesAreChecked(t *testing.T) {
	t.Parallel()
	createPolicy(t, "correct", "apps", "deployments", "object.spec.replicas > 1")
	wantWarnings(t, checked(t, "correct"))

	from := must.Get(cluster.Audit().Mark())(t)
	createPolicy(t, "faulty", "apps", "deployments", "object.spec.replicas > 1", "object.spec.replicas > '1'", "object.spec.nope == 1 || object.spec.replicas > '1'")
	const overload = "found no matching overload for '_>_' applied to '(int, string)'"
	wantWarnings(t, checked(t, "faulty"),
		[]string{"spec.validations[1].expression", "apps/v1, Kind=Deployment: ", overload},
		[]string{"spec.validations[2].expression", "undefined field 'nope'", overload})
	// The request whose effect has been seen may still be being answered, and is logged then.
	await.That(t, "one request has written the status", func(context.Context) error {
		writes, err := cluster.Audit().Since(from, controlplane.ByResource("validatingadmissionpolicies/status"), func(e *auditv1.Event) bool { return e.ObjectRef.Name == "faulty" })
		switch {
		case err != nil:
			return err
		case len(writes) > 1:
			return await.Final(fmt.Errorf("%d requests wrote the status of one generation", len(writes)))
		case len(writes) == 0:
			return errors.New("none has")
		}
		return nil
	})

	must.Get(admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Patch(t.Context(), "faulty", types.JSONPatchType,
		[]byte(`[{"op":"replace","path":"/spec/validations","value":[{"expression":"object.spec.paused == true"}]}]`), metav1.PatchOptions{}))(t)
	wantWarnings(t, checked(t, "faulty"))
}

// The schema of a new kind may be published late. A policy that is touched is checked against
// what is published now. Pins VAP-22, VAP-26 and VAP-31.
func TestExpressionsOnCustomResourcesAreChecked(t *testing.T) {
	t.Parallel()
	const group = "policies.test.kcmd.dev"
	createPolicy(t, "on-crontabs", group, "crontabs", "object.spec.maxRetries > 1")
	wantWarnings(t, checked(t, "on-crontabs"))
	createCronTabs(t, group)
	n := 0
	await.That(t, "a touched policy has a warning", func(ctx context.Context) error {
		n++
		touch := fmt.Appendf(nil, `{"spec":{"auditAnnotations":[{"key":"touched","valueExpression":"'%d'"}]}}`, n)
		if _, err := admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Patch(ctx, "on-crontabs", types.MergePatchType, touch, metav1.PatchOptions{}); err != nil {
			return err
		}
		warnings := checked(t, "on-crontabs")
		if len(warnings) == 0 {
			return errors.New("it has none")
		}
		wantWarnings(t, warnings, []string{"spec.validations[0].expression", group + "/v1, Kind=CronTab: ", "undefined field 'maxRetries'"})
		return nil
	})
}

// createCronTabs creates a kind with a field spec.replicas, until the end of the test or until it is
// removed.
func createCronTabs(t *testing.T, group string) (remove func()) {
	t.Helper()
	client := must.Get(dynamic.NewForConfig(cluster.AdminConfig()))(t)
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "crontabs." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"plural": "crontabs", "singular": "crontab", "kind": "CronTab"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": object(map[string]any{"spec": object(map[string]any{"replicas": map[string]any{"type": "integer"}})})},
			}},
		},
	}}
	must.Get(definitions.Create(t.Context(), definition, metav1.CreateOptions{}))(t)
	remove = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := definitions.Delete(ctx, definition.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(remove)
	return remove
}
