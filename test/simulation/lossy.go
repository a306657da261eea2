package simulation

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// losses are the names of objects that exist and that a list lacked, as that of an API server whose watch cache has
// lost them, and whether a handler was told that they are gone. They stay away until the next list or change. Nothing
// tells of their deletion: such an API server does not.
type losses map[types.NamespacedName]bool

// lose returns what the next list of an informer lacks: each object in two that may be, as a rule.
func (i *informer) lose() losses {
	w := i.w
	if w.Lossy == nil || w.OneIn(4) {
		return nil
	}
	lost := losses{}
	objects := w.server.of(i.resource).objects
	for _, name := range sortedNames(objects) {
		if w.Lossy(objects[name]) && w.OneIn(2) {
			w.log("the list lacks %s", describe(objects[name]))
			lost[name] = i.lost[name]
		}
	}
	return lost
}

// told remembers that a handler was told that an object is gone.
func (i *informer) told(name types.NamespacedName) {
	if _, lost := i.lost[name]; lost {
		i.lost[name] = true
	}
}

// Lacks reports whether the cache has shown an object that exists and lacks it now, because a list did, and the
// handlers of the controller know.
func (w *World) Lacks(object runtime.Object) bool {
	resource, _ := kindOf(object)
	i, ok := w.informers[resource]
	return ok && i.lost[nameOf(accessor(object))]
}

// find has the caches show again what they lack. No list lacks anything from then on.
func (w *World) find() {
	w.Lossy = nil
	for _, i := range w.sorted() {
		if len(i.lost) > 0 {
			w.log("relist %s", i.resource.Resource)
			i.relist()
		}
	}
}
