package leadership

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

// draining is a runner whose controllers are stopping.
type draining struct {
	runner
	pending map[string]bool
}

func (d *draining) Pending() map[string]bool { return d.pending }

// The lease is given back when the last controller has stopped, and not before. Pins MGR-156.
func TestTheLeaseIsGivenBackWhenNothingRuns(t *testing.T) {
	l, conn := contending(t, v1beta1.NewDefault())
	stopping := &draining{pending: map[string]bool{"job-controller": true, "ttl-controller": true}}
	l.options.Runner = stopping
	k := l.Locks()[0]
	holder := func() string {
		lease := must.Get(conn.client.CoordinationV1().Leases(k.key.lease.Namespace).Get(t.Context(), k.key.lease.Name, metav1.GetOptions{}))(t)
		return ptr.Deref(lease.Spec.HolderIdentity, "")
	}
	l.TakeTerms(t.Context())
	k.want([]string{"job-controller", "ttl-controller"})
	k.admission.Answer(k.admission.Ask(), nil)
	l.Started(map[string]uint64{"job-controller": k.number, "ttl-controller": k.number})

	l.Retire()
	l.Started(nil)
	for _, ends := range []string{"job-controller", "ttl-controller"} {
		if l.Settle(t.Context()); k.returning || holder() == "" || l.Due() == nil {
			t.Fatalf("the holder is %q while %v stop", holder(), stopping.pending)
		}
		delete(stopping.pending, ends)
	}
	l.Settle(t.Context())
	await.True(t, "the task is done", func() bool {
		select {
		case finish := <-l.options.Tasks.Done():
			finish()
			return true
		default:
			return false
		}
	})
	if got := holder(); got != "" || len(l.retiring) != 0 {
		t.Errorf("the holder is %q when all have stopped", got)
	}
	if err := l.End(); err != nil {
		t.Error(err)
	}
}
