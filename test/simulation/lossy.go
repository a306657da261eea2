package simulation

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// losses are the objects that exist although the last list lacked them, by name, and whether a handler was told that
// they are gone. An API server whose watch cache has lost events answers like that. They stay away until the next list,
// or until they change; no event shows their deletion.
type losses map[types.NamespacedName]bool

// MayBeLossy makes one world of so many Lossy, for all objects.
func (w *World) MayBeLossy(n int) {
	if w.OneIn(n) {
		w.Lossy = func(runtime.Object) bool { return true }
	}
}

// lose chooses what the next list of an informer lacks: nothing in one list of four, otherwise half of the objects that
// Lossy allows.
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

// Lacks reports whether the cache lacks an object that exists, because a list did, and the handlers of the controller
// were told that it is gone.
func (w *World) Lacks(object runtime.Object) bool {
	resource, _ := kindOf(object)
	i, ok := w.informers[cached{resource, false}]
	return ok && i.lost[nameOf(accessor(object))]
}

// find relists what the caches lack. From then on no list lacks anything.
func (w *World) find() {
	w.Lossy = nil
	for _, i := range w.sorted() {
		if len(i.lost) > 0 {
			w.log("relist %s", i.resource.Resource)
			i.relist()
		}
	}
}
