package simulation

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

// fault is what becomes of a request.
type fault int

const (
	none   fault = iota
	before       // it is refused
	after        // it is carried out, and its answer is lost
	late         // it is carried out after its sender has given up on it
)

func (w *World) fault(action clienttesting.Action) fault {
	if !w.Faulty {
		return none
	}
	switch w.Rand.IntN(20) {
	case 0:
		return before
	case 1:
		return after
	case 2:
		if w.mayComeLate(action) {
			return late
		}
	}
	return none
}

func (w *World) refusal(resource schema.GroupResource) error {
	switch w.Rand.IntN(4) {
	case 0:
		return apierrors.NewTooManyRequestsError("later")
	case 1:
		return apierrors.NewInternalError(fmt.Errorf("failed calling webhook"))
	case 2:
		return apierrors.NewForbidden(resource, "x", fmt.Errorf("exceeded quota"))
	}
	return apierrors.NewTimeoutError("timeout", 0)
}

// between lets other things happen before a request of the controller is answered, if the world is Hasty. Meanwhile the
// controller works on queues other than the one that waits.
func (w *World) between() {
	if w.Hasty == 0 || w.happens == nil || !w.OneIn(w.Hasty) {
		return
	}
	happens := w.happens
	w.happens = nil // none of it is interrupted in turn
	w.Fake.Unlock() // the fake client holds it until the request is answered
	w.log("meanwhile")
	defer func() {
		w.log("the request arrives")
		w.Fake.Lock()
		w.happens = happens
	}()
	for range 1 + w.Rand.IntN(5) {
		happens()
	}
}
