// Package index finds objects by their controller, node, selector or devices, without scanning the
// namespace.
//
// The model, in rules:
//
//  1. An index by controller has a key for each controller reference; objects without one are
//     in the orphan bucket of their namespace.
//  2. The constructor of a finder (Pods, ReplicaSets) adds the index to the informer unless it
//     exists. Indexes outlive the controller that added them.
//  3. A finder returns cached objects, which must not be modified. The slice belongs to the
//     caller.
//  4. If an informer rejects an index, its scope records the error, which fails the New of the
//     controller; it need not be checked here.
//
// See docs/specs/workload-common.md, section 2.
package index

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// Ensure adds an index to an informer unless it has one of that name.
func Ensure(informer cache.SharedIndexInformer, name string, keys cache.IndexFunc) {
	if _, ok := informer.GetIndexer().GetIndexers()[name]; ok {
		return
	}
	_ = informer.AddIndexers(cache.Indexers{name: keys}) // see rule 4
}

// Append appends the cached objects that an index has under each of the keys.
func Append[T any](to []T, indexer cache.Indexer, name string, keys ...string) ([]T, error) {
	for _, key := range keys {
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
	}
	return to, nil
}
