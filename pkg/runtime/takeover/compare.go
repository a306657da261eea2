package takeover

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
)

// snapshot is what a consistent read has shown.
type snapshot struct {
	// version is that of the whole.
	version string
	objects map[string]object // by namespace/name
}

// object is one object of a snapshot.
type object struct {
	uid     types.UID
	version string
}

// difference is something that a cache does not show as a snapshot does.
type difference struct {
	key string
	// want is the object as the cache should have it, or newer; the zero object if it
	// should be gone, and then was is the one that should.
	want object
	was  types.UID
}

func (d difference) String() string {
	if d.want == (object{}) {
		return "the deletion of " + d.key
	}
	return d.key + " at version " + d.want.version
}

// missingFrom returns what a cache lacks of the snapshot. An object that only the cache has
// is deleted, or newer than the snapshot.
func (s snapshot) missingFrom(store cache.Indexer) []difference {
	var missing []difference
	for key, o := range s.objects {
		if d := (difference{key: key, want: o}); !d.shownBy(store) {
			missing = append(missing, d)
		}
	}
	for _, item := range store.List() {
		cached, key, ok := identify(item)
		if !ok || s.objects[key].uid == cached.GetUID() || controller.IsOlder(s.version, cached.GetResourceVersion()) {
			continue
		}
		if d := (difference{key: key, was: cached.GetUID()}); !d.shownBy(store) {
			missing = append(missing, d)
		}
	}
	return missing
}

// shownBy reports whether the cache shows the difference, or something newer.
func (d difference) shownBy(store cache.Indexer) bool {
	item, exists, err := store.GetByKey(d.key)
	if err != nil {
		return false
	}
	if !exists {
		return d.want == (object{})
	}
	cached, _, ok := identify(item)
	if !ok {
		return false
	}
	if d.want == (object{}) {
		return cached.GetUID() != d.was
	}
	if cached.GetUID() != d.want.uid {
		// A newer object of the same name exists because this one is gone.
		return controller.IsOlder(d.want.version, cached.GetResourceVersion())
	}
	return cached.GetResourceVersion() == d.want.version || controller.IsOlder(d.want.version, cached.GetResourceVersion())
}

func identify(item any) (o metav1.Object, key string, ok bool) {
	o, err := meta.Accessor(item)
	if err != nil {
		return nil, "", false
	}
	return o, cache.MetaObjectToName(o).String(), true
}
