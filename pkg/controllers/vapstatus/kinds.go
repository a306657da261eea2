package vapstatus

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kinds maps resources to kinds for one check. The type checker takes a resource that cannot be mapped for one that
// does not exist, also if the API server could not be asked; kinds remembers that. It is not safe for concurrent use.
type kinds struct {
	meta.RESTMapper
	// err is why a resource could not be mapped, other than that there is none.
	err error
}

var _ meta.ResettableRESTMapper = &kinds{}

// KindsFor implements meta.RESTMapper.
func (k *kinds) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	found, err := k.RESTMapper.KindsFor(resource)
	if err != nil && !meta.IsNoMatchError(err) {
		k.err = err
	}
	return found, err
}

// Reset implements meta.ResettableRESTMapper. What failed before is asked for again.
func (k *kinds) Reset() {
	k.err = nil
	meta.MaybeResetRESTMapper(k.RESTMapper)
}
