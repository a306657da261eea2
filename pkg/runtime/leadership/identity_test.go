package leadership

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/takeover"
	"kcmd.dev/test/fakeclient"
	"kcmd.dev/test/must"
)

// Pins MGR-38.
func TestAnIdentityIsTheHostAndARandomPart(t *testing.T) {
	identity, host := must.Get(NewIdentity())(t), must.Get(os.Hostname())(t)
	random, ok := strings.CutPrefix(identity.called(""), host+"_")
	if parsed, err := uuid.Parse(random); !ok || err != nil || parsed.Version() != 4 {
		t.Errorf("the identity on %s is %s", host, identity.called(""))
	}
}

// With CoordinatedLeaderElection the identity is the name of the LeaseCandidate. That is for one lease as long as it
// exists, and the process may not delete it: for another lease it needs another name. Pins MGR-220.
func TestAnotherMainLeaseHasAnotherIdentity(t *testing.T) {
	conn := electing{remembering{ledger: takeover.NewLedger(clock.RealClock{})}, fakeclient.New()}
	l := New(Options{Identity: must.Get(NewIdentity())(t), Runner: &runner{}, Tasks: tasks(t), Clock: clock.RealClock{}})
	in := func(change func(*v1beta1.LeaderElection)) string {
		t.Helper()
		cfg := v1beta1.NewDefault()
		cfg.FeatureGates = map[string]bool{"CoordinatedLeaderElection": true}
		cfg.LeaderElection.Groups = []v1beta1.LeaseGroup{{Name: "apps", Controllers: []string{"job-controller"}}}
		change(&cfg.LeaderElection)
		prepared := must.Get(l.Prepare(conn, cfg, func(string) []string { return nil }))(t)
		identities := map[string]bool{}
		for _, k := range prepared {
			identities[k.elector.Status().Identity] = true
			if got := k.elector.Status().Identity; got != l.identityOf(k) || !l.isOwn(got) {
				t.Errorf("%s is contended for as %s, not as %s, and that is its own: %t", k.Name, got, l.identityOf(k), l.isOwn(got))
			}
		}
		if len(prepared) != 2 || len(identities) != 1 {
			t.Errorf("%d locks have the identities %v", len(prepared), identities)
		}
		return l.identityOf(prepared[0])
	}
	first := in(func(*v1beta1.LeaderElection) {})
	if want := l.options.Identity.called(""); first != want {
		t.Errorf("the identity is %s, want %s", first, want)
	}
	renamed := in(func(e *v1beta1.LeaderElection) { e.ResourceName = "renamed" })
	elsewhere := in(func(e *v1beta1.LeaderElection) { e.ResourceNamespace = "ha" })
	if renamed == first || elsewhere == first || elsewhere == renamed {
		t.Errorf("the identities are %s, %s, %s", first, renamed, elsewhere)
	}
	if again := in(func(e *v1beta1.LeaderElection) { e.RetryPeriod.Duration++ }); again != first {
		t.Errorf("the first lease is contended for as %s now, not as %s", again, first)
	}
	if l.isOwn("other_" + uuid.NewString()) {
		t.Error("the identity of another process is taken for its own")
	}
}

// A process that starts without leader election contends for its first lease later. Pins MGR-220.
func TestTheFirstMainLeaseHasTheIdentityOfTheProcess(t *testing.T) {
	conn := electing{remembering{ledger: takeover.NewLedger(clock.RealClock{})}, fakeclient.New()}
	l := New(Options{Identity: must.Get(NewIdentity())(t), Runner: &runner{}, Tasks: tasks(t), Clock: clock.RealClock{}})
	off := v1beta1.NewDefault()
	off.LeaderElection.LeaderElect = ptr.To(false)
	nothing := func(string) []string { return nil }
	must.Get(l.Prepare(conn, off, nothing))(t)
	main := must.Get(l.Prepare(conn, v1beta1.NewDefault(), nothing))(t)[0]
	if got, want := l.identityOf(main), l.options.Identity.called(""); got != want {
		t.Errorf("the identity is %s, want %s", got, want)
	}
}

// A lease that was not given back when the main lease became another one still names this process. Pins MGR-220.
func TestAnEarlierIdentityBlocksNothing(t *testing.T) {
	l, _ := contending(t, v1beta1.NewDefault())
	l.TakeTerms(t.Context())
	k := l.Locks()[0]
	k.admission.Want([]string{"own", "of another"})
	held := func(name, by, controller string) coordinationv1.Lease {
		return coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Annotations: claims.Annotations(by, []string{controller})},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &by, LeaseDurationSeconds: ptr.To[int32](15)},
		}
	}
	earlier := l.identityIn(claims.Lease{Namespace: "kube-system", Name: "earlier"}, "called otherwise")
	l.answered(t.Context(), answer{lock: k, term: k.term, question: k.admission.Ask(), read: time.Now(), leases: []coordinationv1.Lease{
		held("earlier", earlier, "own"), held("other", "other_"+uuid.NewString(), "of another"),
	}})
	if !k.admission.Granted("own") || k.admission.Granted("of another") {
		t.Errorf("granted: %t, and what another process runs: %t", k.admission.Granted("own"), k.admission.Granted("of another"))
	}
	l.endBarriers(k)
}
