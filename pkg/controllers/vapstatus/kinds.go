package vapstatus

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kinds maps resources to kinds for one check. The type checker takes a resource that cannot be mapped for one that
// does not exist, also if the API server could not be asked; kinds remembers that. It is not safe for concurrent use.
type kinds struct {
	meta.RESTMapper
	// served returns what the API server serves, each resource in the version it prefers, also in groups that could not
	// be asked.
	served func() []*metav1.APIResourceList
	// err is why a resource could not be mapped, other than that there is none.
	err error
}

var _ meta.ResettableRESTMapper = &kinds{}

// KindsFor implements meta.RESTMapper.
func (k *kinds) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	found, err := k.RESTMapper.KindsFor(resource)
	switch {
	case err == nil:
	case !meta.IsNoMatchError(err):
		k.err = err
	case isServed(k.served(), resource):
		// The mapper knows nothing of a group that it could not ask.
		k.err = fmt.Errorf("the API server serves %s, but it could not be asked for its kind: %w", resource, err)
	}
	return found, err
}

// isServed reports whether lists contain a resource.
func isServed(lists []*metav1.APIResourceList, resource schema.GroupVersionResource) bool {
	for _, list := range lists {
		if list.GroupVersion != resource.GroupVersion().String() {
			continue
		}
		for i := range list.APIResources {
			if list.APIResources[i].Name == resource.Resource {
				return true
			}
		}
	}
	return false
}

// Reset implements meta.ResettableRESTMapper. What failed before is asked for again.
func (k *kinds) Reset() {
	k.err = nil
	meta.MaybeResetRESTMapper(k.RESTMapper)
}
