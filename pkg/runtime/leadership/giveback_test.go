package leadership

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/takeover"
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

// A lease is given back before another process has given up a controller that belongs to it: what that writes until then is
// not in the ledger of this process. Pins MGR-203.
func TestWhatIsLeftIsUnknownWhileAnotherProcessRunsAController(t *testing.T) {
	const comes, stays, off = "job-controller", "ttl-controller", "cronjob-controller"
	for _, test := range []struct {
		name   string
		comes  string // from another lease
		others []claims.Claim
		asked  bool
		known  bool
	}{
		{"nothing comes", "", nil, true, true},
		{"one comes, and is not granted yet", comes, nil, false, false},
		{"one that comes is not enabled", off, nil, true, true},
		{"another process is seen to run one", "", []claims.Claim{{Holder: "another", Controllers: []string{comes}}}, true, false},
	} {
		for how, giveBack := range map[string]func(*Leadership, *Lock){
			"retired":     func(l *Leadership, _ *Lock) { l.Retire() },
			"handed over": func(_ *Leadership, k *Lock) { k.handingTo = "another" },
		} {
			t.Run(test.name+", "+how, func(t *testing.T) {
				l, conn := contending(t, v1beta1.NewDefault())
				k := l.Locks()[0]
				k.want([]string{comes, stays})
				k.term = k.valid()
				conn.ledger.Inherit(takeover.NothingWritten(), time.Time{})
				if test.comes != "" {
					k.arrive(test.comes)
				}
				if test.asked {
					k.admission.Answer(k.admission.Ask(), test.others)
				}
				giveBack(l, k)
				l.giveBack(t.Context())
				var left string
				await.True(t, "the lease is given back", func() bool {
					lease := must.Get(conn.client.CoordinationV1().Leases(k.key.lease.Namespace).Get(t.Context(), k.key.lease.Name, metav1.GetOptions{}))(t)
					left = lease.Annotations[takeover.Annotation]
					return ptr.Deref(lease.Spec.HolderIdentity, "") == ""
				})
				if known := left == "0 *=0"; known != test.known || !known && left != "0 *=?" {
					t.Errorf("left %q", left)
				}
			})
		}
	}
}

// A lease that an edit has left, and that could not be given back, was logged then and has expired. At the end of the
// process, whenever that is, it is no failure. Pins MGR-239.
func TestOnlyWhatIsGivenBackAtTheEndCanFailThen(t *testing.T) {
	l, conn := contending(t, v1beta1.NewDefault())
	silent := errors.New("no answer")
	l.retired(t.Context(), &Lock{connection: conn}, silent)
	if err := l.End(); err != nil {
		t.Errorf("the process ends with %v", err)
	}
	left := &Lock{connection: conn} // which is being given back when the end comes
	l.retiring = append(l.retiring, left)
	l.Retire()
	l.retired(t.Context(), left, silent)
	if err := l.End(); err != nil {
		t.Errorf("the process ends with %v", err)
	}
	l.retired(t.Context(), l.retiring[0], silent)
	if err := l.End(); !errors.Is(err, silent) {
		t.Errorf("the process ends with %v, though it could not give its lease back", err)
	}
}
