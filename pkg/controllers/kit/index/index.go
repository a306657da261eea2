// Package index finds objects by the controller that owns them, without a scan of the
// namespace.
//
// The model, in rules:
//
//  1. Each index files an object under its controller reference; objects without one
//     are filed in the orphan bucket of their namespace.
//  2. A finder (Pods, ReplicaSets) is made from the informer, which adds the index if it
//     is not there yet. Indexes outlive the controller that asked for them.
//  3. What a finder returns is the cached object: it must not be changed. The slice
//     belongs to the caller.
//
// See specs/workload-common.md, section 2.
package index

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// Ensure adds an index to an informer unless it has one of that name.
func Ensure(informer cache.SharedIndexInformer, name string, keys cache.IndexFunc) error {
	if _, ok := informer.GetIndexer().GetIndexers()[name]; ok {
		return nil
	}
	if err := informer.AddIndexers(cache.Indexers{name: keys}); err != nil {
		return fmt.Errorf("adding index %q: %w", name, err)
	}
	return nil
}

// appendFrom appends the objects that an index files under a key.
func appendFrom[T any](to []T, indexer cache.Indexer, name, key string) ([]T, error) {
	objects, err := indexer.ByIndex(name, key)
	if err != nil {
		return nil, fmt.Errorf("looking up %q in index %q: %w", key, name, err)
	}
	if to == nil {
		to = make([]T, 0, len(objects))
	}
	for _, obj := range objects {
		typed, ok := obj.(T)
		if !ok {
			return nil, fmt.Errorf("looking up %q in index %q: found a %T", key, name, obj)
		}
		to = append(to, typed)
	}
	return to, nil
}
