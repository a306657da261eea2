package simulation

import "k8s.io/apimachinery/pkg/runtime"

// Relist interrupts the watch of the kind that an object is of, so that its cache does not show what happened since it
// saw an event last, but only what has become of it.
func (w *World) Relist(object runtime.Object) {
	resource, _ := kindOf(object)
	if i, ok := w.informers[resource]; ok {
		w.log("relist %s", resource.Resource)
		i.relist()
	}
}
