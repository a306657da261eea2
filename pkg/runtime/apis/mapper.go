package apis

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"
)

// maxUnknown bounds how many unknown kinds are remembered.
const maxUnknown = 100

// mapper is the mapper of a catalog. It reports unknown kinds to the catalog: they may be
// newer than the last discovery.
type mapper struct {
	*restmapper.DeferredDiscoveryRESTMapper
	catalog *Catalog
}

// Mapper maps kinds to resources, from memory where it can.
func (c *Catalog) Mapper() meta.RESTMapper { return mapper{c.mapper, c} }

// noteUnknown makes the catalog look for an unknown kind: immediately if it was not asked for
// since the last change, otherwise like everything else that is waited for.
func (c *Catalog) noteUnknown(err error) {
	if !meta.IsNoMatchError(err) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lacks = true
	what := err.Error()
	if c.unknown[what] || len(c.unknown) >= maxUnknown {
		return
	}
	c.unknown[what] = true
	c.wait = suspectPause
	c.Suspect()
}

// KindFor implements meta.RESTMapper.
func (m mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	kind, err := m.DeferredDiscoveryRESTMapper.KindFor(resource)
	m.catalog.noteUnknown(err)
	return kind, err
}

// KindsFor implements meta.RESTMapper.
func (m mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	kinds, err := m.DeferredDiscoveryRESTMapper.KindsFor(resource)
	m.catalog.noteUnknown(err)
	return kinds, err
}

// ResourceFor implements meta.RESTMapper.
func (m mapper) ResourceFor(input schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	resource, err := m.DeferredDiscoveryRESTMapper.ResourceFor(input)
	m.catalog.noteUnknown(err)
	return resource, err
}

// ResourcesFor implements meta.RESTMapper.
func (m mapper) ResourcesFor(input schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	resources, err := m.DeferredDiscoveryRESTMapper.ResourcesFor(input)
	m.catalog.noteUnknown(err)
	return resources, err
}

// RESTMapping implements meta.RESTMapper.
func (m mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := m.DeferredDiscoveryRESTMapper.RESTMapping(kind, versions...)
	m.catalog.noteUnknown(err)
	return mapping, err
}

// RESTMappings implements meta.RESTMapper.
func (m mapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	mappings, err := m.DeferredDiscoveryRESTMapper.RESTMappings(kind, versions...)
	m.catalog.noteUnknown(err)
	return mappings, err
}
