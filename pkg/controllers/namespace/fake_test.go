package namespace

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
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
