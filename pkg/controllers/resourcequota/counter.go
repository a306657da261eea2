package resourcequota

import (
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/quota/v1/generic"
)

// aliases are the resources whose number has been limited under their own name since before
// there was a name for the number of each resource.
var aliases = map[schema.GroupResource]bool{
	{Resource: "configmaps"}:             true,
	{Resource: "replicationcontrollers"}: true,
	{Resource: "resourcequotas"}:         true,
	{Resource: "secrets"}:                true,
}

// counter is the evaluator of a resource of which only the number of objects is limited. The
// handler of its informer counts.
type counter struct {
	resource schema.GroupVersionResource
	// names are those that limit the number of objects.
	names []corev1.ResourceName
	// complete reports whether all objects have been counted.
	complete func() bool

	mu sync.Mutex
	// objects is the number of objects by namespace, in those that have some.
	objects map[string]int64
}

func newCounter(resource schema.GroupVersionResource, complete func() bool) *counter {
	kind := resource.GroupResource()
	names := []corev1.ResourceName{generic.ObjectCountQuotaResourceNameFor(kind)}
	if aliases[kind] {
		names = append(names, corev1.ResourceName(kind.Resource))
	}
	return &counter{resource: resource, names: names, complete: complete, objects: map[string]int64{}}
}

// count adds to the number of objects of a namespace.
func (c *counter) count(namespace string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.objects[namespace] += n; c.objects[namespace] == 0 {
		delete(c.objects, namespace)
	}
}

func (c *counter) limitedBy(name corev1.ResourceName) bool { return slices.Contains(c.names, name) }

// usage implements evaluator. The objects are in no scope.
func (c *counter) usage(namespace string, s selected) (corev1.ResourceList, error) {
	if !c.complete() {
		return nil, notSynced(c.resource)
	}
	if !s.any() {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	used := corev1.ResourceList{}
	for _, name := range c.names {
		used[name] = number(c.objects[namespace])
	}
	return used, nil
}

// forget implements evaluator. The count continues: it is the same for all namespaces, and cheap.
func (c *counter) forget(string) {}

func notSynced(resource schema.GroupVersionResource) error {
	return fmt.Errorf("%v not yet synced", resource)
}
