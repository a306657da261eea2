package simulation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Held is an object that finalizers can hold.
type Held interface {
	runtime.Object
	metav1.Object
}

// Release plays whatever holds objects of a kind with finalizers: those that are being deleted lose theirs, about a
// third of them or all. It reports whether there were any.
func Release[T Held](w *World, all bool) (did bool) {
	for _, object := range All[T](w) {
		if object.GetDeletionTimestamp() != nil && (all || w.OneIn(3)) {
			w.Note("%s is released", object.GetName())
			Change(w, object, func(o T) { o.SetFinalizers(nil) })
			did = true
		}
	}
	return did
}
