package election

import (
	"math"
	"slices"
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

// durationOf is the recorded lease duration.
func durationOf(l *coordinationv1.Lease) time.Duration {
	return time.Duration(secondsOf(l)) * time.Second
}

// preferredOf returns the candidate that the API server prefers to the holder, empty if there
// is none.
func preferredOf(l *coordinationv1.Lease) string {
	if l == nil {
		return ""
	}
	return ptr.Deref(l.Spec.PreferredHolder, "")
}

// heldSpec is the record of self holding the lease, renewed at now. own is set if self is the
// holder according to the current record. The time of acquisition stays while the holder
// stays; the count of transitions tells changes of the holder. After the highest number it
// begins again: the API server refuses a negative one, and nobody could take the lease.
func heldSpec(current *coordinationv1.Lease, exists, own bool, self string, now time.Time, t Timings) coordinationv1.LeaseSpec {
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
	case own:
		spec.LeaseTransitions = &transitions
		if current.Spec.AcquireTime != nil {
			spec.AcquireTime = current.Spec.AcquireTime
		}
	case exists && transitions < math.MaxInt32:
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

// records are those that this process has written as the holder: first the stored one, as far
// as is known, then those that may have been stored. They are identified by their times,
// which every holder sets, to the microsecond.
type records []times

// times are those of a record in microseconds, to which they are rounded on the wire.
type times struct{ acquired, renewed int64 }

// maxRecords bounds what is remembered. Requests that failed long ago will not arrive any
// more.
const maxRecords = 8

func timesOf(s coordinationv1.LeaseSpec) times {
	return times{ptr.Deref(s.AcquireTime, metav1.MicroTime{}).UnixMicro(), ptr.Deref(s.RenewTime, metav1.MicroTime{}).UnixMicro()}
}

func (r records) has(s coordinationv1.LeaseSpec) bool { return slices.Contains(r, timesOf(s)) }

// add remembers a record that is about to be sent.
func (r *records) add(s coordinationv1.LeaseSpec) {
	if len(*r) == maxRecords {
		*r = slices.Delete(*r, 1, 2)
	}
	*r = append(*r, timesOf(s))
}

// confirm records the record that is stored. Those that were sent before it are not.
func (r *records) confirm(s coordinationv1.LeaseSpec) {
	if n := slices.Index(*r, timesOf(s)); n > 0 {
		*r = slices.Delete(*r, 0, n)
	}
}

// only records that no others can be stored any more.
func (r *records) only(stored ...coordinationv1.LeaseSpec) {
	*r = (*r)[:0]
	for _, s := range stored {
		*r = append(*r, timesOf(s))
	}
}
