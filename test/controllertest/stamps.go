package controllertest

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

// StampWrites makes the API server treat the metadata of a resource as a real one does: it
// gives names and UIDs, resource versions after 1000, and a new generation with each write.
func (e *Env) StampWrites(resource string) {
	stamp := func(object, before metav1.Object) {
		object.SetResourceVersion(e.NextVersion())
		object.SetGeneration(before.GetGeneration() + 1)
		object.SetUID(before.GetUID())
	}
	e.react("create", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		created := action.(clienttesting.CreateActionImpl).Object
		object, err := meta.Accessor(created)
		if err != nil {
			return true, nil, err
		}
		stamp(object, &metav1.ObjectMeta{})
		object.SetNamespace(action.GetNamespace())
		object.SetUID(types.UID(resource + "-" + object.GetResourceVersion()))
		if object.GetName() == "" {
			object.SetName(object.GetGenerateName() + object.GetResourceVersion())
		}
		// A create through the tracker would leave the kind in the object, which real
		// clients clear.
		return true, created, e.Fake.Tracker().Add(created)
	})
	e.react("update", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		object, err := meta.Accessor(action.(clienttesting.UpdateActionImpl).Object)
		if err != nil {
			return true, nil, err
		}
		stored, err := e.Fake.Tracker().Get(action.GetResource(), object.GetNamespace(), object.GetName())
		if err != nil {
			return true, nil, err
		}
		before, err := meta.Accessor(stored)
		if err != nil {
			return true, nil, err
		}
		stamp(object, before)
		return false, nil, nil
	})
}
