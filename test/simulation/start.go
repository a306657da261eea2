package simulation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// StartOwners makes the instance of a controller that has no other queue than that of its owners, and hands over
// nothing but its writes. left is what World.Start got.
func StartOwners[T metav1.Object](w *World, o *owners.Owners[T], left any) Instance {
	queue := NewQueue(w, o.Reconcile)
	o.Queue = queue
	if left != nil {
		o.Writes.TakeOver(left.(writes.State))
	}
	return Instance{Runners: []Runner{queue}, HandOver: func() any { return o.HandOver() }}
}
