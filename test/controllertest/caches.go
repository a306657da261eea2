package controllertest

import (
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
)

// Caches of an Env that has not been started hold exactly what a test puts there, so that
// the test decides how far they are behind the API server. No handler is called.

// CacheOf returns the cache of the kind that object is of.
func (e *Env) CacheOf(t testing.TB, object runtime.Object) cache.Indexer {
	t.Helper()
	resource, _ := kindOf(t, object)
	informer, err := e.Informers.ForResource(resource)
	if err != nil {
		t.Fatal(err)
	}
	return informer.Informer().GetIndexer()
}

// Cache puts objects into the caches, in place of older states of them.
func (e *Env) Cache(t testing.TB, objects ...runtime.Object) {
	t.Helper()
	for _, object := range objects {
		if err := e.CacheOf(t, object).Update(object); err != nil {
			t.Fatal(err)
		}
	}
}

// Uncache removes objects from the caches.
func (e *Env) Uncache(t testing.TB, objects ...runtime.Object) {
	t.Helper()
	for _, object := range objects {
		if err := e.CacheOf(t, object).Delete(object); err != nil {
			t.Fatal(err)
		}
	}
}

// EmptyCache makes the cache of the kind that object is of one that holds nothing, and that
// has seen this version.
func (e *Env) EmptyCache(t testing.TB, object runtime.Object, version string) {
	t.Helper()
	if err := e.CacheOf(t, object).Replace(nil, version); err != nil {
		t.Fatal(err)
	}
}

// CatchUp makes the caches of kinds show what the API server holds, as of the last version
// that it gave, and forgets the requests so far. Each kind is given as an object of it.
func (e *Env) CatchUp(t testing.TB, kinds ...runtime.Object) {
	t.Helper()
	for _, kind := range kinds {
		stored := e.list(t, kind, "")
		items := make([]any, len(stored))
		for i := range stored {
			items[i] = stored[i]
		}
		if err := e.CacheOf(t, kind).Replace(items, strconv.FormatInt(e.version.Load(), 10)); err != nil {
			t.Fatal(err)
		}
	}
	e.Fake.ClearActions()
}

// kindOf returns what the kind of an object is called, in requests and in manifests.
func kindOf(t testing.TB, object runtime.Object) (schema.GroupVersionResource, schema.GroupVersionKind) {
	t.Helper()
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		t.Fatal(err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	return resource, kinds[0]
}
