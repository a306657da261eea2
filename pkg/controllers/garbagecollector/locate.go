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
)

var (
	// errGone says that the object itself does not exist; the graph knows already.
	errGone = errors.New("the object does not exist")
	// errScope can never be resolved.
	errScope = errors.New("cluster-scoped objects cannot refer to namespaced owners")
)

// mappingError says that a kind is not served, as far as is known. It may be again.
type mappingError struct{ apiVersion, kind string }

func (e *mappingError) Error() string {
	return fmt.Sprintf("unable to get REST mapping for %s/%s.", e.apiVersion, e.kind)
}

// location is where requests about an object go.
type location struct {
	resource        schema.GroupVersionResource
	namespace, name string
	// apiVersion and kind are for errors.
	apiVersion, kind string
}

func (c *collector) at(l location) metadata.ResourceInterface {
	return c.metadata.Resource(l.resource).Namespace(l.namespace)
}

// locate finds out where an identity would be. It does not trust its namespace.
func (c *collector) locate(id identity) (location, error) {
	unmapped := &mappingError{id.apiVersion, id.kind}
	gv, err := schema.ParseGroupVersion(id.apiVersion)
	if err != nil {
		return location{}, unmapped
	}
	mapping, err := c.mapper.RESTMapping(gv.WithKind(id.kind).GroupKind(), gv.Version)
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

// locateNode finds out where the object of a node is. Of one that was observed that is known,
// but for the version if its kind is not watched any more.
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

// servedAs returns a resource in the version that it has, if that is served, else in another.
func (c *collector) servedAs(resource schema.GroupVersionResource) (schema.GroupVersionResource, bool) {
	for _, candidate := range []schema.GroupVersionResource{resource, resource.GroupResource().WithVersion("")} {
		// The mapper takes a part of a name, too.
		if served, err := c.mapper.ResourceFor(candidate); err == nil && served.GroupResource() == resource.GroupResource() {
			return served, true
		}
	}
	return schema.GroupVersionResource{}, false
}

// read asks for an object. It returns nil if there is none with the UID.
func (c *collector) read(ctx context.Context, l location, uid types.UID) (*metav1.PartialObjectMetadata, error) {
	object, err := c.at(l).Get(ctx, l.name, metav1.GetOptions{})
	if err := l.unserved(err); err != nil {
		return nil, err
	}
	if apierrors.IsNotFound(err) || err == nil && object.UID != uid {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s/%s: %w", l.resource.GroupResource(), l.namespace, l.name, err)
	}
	return object, nil
}

// unserved turns the answer that there is no such resource into an error of its own.
func (l location) unserved(err error) error {
	if noSuchResource(err) {
		return &mappingError{l.apiVersion, l.kind}
	}
	return nil
}

// noSuchResource tells the answer that there is no such resource from the one that there is
// no such object. Both are "not found", but the first is no word of the resource's server.
func noSuchResource(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
