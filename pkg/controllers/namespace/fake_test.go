package namespace

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/test/controllertest"
)

var (
	secrets     = corev1.SchemeGroupVersion.WithResource("secrets")
	configMaps  = corev1.SchemeGroupVersion.WithResource("configmaps")
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	widgets     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

var allVerbs = metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "update", "watch"}

// store is the content of one namespace behind a metadata client.
type store struct {
	mu      sync.Mutex
	items   map[schema.GroupVersionResource][]metav1.PartialObjectMetadata
	refused map[string]error // by "verb resource"
	undying map[schema.GroupVersionResource]bool
	// emptyFirst are types whose lists begin with an empty page.
	emptyFirst map[schema.GroupVersionResource]bool
	// onList is called for each list, nil if nothing is to happen.
	onList  func(resource schema.GroupVersionResource, limit int64)
	log     []string // "verb resource name", lists with their limit
	deletes []metav1.DeleteOptions
}

func newStore() *store {
	return &store{
		items:   map[schema.GroupVersionResource][]metav1.PartialObjectMetadata{},
		refused: map[string]error{},
		undying: map[schema.GroupVersionResource]bool{},

		emptyFirst: map[schema.GroupVersionResource]bool{},
	}
}

// put adds an item with finalizers.
func (s *store) put(resource schema.GroupVersionResource, name string, finalizers ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items[resource] = append(s.items[resource], metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Finalizers: finalizers},
	})
}

// clear removes every item of a type.
func (s *store) clear(resource schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.items, resource)
}

// requests returns and forgets the requests made.
func (s *store) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

func (s *store) Resource(resource schema.GroupVersionResource) metadata.Getter {
	return collection{store: s, resource: resource}
}

type collection struct {
	metadata.ResourceInterface
	store    *store
	resource schema.GroupVersionResource
}

func (c collection) Namespace(namespace string) metadata.ResourceInterface {
	if namespace != "ns" {
		return collection{store: newStore(), resource: c.resource} // every other namespace is empty
	}
	return c
}

func (c collection) enter(verb, detail string) error {
	c.store.log = append(c.store.log, fmt.Sprintf("%s %s%s", verb, c.resource.Resource, detail))
	return c.store.refused[verb+" "+c.resource.Resource]
}

func (c collection) List(_ context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if c.store.onList != nil {
		c.store.onList(c.resource, options.Limit)
	}
	detail := ""
	if options.Limit == 1 {
		detail = " limit=1"
	}
	if err := c.enter("list", detail); err != nil {
		return nil, err
	}
	if c.store.emptyFirst[c.resource] && options.Continue == "" {
		return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{Continue: "more"}}, nil
	}
	items := slices.Clone(c.store.items[c.resource])
	if options.Limit > 0 && len(items) > int(options.Limit) {
		items = items[:options.Limit]
	}
	return &metav1.PartialObjectMetadataList{Items: items}, nil
}

func (c collection) DeleteCollection(_ context.Context, options metav1.DeleteOptions, _ metav1.ListOptions) error {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	c.store.deletes = append(c.store.deletes, options)
	if err := c.enter("deletecollection", ""); err != nil {
		return err
	}
	c.remove(func(metav1.PartialObjectMetadata) bool { return true })
	return nil
}

func (c collection) Delete(_ context.Context, name string, options metav1.DeleteOptions, _ ...string) error {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	c.store.deletes = append(c.store.deletes, options)
	if err := c.enter("delete", " "+name); err != nil {
		return err
	}
	c.remove(func(item metav1.PartialObjectMetadata) bool { return item.Name == name })
	return nil
}

func (c collection) remove(selected func(metav1.PartialObjectMetadata) bool) {
	c.store.items[c.resource] = slices.DeleteFunc(c.store.items[c.resource], func(item metav1.PartialObjectMetadata) bool {
		return selected(item) && len(item.Finalizers) == 0 && !c.store.undying[c.resource]
	})
}

// server is discovery with a list of types.
type server struct {
	discovery.DiscoveryInterface
	mu    sync.Mutex
	lists []*metav1.APIResourceList
	err   error
	calls int
}

func (s *server) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.lists, s.err
}

// serving makes a server of types that support every verb.
func serving(resources ...schema.GroupVersionResource) *server {
	s := &server{}
	for _, resource := range resources {
		s.add(resource, allVerbs...)
	}
	return s
}

func (s *server) add(resource schema.GroupVersionResource, verbs ...string) {
	s.lists = append(s.lists, &metav1.APIResourceList{
		GroupVersion: resource.GroupVersion().String(),
		APIResources: []metav1.APIResource{{Name: resource.Resource, Namespaced: true, Verbs: verbs}},
	})
}

func methodNotSupported(resource schema.GroupVersionResource, verb string) error {
	return apierrors.NewMethodNotSupported(resource.GroupResource(), verb)
}

func notFound(resource schema.GroupVersionResource) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "delete", resource.GroupResource(), "", "404 page not found", 0, true)
}

func conflict() error {
	return apierrors.NewConflict(corev1.Resource("namespaces"), "ns", errors.New("stale"))
}

// fixture is a controller with a namespace named ns that is being deleted.
type fixture struct {
	*controllertest.Env
	*namespaceController
	store  *store
	server *server
}

func start(t testing.TB, s *server, objects ...runtime.Object) *fixture {
	t.Helper()
	env := controllertest.New(t, objects...)
	env.Clock.SetTime(epoch)
	f := &fixture{Env: env, store: newStore(), server: s}
	env.Metadata, env.Env.Discovery = f.store, s
	env.Informers.Core().V1().Pods().Informer() // as other controllers do
	c, err := newController(env.Env, config{concurrentSyncs: 1, podsFirst: true})
	if err != nil {
		t.Fatal(err)
	}
	f.namespaceController = c
	env.Start(t)
	env.Fake.ClearActions()
	return f
}

// epoch is when the deletion of namespaces in tests, and their clocks, begin.
var epoch = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// terminating is a namespace that was deleted at epoch.
func terminating(changes ...func(*corev1.Namespace)) *corev1.Namespace {
	at := metav1.NewTime(epoch)
	ns := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: "uid", ResourceVersion: "1", DeletionTimestamp: &at},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating},
	}
	for _, change := range changes {
		change(ns)
	}
	return ns
}

// written are the requests on namespaces that are no lists, as "verb subresource".
func (f *fixture) written() []string {
	var all []string
	for _, action := range f.Fake.Actions() {
		if action.GetResource().Resource != "namespaces" || action.GetVerb() == "list" || action.GetVerb() == "watch" {
			continue
		}
		name := action.GetVerb()
		if sub := action.GetSubresource(); sub != "" {
			name += " " + sub
		}
		all = append(all, name)
	}
	f.Fake.ClearActions()
	return all
}

// finalized are the finalizers of each finalize request so far.
func (f *fixture) finalized() *[][]corev1.FinalizerName {
	var all [][]corev1.FinalizerName
	f.Fake.PrependReactor("create", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "finalize" {
			return false, nil, nil
		}
		ns := action.(clienttesting.CreateAction).GetObject().(*corev1.Namespace)
		all = append(all, ns.Spec.Finalizers)
		return true, ns, nil
	})
	return &all
}

func (f *fixture) live(t testing.TB) *corev1.Namespace {
	t.Helper()
	ns, err := f.Fake.CoreV1().Namespaces().Get(f.Context(), "ns", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// conditionsOf are the conditions as "Type=Status".
func conditionsOf(ns *corev1.Namespace) []string {
	var all []string
	for _, c := range ns.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	return all
}
