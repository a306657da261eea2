package garbage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"kcmd.dev/pkg/runtime"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// widgets are a custom kind of a test whose versions change.
type widgets struct {
	manager   *manager.Manager // whose garbage collector is tested
	client    dynamic.Interface
	namespace string
	group     string
}

func newWidgets(t *testing.T, collector *manager.Manager) widgets {
	t.Helper()
	namespace := cluster.NamespaceForPods(t)
	w := widgets{
		manager:   collector,
		client:    must.Get(dynamic.NewForConfig(cluster.AdminConfig()))(t),
		namespace: namespace,
		group:     strings.ReplaceAll(namespace, "-", "") + ".test.kcmd.dev",
	}
	t.Cleanup(func() { _ = w.definitions().Delete(context.Background(), w.name(), metav1.DeleteOptions{}) })
	return w
}

func (w widgets) name() string { return "widgets." + w.group }

func (w widgets) definitions() dynamic.ResourceInterface {
	return w.client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
}

func (w widgets) at(version string) dynamic.ResourceInterface {
	return w.client.Resource(schema.GroupVersionResource{Group: w.group, Version: version, Resource: "widgets"}).Namespace(w.namespace)
}

// served is one version of the definition; one of them has to be that of storage.
func served(name string, is, storage bool) any {
	return map[string]any{
		"name": name, "served": is, "storage": storage,
		"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
	}
}

// brokenConversion asks a webhook that does not answer.
func brokenConversion() map[string]any {
	return map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"},
		"clientConfig":             map[string]any{"url": "https://127.0.0.1:1/convert"},
	}}
}

func noConversion() map[string]any { return map[string]any{"strategy": "None"} }

// define creates or changes the definition.
func (w widgets) define(t *testing.T, conversion map[string]any, versions ...any) {
	t.Helper()
	spec := map[string]any{
		"group": w.group, "scope": "Namespaced", "conversion": conversion, "versions": versions,
		"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget"},
	}
	await.That(t, "widgets are defined", func(ctx context.Context) error {
		definition, err := w.definitions().Get(ctx, w.name(), metav1.GetOptions{})
		if await.Gone(err) == nil {
			definition = &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
				"metadata": map[string]any{"name": w.name()}, "spec": spec,
			}}
			_, err = w.definitions().Create(ctx, definition, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		definition.Object["spec"] = spec
		_, err = w.definitions().Update(ctx, definition, metav1.UpdateOptions{})
		return err
	})
}

func (w widgets) create(t *testing.T, name string, finalizers []string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": w.group + "/v1beta1", "kind": "Widget", "metadata": map[string]any{"name": name},
	}}
	object.SetOwnerReferences(owners)
	object.SetFinalizers(finalizers)
	var created *unstructured.Unstructured
	await.That(t, "widgets are served", func(ctx context.Context) (err error) {
		created, err = w.at("v1beta1").Create(ctx, object, metav1.CreateOptions{})
		return err
	})
	return created
}

// waitForWatch waits until the version has an informer, complete or not, and no other.
func (w widgets) waitForWatch(t *testing.T, version string, complete bool) {
	t.Helper()
	slowly(t, fmt.Sprintf("version %q is watched", version), func(ctx context.Context) error {
		status, err := w.manager.Status(ctx)
		if err != nil {
			return err
		}
		var watched []string
		for _, informer := range status.Informers {
			if informer.Group != w.group {
				continue
			}
			watched = append(watched, informer.Version)
			if informer.Version == version && complete && !informer.Synced {
				return errors.New("it is not complete")
			}
		}
		if got := strings.Join(watched, " "); got != version {
			return fmt.Errorf("watched is %q", got)
		}
		return nil
	})
}

// owners are config maps with dependents of the kind: one whose dependent it is to leave
// behind, one that is to wait for its dependent.
func (w widgets) createFamily(t *testing.T) {
	t.Helper()
	leaves, waits := createOwned(t, w.namespace, "leaves"), createOwned(t, w.namespace, "waits")
	w.create(t, "left", nil, byConfigMap(leaves))
	w.create(t, "blocks", []string{harness.Hold}, blockingOwner(byConfigMap(waits)))
	w.waitForWatch(t, "v1beta1", true)
}

// deleteOwners asks for both deletions and sees that neither owner goes.
func (w widgets) deleteOwners(t *testing.T) {
	t.Helper()
	deleteConfigMap(t, w.namespace, "leaves", metav1.DeletePropagationOrphan)
	deleteConfigMap(t, w.namespace, "waits", metav1.DeletePropagationForeground)
	passBy(t, w.namespace)
	for _, name := range []string{"leaves", "waits"} {
		if _, err := getConfigMap(t.Context(), w.namespace, name); err != nil {
			t.Errorf("the owner %s does not wait for its dependents: %v", name, err)
		}
	}
}

// expectOutcome waits for what both deletions have asked for.
func (w widgets) expectOutcome(t *testing.T, version string) {
	t.Helper()
	slowly(t, "the dependent that was left behind is nobody's and its owner is gone", func(ctx context.Context) error {
		left, err := w.at(version).Get(ctx, "left", metav1.GetOptions{})
		switch {
		case apierrors.IsUnexpectedServerError(err):
			return err // 404 of the version: it is not served yet
		case await.Gone(err) == nil || err == nil && left.GetDeletionTimestamp() != nil:
			t.Fatal("the orphan was deleted")
		case err != nil:
			return err
		case len(left.GetOwnerReferences()) > 0:
			return fmt.Errorf("it has the owners %v", left.GetOwnerReferences())
		}
		_, err = getConfigMap(ctx, w.namespace, "leaves")
		return await.Gone(err)
	})
	slowly(t, "the blocking dependent is being deleted", func(ctx context.Context) error {
		blocks, err := w.at(version).Get(ctx, "blocks", metav1.GetOptions{})
		if err == nil && blocks.GetDeletionTimestamp() == nil {
			err = errors.New("it is not")
		}
		return err
	})
	if _, err := getConfigMap(t.Context(), w.namespace, "waits"); err != nil {
		t.Errorf("the owner went before the dependent that blocks it: %v", err)
	}
	if _, err := w.at(version).Patch(t.Context(), "blocks", types.MergePatchType, []byte(harness.NoFinalizers), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	slowly(t, "the owner is gone", func(ctx context.Context) error {
		_, err := getConfigMap(ctx, w.namespace, "waits")
		return await.Gone(err)
	})
	passBy(t, w.namespace)
	if _, err := w.at(version).Get(t.Context(), "left", metav1.GetOptions{}); err != nil {
		t.Errorf("the orphan: %v", err)
	}
}

// testCollectorNewVersion deletes owners while a new version of the kind of their
// dependents is preferred and cannot be converted to.
func testCollectorNewVersion(t *testing.T) {
	w := newWidgets(t, cluster.Manager)
	w.define(t, noConversion(), served("v1beta1", true, true))
	w.createFamily(t)
	w.define(t, brokenConversion(), served("v1beta1", true, false), served("v1", true, true))
	w.waitForWatch(t, "v1", false)
	w.deleteOwners(t)
	w.define(t, noConversion(), served("v1beta1", true, false), served("v1", true, true))
	w.expectOutcome(t, "v1")
}

// testCollectorVanishedKind deletes owners while the kind of their dependents is not
// served. The objects are still there when it is served again.
func testCollectorVanishedKind(t *testing.T) {
	w := newWidgets(t, cluster.Manager)
	w.define(t, noConversion(), served("v1beta1", true, true))
	w.createFamily(t)
	w.define(t, noConversion(), served("v1beta1", false, true))
	w.waitForWatch(t, "", false)
	w.deleteOwners(t)
	w.define(t, noConversion(), served("v1beta1", false, false), served("v1", true, true))
	w.expectOutcome(t, "v1")
}

// TestGarbageCollectorWithoutDiscovery deletes owners while discovery leaves the group of
// their dependents out, without an error. The other collector, which sees the group, is off.
func TestGarbageCollectorWithoutDiscovery(t *testing.T) {
	cluster.Restore(t, func(c *manager.Config) { c.Controllers.GarbageCollector.Enabled = ptr.To(true) })
	must.Succeed(t, cluster.Manager.Edit(t.Context(), func(c *manager.Config) { c.Controllers.GarbageCollector.Enabled = ptr.To(false) }))
	must.Succeed(t, cluster.Manager.WaitRunning(t.Context()))
	proxy := faultproxy.Start(t, cluster.ControlPlane)
	only := harness.Only(func(c *manager.Config) []**bool { return []**bool{&c.Controllers.GarbageCollector.Enabled} })
	m := manager.Join(t, cluster.ControlPlane, runtime.Options{Clock: harness.FastClock()}, harness.All(only, harness.WithoutLease, harness.Through(t, proxy)))
	must.Succeed(t, m.WaitRunning(t.Context()))
	w := newWidgets(t, m)
	w.define(t, noConversion(), served("v1beta1", true, true))
	w.createFamily(t)
	hidden := proxy.HideGroup(w.group)
	w.waitForWatch(t, "", false)
	w.deleteOwners(t)
	hidden.Lift()
	w.expectOutcome(t, "v1beta1")
}
