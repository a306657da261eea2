package storageversionmigrator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/customresources"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

var (
	widgets     = schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "widgets"}
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	fixtureKind = schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Widget"}
)

type migrationType = migrationv1beta1.StorageVersionMigration

// newMigration is one of widgets that was created at the Epoch.
func newMigration(name string, changes ...func(*migrationType)) *migrationType {
	m := &migrationType{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: "5", Generation: 1, CreationTimestamp: metav1.NewTime(controllertest.Epoch)},
		Spec:       migrationv1beta1.StorageVersionMigrationSpec{Resource: metav1.GroupResource(widgets.GroupResource())},
	}
	for _, change := range changes {
		change(m)
	}
	return m
}

// with gives a migration conditions, each "Type" or "Type=Status".
func with(conditions ...string) func(*migrationType) {
	return func(m *migrationType) {
		for _, c := range conditions {
			of, status, found := strings.Cut(c, "=")
			if !found {
				status = "True"
			}
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: of, Status: metav1.ConditionStatus(status), Reason: "Test", LastTransitionTime: metav1.NewTime(controllertest.Epoch)})
		}
	}
}

func atVersion(version string) func(*migrationType) {
	return func(m *migrationType) { m.Status.ResourceVersion = version }
}

func of(group, resource string) func(*migrationType) {
	return func(m *migrationType) { m.Spec.Resource = metav1.GroupResource{Group: group, Resource: resource} }
}

func created(ago time.Duration) func(*migrationType) {
	return func(m *migrationType) { m.CreationTimestamp = metav1.NewTime(controllertest.Epoch.Add(-ago)) }
}

// widget is the metadata of an object in a namespace, "namespace/name@version".
func widget(text string) metav1.PartialObjectMetadata {
	name, version, _ := strings.Cut(text, "@")
	namespace, name, _ := strings.Cut(name, "/")
	return metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "example.com/v2", Kind: "Widget"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: version},
	}
}

// mapper fails if it is told to.
type mapper struct {
	meta.RESTMapper
	resourceErr, kindErr error
}

func (m *mapper) ResourcesFor(input schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	if m.resourceErr != nil {
		return nil, m.resourceErr
	}
	return m.RESTMapper.ResourcesFor(input)
}

func (m *mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	if m.kindErr != nil {
		return schema.GroupVersionKind{}, m.kindErr
	}
	return m.RESTMapper.KindFor(resource)
}

// world is a controller and the API server that it works on.
type world struct {
	*controllertest.Env
	c        *migrationController
	metadata *metadatafake.FakeMetadataClient
	mapper   *mapper

	mu sync.Mutex
	// listed is what a list of widgets returns, at listedAt, or listFailure.
	listed      []metav1.PartialObjectMetadata
	listedAt    string
	listFailure error
	lists       []string
	// answer is what a patch of an object is answered with.
	answer func(name string) error
	// stored is the resource version of an object after it was patched, empty if that is not in the answer.
	stored string
	// patches are what was patched, as "namespace/name type body".
	patches []string
}

// newWorld makes a controller on an API server that has widgets and these objects.
func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{Env: controllertest.New(t, objects...), listedAt: "100", answer: func(string) error { return nil }}
	known := meta.NewDefaultRESTMapper(nil)
	known.Add(fixtureKind, meta.RESTScopeNamespace)
	known.Add(schema.GroupVersionKind{Group: "other.example.com", Version: "v1", Kind: "Widget"}, meta.RESTScopeNamespace)
	known.Add(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, meta.RESTScopeNamespace)
	w.mapper = &mapper{RESTMapper: known}
	w.Mapper = w.mapper
	w.Fake.Resources = []*metav1.APIResourceList{{GroupVersion: "example.com/v2", APIResources: []metav1.APIResource{
		{Name: "widgets", Namespaced: true, Kind: "Widget", Verbs: []string{"get", "list", "patch", "update", "watch", "delete"}},
	}}}
	w.metadata = w.Metadata.(*metadatafake.FakeMetadataClient)
	w.metadata.PrependReactor("list", "*", w.list)
	w.metadata.PrependReactor("patch", "*", w.patch)
	w.Dynamic = dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	w.CompleteWrites("storageversionmigrations")
	w.CheckWrites("storageversionmigrations")
	w.succeed(t, nil)
	return w
}

// succeed makes another controller, with what the one before handed over.
func (w *world) succeed(t *testing.T, left any) {
	t.Helper()
	if left != nil {
		w.Succeed(left)
	}
	w.c = must.Get(newController(w.Env.Env, config{rate: 1000}))(t)
	w.Start(t)
	w.Requests()
}

func (w *world) list(action clienttesting.Action) (bool, runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists = append(w.lists, action.GetNamespace())
	if w.listFailure != nil {
		return true, nil, w.listFailure
	}
	list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: w.listedAt}}
	for i := range w.listed {
		list.Items = append(list.Items, runtime.RawExtension{Object: w.listed[i].DeepCopy()})
	}
	return true, list, nil
}

func (w *world) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	patch := action.(clienttesting.PatchActionImpl)
	w.patches = append(w.patches, patch.Namespace+"/"+patch.Name+" "+string(patch.PatchType)+" "+string(patch.Patch))
	return true, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: w.stored}}, w.answer(patch.Name)
}

// patched takes the names of what was patched, in order.
func (w *world) patched() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, patch := range w.patches {
		name, _, _ := strings.Cut(patch, " ")
		names = append(names, name)
	}
	w.patches = nil
	return names
}

// shown is the status of a migration: its version and conditions.
func (w *world) shown(t *testing.T, name string) []string {
	t.Helper()
	var all []string
	m := controllertest.MustStored[*migrationType](t, w.Env, "", name)
	if m.Status.ResourceVersion != "" {
		all = append(all, "at "+m.Status.ResourceVersion)
	}
	for _, c := range m.Status.Conditions {
		text := c.Type + "=" + string(c.Status)
		if c.Reason != "Test" {
			text += " " + c.Reason + ": " + c.Message
		}
		all = append(all, text)
	}
	return all
}

func (w *world) wantShown(t *testing.T, name string, want ...string) {
	t.Helper()
	if got := w.shown(t, name); !slices.Equal(got, want) {
		t.Errorf("%s is %q, want %q", name, got, want)
	}
}

// define makes widgets custom resources. The definition is changed by what is applied to it.
func (w *world) define(t *testing.T, d *customresources.Definition) {
	t.Helper()
	d.Metadata.Name = "widgets.example.com"
	object := must.Get(runtime.DefaultUnstructuredConverter.ToUnstructured(d))(t)
	object["apiVersion"], object["kind"] = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	client := w.Dynamic.(*dynamicfake.FakeDynamicClient)
	must.Succeed(t, client.Tracker().Create(customresources.Definitions, &unstructured.Unstructured{Object: object}, ""))
	client.PrependReactor("patch", "customresourcedefinitions", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchActionImpl)
		if patch.PatchType != types.ApplyPatchType || patch.Subresource != "status" || patch.PatchOptions.FieldManager != "migration-runner-controller" || !*patch.PatchOptions.Force {
			t.Errorf("applied as %s of %q with %+v", patch.PatchType, patch.Subresource, patch.PatchOptions)
		}
		var applied unstructured.Unstructured
		if err := applied.UnmarshalJSON(patch.Patch); err != nil {
			return true, nil, err
		}
		object["status"] = applied.Object["status"]
		return true, &unstructured.Unstructured{Object: object}, client.Tracker().Update(customresources.Definitions, &unstructured.Unstructured{Object: object}, "")
	})
}

// defined is the status of the definition of widgets.
func (w *world) defined(t *testing.T) []string {
	t.Helper()
	object := must.Get(w.Dynamic.Resource(customresources.Definitions).Get(context.Background(), "widgets.example.com", metav1.GetOptions{}))(t)
	var d customresources.Definition
	must.Succeed(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &d))
	all := []string{"stored " + strings.Join(d.Status.StoredVersions, " ")}
	for _, c := range d.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s %s: %s (%d)", c.Type, c.Status, c.Reason, c.Message, c.ObservedGeneration))
	}
	return all
}

// newDefinition is one of generation 3 that stores v2.
func newDefinition(storedVersions ...string) *customresources.Definition {
	d := &customresources.Definition{Metadata: metav1.ObjectMeta{ResourceVersion: "7", Generation: 3}}
	d.Spec.Versions = []customresources.Version{{Name: "v1"}, {Name: "v2", Storage: true}}
	d.Status.StoredVersions = storedVersions
	return d
}
