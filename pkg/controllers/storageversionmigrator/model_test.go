package storageversionmigrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/customresources"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

var (
	revisions    = appsv1.SchemeGroupVersion.WithResource("controllerrevisions")
	revisionKind = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")
)

// model is a world in which ControllerRevisions stand in for a custom kind, which is stored in one of three versions.
type model struct {
	*simulation.World
	t        *testing.T
	contents *simulation.Contents
	c        *migrationController
	d        customresources.Definition
	storage  string
	// began is the generation of the definition when a migration was started, by its UID, succeeded has those that were.
	began     map[types.UID]int64
	succeeded map[types.UID]bool
}

// store has the API server store in a version from now on.
func (m *model) store(version string) {
	m.Note("stored in %s from now on", version)
	m.storage = version
	m.d.Metadata.Generation++
	m.d.Metadata.ResourceVersion += "'"
	m.d.Spec.Versions = nil
	for _, name := range []string{"v1", "v2", "v3"} {
		m.d.Spec.Versions = append(m.d.Spec.Versions, customresources.Version{Name: name, Storage: name == version})
	}
	if !slices.Contains(m.d.Status.StoredVersions, version) {
		m.d.Status.StoredVersions = append(m.d.Status.StoredVersions, version)
	}
}

func (m *model) anyVersion() string { return []string{"v1", "v2", "v3"}[m.Rand.IntN(3)] }

// check checks that the definition shows all versions in which objects are stored. Users remove the others from it.
func (m *model) check() {
	for _, object := range simulation.All[*appsv1.ControllerRevision](m.World) {
		if is := m.EncodingOf(object); !slices.Contains(m.d.Status.StoredVersions, is) {
			m.t.Errorf("%s %s@%s is stored in %s, the definition has %v",
				object.Name, object.UID, object.ResourceVersion, is, m.d.Status.StoredVersions)
		}
	}
}

// answered checks a migration whose status was written.
func (m *model) answered(action clienttesting.Action) {
	update, ok := action.(clienttesting.UpdateAction)
	if !ok {
		return
	}
	sent, ok := update.GetObject().(*svm)
	if !ok {
		return
	}
	stored, ok := simulation.Get[*svm](m.World, "", sent.Name)
	if !ok || stored.UID != sent.UID {
		return
	}
	if _, known := m.began[stored.UID]; !known && is(stored, migrationv1beta1.MigrationRunning) {
		m.began[stored.UID] = m.d.Metadata.Generation
	}
	if m.succeeded[stored.UID] || !is(stored, migrationv1beta1.MigrationSucceeded) {
		return
	}
	m.succeeded[stored.UID] = true
	for _, object := range simulation.All[*appsv1.ControllerRevision](m.World) {
		if is := m.EncodingOf(object); is != m.storage && m.began[stored.UID] == m.d.Metadata.Generation {
			m.t.Errorf("%s succeeds, and %s %s@%s is stored in %s", stored.Name, object.Name, object.UID, object.ResourceVersion, is)
		}
	}
}

// modelDefinitions is a client of the definition of the model.
type modelDefinitions struct {
	dynamic.NamespaceableResourceInterface
	m *model
}

func (m *model) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return modelDefinitions{m: m}
}

// trouble is an error instead of an answer.
func (m *model) trouble() error {
	if m.Faulty && m.OneIn(20) {
		return apierrors.NewTimeoutError("timeout", 0)
	}
	return nil
}

func (d modelDefinitions) Get(
	context.Context, string, metav1.GetOptions, ...string,
) (*unstructured.Unstructured, error) {
	if err := d.m.trouble(); err != nil {
		return nil, err
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&d.m.d)
	return &unstructured.Unstructured{Object: object}, err
}

func (d modelDefinitions) ApplyStatus(
	_ context.Context, name string, object *unstructured.Unstructured, _ metav1.ApplyOptions,
) (*unstructured.Unstructured, error) {
	m := d.m
	if err := m.trouble(); err != nil {
		return nil, err
	}
	if m.Hasty > 0 && m.OneIn(10) {
		m.store(m.anyVersion())
	}
	if object.GetResourceVersion() != m.d.Metadata.ResourceVersion {
		return nil, apierrors.NewConflict(customresources.Definitions.GroupResource(), name, errors.New("changed"))
	}
	var applied customresources.Definition
	must.Succeed(m.t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &applied))
	m.d.Metadata.ResourceVersion += "'"
	m.d.Status = applied.Status
	if len(m.d.Status.StoredVersions) == 0 {
		m.d.Status.StoredVersions = []string{m.storage} // as the defaults are
	}
	m.Note("the definition is %+v", m.d.Status)
	m.check()
	return object, m.trouble()
}

// modelDiscovery serves the kind.
type modelDiscovery struct{ discovery.DiscoveryInterface }

func (modelDiscovery) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	return &metav1.APIResourceList{GroupVersion: version, APIResources: []metav1.APIResource{
		{Name: revisions.Resource, Kind: revisionKind.Kind, Namespaced: true, Verbs: needed},
	}}, nil
}

// listedAtOnce has the informer of objects list at once: nobody could deliver while the controller waits for it.
type listedAtOnce struct {
	controller.Scope
	m *model
}

func (s listedAtOnce) AnyFor(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	found, err := s.Scope.AnyFor(resource)
	if err == nil && !found.Informer().HasSynced() {
		s.m.Relist(&appsv1.ControllerRevision{})
	}
	return found, err
}

func (m *model) start(env controller.Env, _ any) simulation.Instance {
	if m.c != nil {
		close(m.c.stopped)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(revisionKind, meta.RESTScopeNamespace)
	env.Metadata, env.Dynamic, env.Discovery, env.Mapper = m.contents, m, modelDiscovery{}, mapper
	env.Informers = listedAtOnce{Scope: env.Informers, m: m}
	c := must.Get(newController(env, config{}))(m.t)
	m.c = c
	runner := simulation.NewQueue(m.World, c.runNext)
	version := simulation.NewQueue(m.World, c.determineVersion)
	migrator := simulation.NewQueue(m.World, c.migrate)
	c.runnerQueue, c.versionQueue, c.migratorQueue = runner, version, migrator
	must.Succeed(m.t, c.begin(m.Context()))
	return simulation.Instance{
		Runners: []simulation.Runner{runner, version, migrator}, HandOver: func() any { return c.HandOver() },
	}
}

// others write objects, and the API server sends a bookmark.
func (m *model) others() {
	if m.OneIn(3) {
		m.Bookmark(&appsv1.ControllerRevision{})
		return
	}
	name := fmt.Sprint("r", m.Rand.IntN(8))
	object, ok := simulation.Get[*appsv1.ControllerRevision](m.World, "ns", name)
	switch {
	case !ok:
		m.Create(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
	case m.OneIn(3):
		m.Delete(object, nil)
	case m.OneIn(3):
		simulation.Change(m.World, object, func(r *appsv1.ControllerRevision) { r.Revision++ })
	}
}

// user has objects stored in another version, and migrations begin, or be deleted.
func (m *model) user() {
	name := fmt.Sprint("m", m.Rand.IntN(3))
	migration, ok := simulation.Get[*svm](m.World, "", name)
	switch {
	case m.OneIn(4):
		m.store(m.anyVersion())
	case !ok:
		m.migrate(name)
	case isOver(migration) || m.OneIn(4):
		m.Delete(migration, nil)
	}
}

func (m *model) migrate(name string) {
	created := &svm{ObjectMeta: metav1.ObjectMeta{Name: name}}
	created.Spec.Resource = metav1.GroupResource(revisions.GroupResource())
	m.Create(created)
}

// TestWhateverHappensNoVersionIsForgottenInWhichObjectsAreStored has objects written, the version in which they are
// stored changed and migrations begun and deleted, requests fail and the controller restarted, while the caches are
// behind and lack objects.
func TestWhateverHappensNoVersionIsForgottenInWhichObjectsAreStored(t *testing.T) {
	simulation.Run(t, 60, func(t *testing.T, w *simulation.World) {
		m := &model{World: w, t: t, began: map[types.UID]int64{}, succeeded: map[types.UID]bool{}}
		m.d.Metadata.Name, m.d.Metadata.ResourceVersion = "controllerrevisions.apps", strconv.Itoa(1)
		m.store("v1")
		w.Encoding = func(resource schema.GroupVersionResource) string {
			if resource == revisions {
				return m.storage
			}
			return ""
		}
		m.contents = &simulation.Contents{
			World: w, Kinds: map[schema.GroupVersionResource]schema.GroupVersionKind{revisions: revisionKind},
			Refuses: func(verb string, _ schema.GroupVersionResource) error {
				if verb == "patch" && w.Faulty && w.OneIn(40) {
					return apierrors.NewConflict(revisions.GroupResource(), "", errors.New("a webhook says so"))
				}
				return nil
			},
		}
		for range w.Rand.IntN(10) {
			m.others()
		}
		w.Answered = m.answered
		w.Start = m.start
		w.MayComeLate = simulation.AnyWrite
		w.Begin()
		w.Hasty = []int{0, 3}[w.Rand.IntN(2)]
		if w.OneIn(2) {
			w.Lossy = func(runtime.Object) bool { return true }
		}
		w.Play(func() {
			m.others()
			if m.OneIn(10) {
				m.user()
			}
		}, m.user)
		w.Hasty = 0
		bookmark := func() bool { return w.Bookmark(&appsv1.ControllerRevision{}) }
		w.Settle(10*time.Minute, bookmark)
		m.migrate("last")
		w.Settle(10*time.Minute, bookmark)
		m.check()
		for _, migration := range simulation.All[*svm](w) {
			if !isOver(migration) || is(migration, migrationv1beta1.MigrationRunning) {
				t.Errorf("%s has not ended: %+v", migration.Name, migration.Status)
			}
		}
		if last, _ := simulation.Get[*svm](w, "", "last"); !m.succeeded[last.UID] {
			t.Errorf("the last migration did not succeed: %+v", last.Status)
		}
		if got := m.d.Status; !slices.Equal(got.StoredVersions, []string{m.storage}) || !hasEnded(&got.Conditions[0]) {
			t.Errorf("the definition is %+v, objects are stored in %s", got, m.storage)
		}
	})
}
