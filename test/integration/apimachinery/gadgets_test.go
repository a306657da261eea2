package apimachinery

import (
	"context"
	"fmt"
	"strings"
	"testing"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/must"
)

// migrator is as whom objects are rewritten.
const migrator = "system:serviceaccount:kube-system:storage-version-migrator-controller"

// gadgets are a custom kind of a test with the versions v1 and v2.
type gadgets struct {
	client           dynamic.Interface
	namespace, group string
}

// newGadgets defines gadgets that are stored as v1, and creates some.
func newGadgets(t *testing.T, count int) gadgets {
	t.Helper()
	namespace := cluster.Namespace(t)
	g := gadgets{client: must.Get(dynamic.NewForConfig(cluster.AdminConfig()))(t), namespace: namespace, group: strings.ReplaceAll(namespace, "-", "") + ".test.kcmd.dev"}
	t.Cleanup(func() { _ = g.definitions().Delete(context.Background(), g.name(), metav1.DeleteOptions{}) })
	must.Get(g.definitions().Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": g.name()},
		"spec": map[string]any{
			"group": g.group, "scope": "Namespaced", "versions": versions("v1"),
			"names": map[string]any{"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
		},
	}}, metav1.CreateOptions{}))(t)
	for n := range count {
		await.That(t, "gadgets are served", func(ctx context.Context) error {
			_, err := g.at("v1").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": g.group + "/v1", "kind": "Gadget", "metadata": map[string]any{"name": fmt.Sprintf("gadget-%02d", n)},
			}}, metav1.CreateOptions{})
			return err
		})
	}
	return g
}

// versions are those of the definition, one of which is that of storage.
func versions(storage string) []any {
	var all []any
	for _, name := range []string{"v1", "v2"} {
		all = append(all, map[string]any{
			"name": name, "served": true, "storage": name == storage,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		})
	}
	return all
}

func (g gadgets) name() string { return "gadgets." + g.group }

func (g gadgets) definitions() dynamic.ResourceInterface {
	return g.client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
}

func (g gadgets) at(version string) dynamic.ResourceInterface {
	return g.client.Resource(schema.GroupVersionResource{Group: g.group, Version: version, Resource: "gadgets"}).Namespace(g.namespace)
}

// storeAsV2 changes the storage version, and waits until the API server stores in it.
func (g gadgets) storeAsV2(t *testing.T) {
	t.Helper()
	must.Succeed(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		definition, err := g.definitions().Get(t.Context(), g.name(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedSlice(definition.Object, versions("v2"), "spec", "versions"); err != nil {
			return err
		}
		_, err = g.definitions().Update(t.Context(), definition, metav1.UpdateOptions{})
		return err
	}))
	await.That(t, "both versions are stored", func(ctx context.Context) error {
		if got := g.shown(ctx, t); got[0] != "v1 v2" {
			return fmt.Errorf("definition has %q", got)
		}
		return nil
	})
}

// shown are the stored versions of the definition, and its condition StorageMigrating.
func (g gadgets) shown(ctx context.Context, t *testing.T) []string {
	t.Helper()
	definition := must.Get(g.definitions().Get(ctx, g.name(), metav1.GetOptions{}))(t)
	stored, _, err := unstructured.NestedStringSlice(definition.Object, "status", "storedVersions")
	must.Succeed(t, err)
	shown := []string{strings.Join(stored, " ")}
	conditions, _, err := unstructured.NestedSlice(definition.Object, "status", "conditions")
	must.Succeed(t, err)
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == "StorageMigrating" {
			shown = append(shown, fmt.Sprint(c["status"], " ", c["reason"]))
		}
	}
	return shown
}

// all returns the gadgets by name.
func (g gadgets) all(t *testing.T) map[string]unstructured.Unstructured {
	t.Helper()
	list := must.Get(g.at("v2").List(t.Context(), metav1.ListOptions{}))(t)
	all := map[string]unstructured.Unstructured{}
	for _, item := range list.Items {
		all[item.GetName()] = item
	}
	return all
}

// touchPrefix begins the names of objects that exist for a moment only. A migration may see them, or not.
const touchPrefix = "touch-"

// touch writes a gadget that is not migrated, so that caches of gadgets see a new version at once,
// and not with the next bookmark.
func (g gadgets) touch(ctx context.Context) {
	created, err := g.at("v2").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": g.group + "/v2", "kind": "Gadget", "metadata": map[string]any{"generateName": touchPrefix},
	}}, metav1.CreateOptions{})
	if err == nil {
		_ = g.at("v2").Delete(ctx, created.GetName(), metav1.DeleteOptions{})
	}
}

// migrate creates a migration, until the end of the test.
func migrate(t *testing.T, group, resource string) string {
	t.Helper()
	migrations := admin.StoragemigrationV1beta1().StorageVersionMigrations()
	migration := must.Get(migrations.Create(t.Context(), &migrationv1beta1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "migration-"},
		Spec:       migrationv1beta1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: group, Resource: resource}},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = migrations.Delete(context.Background(), migration.Name, metav1.DeleteOptions{}) })
	return migration.Name
}

// awaitEnd waits until a migration has ended, calling touch meanwhile, and returns how.
func awaitEnd(t *testing.T, name string, touch func(context.Context)) *metav1.Condition {
	t.Helper()
	var result *metav1.Condition
	await.That(t, "the migration has ended", func(ctx context.Context) error {
		migration, err := admin.StoragemigrationV1beta1().StorageVersionMigrations().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions := migration.Status.Conditions
		running := meta.FindStatusCondition(conditions, "Running")
		if running == nil || running.Status != metav1.ConditionFalse || running.Reason != "MigrationCompleted" {
			if migration.Status.ResourceVersion != "" {
				touch(ctx)
			}
			return fmt.Errorf("status is %+v", migration.Status)
		}
		if result = meta.FindStatusCondition(conditions, "Succeeded"); result == nil {
			result = meta.FindStatusCondition(conditions, "Failed")
		}
		return nil
	})
	return result
}

// rewrites are the requests with which objects of a namespace were rewritten, but for those of touch.
func rewrites(t *testing.T, from controlplane.Mark, namespace string) []auditv1.Event {
	t.Helper()
	lasting := func(e *auditv1.Event) bool {
		return e.ObjectRef == nil || !strings.HasPrefix(e.ObjectRef.Name, touchPrefix)
	}
	return must.Get(cluster.Audit().Since(from, controlplane.ByUser(migrator), controlplane.ByNamespace(namespace), controlplane.Writes(), lasting))(t)
}
