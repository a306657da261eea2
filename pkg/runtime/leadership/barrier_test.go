package leadership

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/loop"
	"kcmd.dev/pkg/runtime/takeover"
)

var (
	mainLease  = claims.Lease{Namespace: "n", Name: "main"}
	groupLease = claims.Lease{Namespace: "n", Name: "group"}
)

// remembering is a connection that has a ledger and nothing else.
type remembering struct {
	Connection
	ledger *takeover.Ledger
	caches map[string]takeover.Cache // by controller
}

func (r remembering) Ledger() *takeover.Ledger { return r.ledger }

func (remembering) FlushEvents() {}

func (r remembering) NewBarrier(ctx context.Context, left takeover.Versions, began time.Time) *takeover.Barrier {
	return takeover.New(ctx, takeover.Options{Left: left, Began: began, Ledger: r.ledger, Clock: clocktesting.NewFakeClock(start())})
}

func (r remembering) CachesOf(controllers []string) []takeover.Cache {
	var caches []takeover.Cache
	for _, c := range controllers {
		if used, ok := r.caches[c]; ok {
			caches = append(caches, used)
		}
	}
	return caches
}

// lockOf is a lock with a lease and the controllers that go with it.
func lockOf(lease claims.Lease, controllers ...string) *Lock {
	k := &Lock{Lock: locks.Lock{Name: lease.Name, Controllers: controllers}, held: -1}
	k.key.lease = lease
	k.admission = claims.NewAdmission(lease)
	k.connection = remembering{ledger: takeover.NewLedger(clocktesting.NewFakePassiveClock(start()))}
	return k
}

func TestControllersThatArriveUnderALease(t *testing.T) {
	for _, test := range []struct {
		name   string
		before []*Lock
		now    []string
		want   []string
	}{
		{"the process starts", nil, []string{"a", "b"}, nil},
		{"nothing changes", []*Lock{lockOf(mainLease, "a", "b")}, []string{"a", "b"}, nil},
		{"one comes from a group", []*Lock{lockOf(mainLease, "a"), lockOf(groupLease, "b")}, []string{"a", "b"}, []string{"b"}},
		{"one goes", []*Lock{lockOf(mainLease, "a", "b")}, []string{"a"}, nil},
		{"the lease is another", []*Lock{lockOf(groupLease, "a")}, []string{"a"}, []string{"a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := lockOf(mainLease)
			k.arrived(controllersByLease(test.before), test.now)
			if got := slices.Sorted(maps.Keys(k.arrivals)); !slices.Equal(got, test.want) {
				t.Errorf("arrived: %v, want %v", got, test.want)
			}
		})
	}
}

func TestWhatATermWaitsFor(t *testing.T) {
	lease := func(holder string, transitions int32, left string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{takeover.Annotation: left}},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &holder, LeaseTransitions: &transitions, AcquireTime: &metav1.MicroTime{Time: start()},
			},
		}
	}
	chosen := func(l *coordinationv1.Lease) *coordinationv1.Lease {
		l.Spec.AcquireTime = nil
		return l
	}
	for _, test := range []struct {
		name   string
		held   int // transitions of the lease when this process acquired it last
		term   *election.Term
		ledger string
	}{
		{"it was released", -1, &election.Term{Before: lease("", 3, "3 pods=7 *=0"), Acquired: lease("me", 4, "")}, "pods=7 *=0"},
		{"it expired", -1, &election.Term{Before: lease("other", 3, ""), Acquired: lease("me", 4, "")}, "*=?"},
		{"nobody else held it", 4, &election.Term{Before: lease("me", 4, ""), Acquired: lease("me", 4, "")}, "pods=5 *=0"},
		{"a write of this process that was not answered took it", 3, &election.Term{Before: lease("me", 4, ""), Acquired: lease("me", 4, "")}, "pods=? *=?"},
		{"the API server has chosen it again, after another one", 4, &election.Term{Before: chosen(lease("me", 4, "")), Acquired: lease("me", 4, "")}, "pods=? *=?"},
		{"there was none", -1, &election.Term{Acquired: lease("me", 0, "")}, "*=?"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := New(Options{Tasks: tasks(t), Clock: clocktesting.NewFakeClock(start())})
			k := lockOf(mainLease, "a")
			k.held = test.held
			if test.held >= 0 {
				k.acquired = start()
				k.connection.Ledger().Inherit(takeover.Versions{Rest: "0"}, start())
				k.connection.Ledger().Stored(podsOf(), "5", start())
			}
			l.prepareBarrier(k, test.term)
			if k.barrier == nil || k.barrierOf("a") != k.barrier {
				t.Error("nothing is waited for")
			}
			if got := k.connection.Ledger().Versions().String(); got != test.ledger {
				t.Errorf("the ledger has %q, want %q", got, test.ledger)
			}
			if want := ptr.Deref(test.term.Acquired.Spec.LeaseTransitions, 0); k.held != int(want) {
				t.Errorf("held %d, want %d", k.held, want)
			}
			l.endBarriers(k)
			if k.barrierOf("a") != nil {
				t.Error("the barrier outlives its term")
			}
		})
	}
}

// Caches are checked from the beginning of the term, before a controller has been granted or built.
func TestATermBeginsToCheckCaches(t *testing.T) {
	l := New(Options{Tasks: tasks(t), Clock: clocktesting.NewFakeClock(start())})
	k := lockOf(mainLease, "a")
	behind := func() takeover.Cache {
		return takeover.Cache{Resource: podsOf().WithVersion("v1"), Store: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), Started: start().Add(-time.Hour)}
	}
	own, other := behind(), behind()
	k.connection = remembering{ledger: k.connection.Ledger(), caches: map[string]takeover.Cache{"a": own, "b": other}}
	l.prepareBarrier(k, &election.Term{
		Began: start(),
		Before: &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{takeover.Annotation: "0 pods=7 *=0"}},
		},
		Acquired: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("me")}},
	})
	if k.barrier.Lacking(own) == "" {
		t.Error("the cache of a controller is not checked")
	}
	if k.barrier.Lacking(other) != "" {
		t.Error("the cache of a controller of another lock is checked")
	}
	l.endBarriers(k)
}

func TestWithoutLeaderElectionNothingIsWaitedFor(t *testing.T) {
	l := New(Options{Tasks: tasks(t), Clock: clocktesting.NewFakeClock(start())})
	k := lockOf(mainLease, "a")
	l.prepareBarrier(k, election.Always())
	if k.barrierOf("a") != nil {
		t.Error("waits for a predecessor")
	}
	if got := k.connection.Ledger().Versions().String(); got != "*=0" {
		t.Errorf("the ledger has %q", got)
	}
}

// Without leader election, the controllers of this process have written through another connection until now.
func TestAConnectionThatReplacesAnotherWaitsForWhatThatWrote(t *testing.T) {
	l := New(Options{Tasks: tasks(t), Clock: clocktesting.NewFakeClock(start())})
	k := lockOf(mainLease, "a")
	k.key.connection = 2
	old := lockOf(mainLease, "a")
	old.key.connection = 1
	l.locks = []*Lock{old}
	l.Adopt(t.Context(), []*Lock{k}, v1beta1.NewDefault(), func(string) []string { return []string{"a"} })
	l.prepareBarrier(k, election.Always())
	if k.barrierOf("a") == nil {
		t.Error("nothing is waited for")
	}
	l.endBarriers(k)
}

// The process has stood by with its caches until leader election is turned off. Another one has written until it was
// stopped for that. Pins MGR-219.
func TestTheEndOfLeaderElectionWaitsForWhatOthersWrote(t *testing.T) {
	for name, elector := range map[string]*election.Elector{"it was on": {}, "it was off": nil} {
		t.Run(name, func(t *testing.T) {
			l := New(Options{Tasks: tasks(t), Clock: clocktesting.NewFakeClock(start())})
			k, old := lockOf(mainLease, "a"), lockOf(mainLease, "a")
			old.elector = elector
			l.locks = []*Lock{old}
			l.Adopt(t.Context(), []*Lock{k}, v1beta1.NewDefault(), func(string) []string { return []string{"a"} })
			l.prepareBarrier(k, election.Always())
			if waits := k.barrierOf("a") != nil; waits != (elector != nil) {
				t.Errorf("something is waited for: %t", waits)
			}
			want := map[bool]string{true: "*=?", false: "*=0"}[elector != nil]
			if got := k.connection.Ledger().Versions().String(); got != want {
				t.Errorf("the ledger has %q, want %q", got, want)
			}
			l.endBarriers(k)
		})
	}
}

// What follows the term ends with the lock, which may be replaced many times.
func TestATermWithoutLeaderElectionEndsWithItsLock(t *testing.T) {
	k := lockOf(mainLease, "a")
	k.cancel = func() {}
	k.begin(t.Context())
	term := k.valid()
	if err := k.resign(t.Context()); err != nil || term.Valid() {
		t.Errorf("error is %v, the term is valid: %t", err, term.Valid())
	}
	select {
	case <-term.Done():
	default:
		t.Error("whoever follows it waits on")
	}
}

func TestWhatComesFromAnotherLeaseHasABarrierOfItsOwn(t *testing.T) {
	l := New(Options{Tasks: tasks(t), Clock: clocktesting.NewFakeClock(start())})
	k := lockOf(mainLease, "stays", "waited", "arrived", "refused")
	k.arrivals = map[string]bool{"arrived": true}
	k.admission.Want([]string{"stays", "waited", "arrived"})
	l.prepareBarrier(k, &election.Term{
		Before:   &coordinationv1.Lease{},
		Acquired: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("me")}},
	})
	k.admission.Answer(k.admission.Ask(), nil)
	l.granted(k, map[string]string{"waited": "another process ran it"})
	own := k.barrierOf("arrived")
	if own == k.barrier || k.barrierOf("waited") != own || k.barrierOf("stays") != k.barrier || k.barrierOf("refused") != k.barrier {
		t.Errorf("barriers: %v, that of the term: %p", k.barriers, k.barrier)
	}
	l.granted(k, nil)
	if k.barrierOf("arrived") != own || len(k.arrivals) > 0 {
		t.Error("what arrived once arrives again")
	}
	// It goes back and comes again within the term: in between, others have written.
	k.arrive("arrived")
	l.granted(k, nil)
	if again := k.barrierOf("arrived"); again == own || again == k.barrier || k.barrierOf("waited") != own {
		t.Error("what comes again waits for what it has waited for before")
	}
	l.endBarriers(k)
}

// What is moved away and back while it stops goes on without being asked for. If it had arrived once more, the barrier
// that its next instance waits for would end as soon as anything else is asked for, and the instance would wait for ever.
// Pins MGR-175.
func TestWhatIsMovedAwayAndBackKeepsItsBarrierUnlessItHasStopped(t *testing.T) {
	const moves, other = "job-controller", "ttl-controller"
	home, away := v1beta1.NewDefault(), v1beta1.NewDefault()
	away.LeaderElection.Groups = []v1beta1.LeaseGroup{{Name: "apps", Controllers: []string{moves}}}
	enabledIn := func(cfg *v1beta1.KubeControllerManagerConfiguration) func(string) []string {
		return func(lock string) []string {
			return slices.DeleteFunc([]string{moves, other}, func(c string) bool {
				of, _ := locks.Of(cfg, c)
				return of != lock
			})
		}
	}
	for name, stopped := range map[string]bool{"still stopping": false, "stopped": true} {
		t.Run(name, func(t *testing.T) {
			l := New(Options{Tasks: tasks(t), Clock: clocktesting.NewFakeClock(start())})
			k, group := lockOf(mainLease), lockOf(groupLease)
			k.Name, group.Name, k.begun, group.begun = locks.Main, locks.Group("apps"), true, true
			k.arrivals = map[string]bool{moves: true}
			l.Adopt(t.Context(), []*Lock{k}, home, enabledIn(home))
			l.prepareBarrier(k, &election.Term{
				Before:   &coordinationv1.Lease{},
				Acquired: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("me")}},
			})
			k.admission.Answer(k.admission.Ask(), nil)
			l.granted(k, nil)
			k.admission.Started(moves)

			l.Adopt(t.Context(), []*Lock{k, group}, away, enabledIn(away))
			if stopped {
				k.admission.Stopped(moves)
			}
			l.Adopt(t.Context(), []*Lock{k}, home, enabledIn(home))
			waitsFor := k.barrierOf(moves) // the instance that is built now
			k.admission.Answer(k.admission.Ask(), nil)
			l.granted(k, nil)
			if again := k.barrierOf(moves); (again != waitsFor) != stopped || again == k.barrier {
				t.Errorf("it has another barrier: %t, want %t", again != waitsFor, stopped)
			}
			l.endBarriers(k)
		})
	}
}

// The term ends while another process is seen to run a controller, and begins again when that has given it up unseen.
func TestWhatWasBlockedHasABarrierOfItsOwnInTheNextTerm(t *testing.T) {
	l := New(Options{Tasks: tasks(t), Clock: clocktesting.NewFakeClock(start())})
	k := lockOf(mainLease, "a", "b")
	k.admission.Want([]string{"a", "b"})
	k.term = election.Always()
	k.admission.Answer(k.admission.Ask(), []claims.Claim{{Holder: "another", Controllers: []string{"a"}}})
	if len(k.admission.Blocked()) != 1 {
		t.Fatalf("blocked are %v", k.admission.Blocked())
	}
	l.takeTerm(t.Context(), k) // there is none any more
	l.prepareBarrier(k, &election.Term{
		Before:   &coordinationv1.Lease{},
		Acquired: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("me")}},
	})
	k.admission.Answer(k.admission.Ask(), nil)
	l.granted(k, nil)
	if k.barrierOf("a") == k.barrier || k.barrierOf("b") != k.barrier {
		t.Errorf("barriers: %v, that of the term: %p", k.barriers, k.barrier)
	}
	l.endBarriers(k)
}

func start() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func tasks(t *testing.T) *loop.Tasks {
	all := loop.NewTasks()
	t.Cleanup(all.End)
	return all
}

func podsOf() schema.GroupResource { return schema.GroupResource{Resource: "pods"} }
