package election

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// holderOf is the recorded holder, empty without one.
func holderOf(l *coordinationv1.Lease) string {
	if l == nil {
		return ""
	}
	return ptr.Deref(l.Spec.HolderIdentity, "")
}

// secondsOf is the recorded lease duration.
func secondsOf(l *coordinationv1.Lease) int32 {
	if l == nil {
		return 0
	}
	return ptr.Deref(l.Spec.LeaseDurationSeconds, 0)
}

// preferredOf is who should hold the lease instead of its holder, by the will of the API
// server; empty if there is no such candidate.
func preferredOf(l *coordinationv1.Lease) string {
	if l == nil {
		return ""
	}
	return ptr.Deref(l.Spec.PreferredHolder, "")
}

// heldSpec is the record of self holding the lease, renewed at now. The time of
// acquisition stays while the holder stays; the count of transitions tells changes of the
// holder.
func heldSpec(current *coordinationv1.Lease, exists bool, self string, now time.Time, t Timings) coordinationv1.LeaseSpec {
	spec := coordinationv1.LeaseSpec{
		HolderIdentity:       ptr.To(self),
		LeaseDurationSeconds: ptr.To(t.seconds()),
		AcquireTime:          &metav1.MicroTime{Time: now},
		RenewTime:            &metav1.MicroTime{Time: now},
		LeaseTransitions:     ptr.To[int32](0),
	}
	if current == nil {
		return spec
	}
	transitions := ptr.Deref(current.Spec.LeaseTransitions, 0)
	switch {
	case holderOf(current) == self:
		spec.LeaseTransitions = &transitions
		if current.Spec.AcquireTime != nil {
			spec.AcquireTime = current.Spec.AcquireTime
		}
	case exists:
		spec.LeaseTransitions = ptr.To(transitions + 1)
	}
	return spec
}

// releasedSpec is the record of a lease that was given back.
func releasedSpec(current *coordinationv1.Lease, now time.Time) coordinationv1.LeaseSpec {
	return coordinationv1.LeaseSpec{
		HolderIdentity:       ptr.To(""),
		LeaseDurationSeconds: ptr.To[int32](1),
		AcquireTime:          &metav1.MicroTime{Time: now},
		RenewTime:            &metav1.MicroTime{Time: now},
		LeaseTransitions:     ptr.To(ptr.Deref(current.Spec.LeaseTransitions, 0)),
	}
}

// withSpec is the lease with another record. Its resource version makes the update fail
// if somebody else wrote in between.
func withSpec(l *coordinationv1.Lease, spec coordinationv1.LeaseSpec) *coordinationv1.Lease {
	l = l.DeepCopy()
	l.Spec = spec
	return l
}
