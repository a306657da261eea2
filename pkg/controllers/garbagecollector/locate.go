package garbagecollector

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"kcmd.dev/pkg/controller"
)

var (
	// errGone means that the object itself does not exist; the graph is already updated.
	errGone = errors.New("the object does not exist")
	// errScope is permanent.
	errScope = errors.New("cluster-scoped objects cannot refer to namespaced owners")
)

// mappingError means that a kind is currently not known to be served.
type mappingError struct{ apiVersion, kind string }

func (e *mappingError) Error() string {
	return fmt.Sprintf("unable to get REST mapping for %s/%s.", e.apiVersion, e.kind)
}

// location is the target of requests for an object.
type location struct {
	resource        schema.GroupVersionResource
	namespace, name string
	// apiVersion and kind are for errors.
	apiVersion, kind string
}

func (c *collector) client(l location) metadata.ResourceInterface {
	return c.Metadata.Resource(l.resource).Namespace(l.namespace)
}

// locate returns the location of an identity. It does not trust its namespace.
func (c *collector) locate(id identity) (location, error) {
	unmapped := &mappingError{id.apiVersion, id.kind}
	gv, err := schema.ParseGroupVersion(id.apiVersion)
	if err != nil {
		return location{}, unmapped
	}
	mapping, err := c.Mapper.RESTMapping(gv.WithKind(id.kind).GroupKind(), gv.Version)
	if err != nil {
		return location{}, unmapped
	}
	l := location{resource: mapping.Resource, name: id.name, apiVersion: id.apiVersion, kind: id.kind}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return l, nil
	}
	if id.namespace == "" {
		return location{}, errScope
	}
	l.namespace = id.namespace
	return l, nil
}

// locateNode returns the location of a node's object. For an observed node it is known, except
// for the version if its kind is no longer watched.
func (c *collector) locateNode(n *node, s state) (location, error) {
	if s.virtual {
		return c.locate(n.identity)
	}
	l := location{resource: s.resource, namespace: n.namespace, name: n.name, apiVersion: n.apiVersion, kind: n.kind}
	if !s.unwatched {
		return l, nil
	}
	served, found := c.servedAs(s.resource)
	if !found {
		return location{}, &mappingError{n.apiVersion, n.kind}
	}
	l.resource = served
	return l, nil
}

// servedAs returns a resource in its own version if that is served, otherwise in another one.
func (c *collector) servedAs(resource schema.GroupVersionResource) (schema.GroupVersionResource, bool) {
	for _, candidate := range []schema.GroupVersionResource{resource, resource.GroupResource().WithVersion("")} {
		// The mapper also accepts partial names.
		if served, err := c.Mapper.ResourceFor(candidate); err == nil && served.GroupResource() == resource.GroupResource() {
			return served, true
		}
	}
	return schema.GroupVersionResource{}, false
}

// read reads an object live. It returns nil if there is none with the UID.
func (c *collector) read(ctx context.Context, l location, uid types.UID) (*metav1.PartialObjectMetadata, error) {
	object, err := c.client(l).Get(ctx, l.name, metav1.GetOptions{})
	if err := l.unserved(err); err != nil {
		return nil, err
	}
	if controller.Absent(err) || err == nil && object.UID != uid {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s/%s: %w", l.resource.GroupResource(), l.namespace, l.name, err)
	}
	return object, nil
}

// unserved turns the error that there is no such resource into a mappingError.
func (l location) unserved(err error) error {
	if noSuchResource(err) {
		return &mappingError{l.apiVersion, l.kind}
	}
	return nil
}

// noSuchResource distinguishes a missing resource from a missing object. Both are NotFound
// errors, but the former is not an answer of the resource's server.
func noSuchResource(err error) bool {
	return apierrors.IsNotFound(err) && !controller.Absent(err)
}
