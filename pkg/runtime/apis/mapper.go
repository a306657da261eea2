package apis

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"
)

// maxUnknown bounds how many unknown kinds are remembered.
const maxUnknown = 100

// mapper is the mapper of a catalog. It reports unknown kinds to the catalog: they may be
// newer than the last discovery.
//
// The mapper of client-go knows nothing of a group that could not be asked, as that of an
// aggregated API server that is down, and takes its kinds for unknown ones. This mapper
// returns NoMatch only if the kind was not served either when its group could last be asked,
// and another error otherwise.
type mapper struct{ catalog *Catalog }

var _ meta.ResettableRESTMapper = mapper{}

// Mapper maps kinds to resources, from memory where it can.
func (c *Catalog) Mapper() meta.RESTMapper { return mapper{c} }

func (m mapper) newest() *restmapper.DeferredDiscoveryRESTMapper { return m.catalog.view.Load().mapper }

// Reset implements meta.ResettableRESTMapper: the next question is answered by the API server.
func (m mapper) Reset() { m.newest().Reset() }

// ResourceSingularizer implements meta.RESTMapper.
func (m mapper) ResourceSingularizer(resource string) (string, error) {
	return m.newest().ResourceSingularizer(resource)
}

// explain returns the error of the mapper for what matches, which may be served although the
// mapper does not know it.
func (c *Catalog) explain(err error, matches func(r schema.GroupVersionResource, kind string) bool) error {
	if !meta.IsNoMatchError(err) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteUnknown(err.Error())
	for r, kind := range c.served {
		if kind != "" && matches(r, kind) { // the mapper knows no subresources
			// Not wrapped: it must not be taken for a NoMatch.
			return fmt.Errorf("the API server served %s, but could not be asked for it again: %s", r.GroupResource(), err.Error())
		}
	}
	return err
}

// noteUnknown makes the catalog look for what is unknown: immediately if it was not asked for
// since the last change, otherwise like everything else that is waited for.
func (c *Catalog) noteUnknown(what string) {
	c.lacks = true
	if c.unknown[what] || len(c.unknown) >= maxUnknown {
		return
	}
	c.unknown[what] = true
	c.wait = suspectPause
	c.Suspect()
}

// ofResource matches a resource, in any version if it has none.
func ofResource(asked schema.GroupVersionResource) func(schema.GroupVersionResource, string) bool {
	return func(r schema.GroupVersionResource, _ string) bool {
		return r.GroupResource() == asked.GroupResource() && (asked.Version == "" || r.Version == asked.Version)
	}
}

// ofKind matches the resource of a kind, in any version if there are none.
func ofKind(asked schema.GroupKind, versions []string) func(schema.GroupVersionResource, string) bool {
	return func(r schema.GroupVersionResource, kind string) bool {
		return r.Group == asked.Group && kind == asked.Kind && (len(versions) == 0 || slices.Contains(versions, r.Version))
	}
}

// KindFor implements meta.RESTMapper.
func (m mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	kind, err := m.newest().KindFor(resource)
	return kind, m.catalog.explain(err, ofResource(resource))
}

// KindsFor implements meta.RESTMapper.
func (m mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	kinds, err := m.newest().KindsFor(resource)
	return kinds, m.catalog.explain(err, ofResource(resource))
}

// ResourceFor implements meta.RESTMapper.
func (m mapper) ResourceFor(input schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	resource, err := m.newest().ResourceFor(input)
	return resource, m.catalog.explain(err, ofResource(input))
}

// ResourcesFor implements meta.RESTMapper.
func (m mapper) ResourcesFor(input schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	resources, err := m.newest().ResourcesFor(input)
	return resources, m.catalog.explain(err, ofResource(input))
}

// RESTMapping implements meta.RESTMapper.
func (m mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := m.newest().RESTMapping(kind, versions...)
	return mapping, m.catalog.explain(err, ofKind(kind, versions))
}

// RESTMappings implements meta.RESTMapper.
func (m mapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	mappings, err := m.newest().RESTMappings(kind, versions...)
	return mappings, m.catalog.explain(err, ofKind(kind, versions))
}
