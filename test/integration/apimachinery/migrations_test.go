package apimachinery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// A controller that is restarted in the middle of a migration goes on where it was: every object is
// rewritten once. Pins SVM-57, SVM-56 and SVM-58.
func TestAMigrationGoesOnAfterARestart(t *testing.T) {
	const count = 12
	g := newGadgets(t, count)
	g.storeAsV2(t)
	pace := func(perSecond float32) {
		harness.CarryOut(t, cluster.Manager, func(c *manager.Config) { c.Controllers.StorageVersionMigrator.MigrationRate = ptr.To(perSecond) })
	}
	cluster.Restore(t, func(c *manager.Config) { c.Controllers.StorageVersionMigrator.MigrationRate = ptr.To[float32](400) })
	pace(2)
	from := must.Get(cluster.Audit().Mark())(t)
	name := migrate(t, g.group, "gadgets")
	await.That(t, "some objects are rewritten", func(ctx context.Context) error {
		if n := len(rewrites(t, from, g.namespace)); n < 3 {
			g.touch(ctx)
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	pace(0)
	if result := awaitEnd(t, name, g.touch); result.Type != "Succeeded" {
		t.Errorf("it has %+v", result)
	}
	times := map[string]int{}
	for _, e := range rewrites(t, from, g.namespace) {
		times[e.ObjectRef.Name]++
	}
	for n := range count {
		if object := fmt.Sprintf("gadget-%02d", n); times[object] != 1 {
			t.Errorf("%s was rewritten %d times", object, times[object])
		}
	}
}

// Pins SVM-9, SVM-63, SVM-15, SVM-58, SVM-40, SVM-46 and SVM-52.
func TestSecretsAreRewritten(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	secrets := admin.CoreV1().Secrets(namespace)
	create := func(name string, size int) *corev1.Secret {
		return must.Get(secrets.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"data": make([]byte, size)},
		}, metav1.CreateOptions{}))(t)
	}
	small, large := create("small", 1), create("large", 1<<20-1024)
	touch := func(ctx context.Context) {
		created, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: touchPrefix}}, metav1.CreateOptions{})
		if err == nil {
			_ = secrets.Delete(ctx, created.Name, metav1.DeleteOptions{})
		}
	}
	from := must.Get(cluster.Audit().Mark())(t)
	for range 2 {
		if result := awaitEnd(t, migrate(t, "", "secrets"), touch); result.Type != "Succeeded" || result.Reason != "StorageVersionMigrationSucceeded" || result.Message != "" {
			t.Fatalf("it has %+v", result)
		}
	}
	var got []string
	for _, e := range rewrites(t, from, namespace) {
		got = append(got, fmt.Sprint(e.Verb, " ", e.RequestURI, " ", e.ResponseStatus.Code))
	}
	patch := func(name string) string {
		return "patch /api/v1/namespaces/" + namespace + "/secrets/" + name + "?fieldManager=storage-version-migrator-controller 200"
	}
	if want := []string{patch("large"), patch("small"), patch("large"), patch("small")}; !slices.Equal(got, want) {
		t.Errorf("requests are %q", got)
	}
	for _, before := range []*corev1.Secret{small, large} {
		after := must.Get(secrets.Get(t.Context(), before.Name, metav1.GetOptions{}))(t)
		if after.ResourceVersion != before.ResourceVersion || len(after.ManagedFields) != len(before.ManagedFields) {
			t.Errorf("%s, which is stored in the present way, changed to version %s, %v", before.Name, after.ResourceVersion, after.ManagedFields)
		}
	}
}

// Pins SVM-63, SVM-11, SVM-12, SVM-15, SVM-20, SVM-60, SVM-22a, SVM-26, SVM-37 and SVM-38.
func TestCustomObjectsAreStoredInTheNewVersion(t *testing.T) {
	t.Parallel()
	g := newGadgets(t, 3)
	g.storeAsV2(t)
	before := g.all(t)
	from := must.Get(cluster.Audit().Mark())(t)
	if result := awaitEnd(t, migrate(t, g.group, "gadgets"), g.touch); result.Type != "Succeeded" {
		t.Fatalf("it has %+v", result)
	}
	if got := g.shown(t.Context(), t); !slices.Equal(got, []string{"v2", "False MigrationSucceeded"}) {
		t.Errorf("definition has %q", got)
	}
	first := g.all(t)
	for name, is := range first {
		was := before[name]
		if is.GetResourceVersion() == was.GetResourceVersion() || is.GetGeneration() != was.GetGeneration() || is.GetUID() != was.GetUID() {
			t.Errorf("%s was not rewritten, or changed: %v", name, is.Object)
		}
	}
	if len(first) != len(before) {
		t.Errorf("there are %d objects", len(first))
	}
	// Another migration finds nothing to store again, and keeps what is shown as stored.
	if result := awaitEnd(t, migrate(t, g.group, "gadgets"), g.touch); result.Type != "Succeeded" {
		t.Fatalf("it has %+v", result)
	}
	for name, is := range g.all(t) {
		if was := first[name]; is.GetResourceVersion() != was.GetResourceVersion() {
			t.Errorf("%s was stored once more", name)
		}
	}
	if got := g.shown(t.Context(), t); !slices.Equal(got, []string{"v2", "False MigrationSucceeded"}) {
		t.Errorf("definition has %q", got)
	}
	for _, e := range must.Get(cluster.Audit().Since(from, controlplane.ByUser(migrator), controlplane.ByResource("gadgets"), controlplane.ByNamespace(g.namespace)))(t) {
		if code := e.ResponseStatus.Code; code != 200 && code != 409 {
			t.Errorf("%s %s: %d %s", e.Verb, e.RequestURI, code, e.ResponseStatus.Message)
		}
	}
}

// Pins SVM-22b, SVM-34c, SVM-36 and SVM-60.
func TestAMigrationFailsIfAdmissionRefuses(t *testing.T) {
	t.Parallel()
	g := newGadgets(t, 1)
	g.storeAsV2(t)
	refuseUpdates(t, g)
	result := awaitEnd(t, migrate(t, g.group, "gadgets"), g.touch)
	if result.Type != "Failed" || result.Reason != "StorageVersionMigrationFailed" || !strings.HasPrefix(result.Message, "migration encountered unhandled error: ") || !strings.Contains(result.Message, "gadgets stay as they are") {
		t.Errorf("it has %+v", result)
	}
	if got := g.shown(t.Context(), t); !slices.Equal(got, []string{"v1 v2", "False MigrationFailed"}) {
		t.Errorf("definition has %q", got)
	}
}

// refuseUpdates has the API server refuse to change gadgets, until the end of the test.
func refuseUpdates(t *testing.T, g gadgets) {
	t.Helper()
	ctx, policies := t.Context(), admin.AdmissionregistrationV1()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: g.name()}}
	policy.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{g.group}, APIVersions: []string{"*"}, Resources: []string{"gadgets"}},
		},
	}}}
	policy.Spec.Validations = []admissionregistrationv1.Validation{{Expression: "false", Message: "gadgets stay as they are"}}
	must.Get(policies.ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{}))(t)
	must.Get(policies.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: g.name()},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: g.name(), ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		_ = policies.ValidatingAdmissionPolicyBindings().Delete(context.Background(), g.name(), metav1.DeleteOptions{})
		_ = policies.ValidatingAdmissionPolicies().Delete(context.Background(), g.name(), metav1.DeleteOptions{})
	})
	awaitRefusal(t, g)
}

// awaitRefusal waits until changes are refused.
func awaitRefusal(t *testing.T, g gadgets) {
	t.Helper()
	await.That(t, "changes are refused", func(ctx context.Context) error {
		object, err := g.at("v2").Get(ctx, "gadget-00", metav1.GetOptions{})
		if err != nil {
			return err
		}
		object.SetLabels(map[string]string{"try": "it"})
		if _, err := g.at("v2").Update(ctx, object, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}); err == nil || !strings.Contains(err.Error(), "gadgets stay as they are") {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
}

// Pins SVM-19, SVM-20 and SVM-57.
func TestMigrationsOfAResourceRunOneAfterAnother(t *testing.T) {
	t.Parallel()
	g := newGadgets(t, 5)
	names := []string{migrate(t, g.group, "gadgets"), migrate(t, g.group, "gadgets"), migrate(t, g.group, "gadgets")}
	for _, name := range names {
		if result := awaitEnd(t, name, g.touch); result.Type != "Succeeded" {
			t.Errorf("%s has %+v", name, result)
		}
	}
	if got := g.shown(t.Context(), t); !slices.Equal(got, []string{"v1", "False MigrationSucceeded"}) {
		t.Errorf("definition has %q", got)
	}
}
