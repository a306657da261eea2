package election

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/api/coordination/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/fakeclient"
)

// coordinated makes a candidate that the test, in place of the API server, can choose.
func coordinated(o *Options) {
	o.Coordinated = &Coordination{BinaryVersion: "v1.36.3-alpha.1+abc", EmulationVersion: "1.35"}
}

// choose writes a holder, as the API server does.
func (s *server) choose(holder string) {
	s.mu.Lock()
	exists := s.lease != nil
	s.mu.Unlock()
	chosen := func(l *coordinationv1.Lease) {
		l.Spec = coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](5), LeaseTransitions: ptr.To[int32](3),
			RenewTime: &metav1.MicroTime{Time: time.Now()}, // it leaves the time of acquisition to the holder
			Strategy:  ptr.To(coordinationv1.OldestEmulationVersion),
		}
	}
	if !exists {
		s.do(func() {
			l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName}}
			chosen(l)
			s.store(l, "ADDED")
		})
		return
	}
	s.edit(chosen)
}

// chosen is a candidate that the API server has chosen, and has held the lease for a while.
func (s *server) chosen(t *testing.T, name string) (*process, *Term) {
	t.Helper()
	p := s.runWith(t, name, defaults, coordinated)
	synctest.Wait()
	s.choose(name)
	pass(time.Minute)
	synctest.Wait()
	return p, p.leading(t)
}

// Pins MGR-93.
func TestCoordinatedCandidateTakesOnlyWhatItIsGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.runWith(t, "a", defaults, coordinated)
		b := s.runWith(t, "b", defaults, coordinated)
		pass(time.Minute)
		synctest.Wait()
		for _, p := range []*process{a, b} {
			p.standingBy(t)
			if got := p.sent(); got["create"] != 0 || got["update"] != 0 {
				t.Fatalf("%s sent %v", p.name, got)
			}
		}
		s.choose("a")
		synctest.Wait()
		term := a.leading(t)
		b.standingBy(t)
		pass(time.Minute)
		synctest.Wait()
		l := s.stored()
		holder, seconds, transitions, _, _ := deref(l)
		if a.leading(t) != term || holder != "a" || seconds != 15 || transitions != 3 || ptr.Deref(l.Spec.Strategy, "") != coordinationv1.OldestEmulationVersion {
			t.Fatalf("renewed lease: %+v", l.Spec)
		}

		a.stop() // dead: nobody takes the lease by itself
		pass(time.Minute)
		synctest.Wait()
		b.standingBy(t)
		if got := b.sent(); got["update"] != 0 || got["create"] != 0 {
			t.Fatalf("b sent %v", got)
		}
		s.choose("b")
		synctest.Wait()
		b.leading(t)
	})
}

// A watch stays open and tells nothing, as one of an API server that has lost etcd. Whoever is chosen attempts nothing by
// itself, and the API server would choose it again and again. Pins MGR-269.
func TestAChoiceIsNoticedAlthoughTheWatchTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.runWith(t, "a", defaults, coordinated)
		b := s.runWith(t, "b", defaults, coordinated)
		synctest.Wait()
		s.do(func() { clear(s.watches) })
		s.choose("a")
		pass(defaults.LeaseDuration)
		synctest.Wait()
		a.leading(t)
		pass(time.Hour)
		a.leading(t)
		if got := b.sent(); got["get"] > 250 || got["watch"] != 1 {
			t.Errorf("the one that was not chosen sent %v", got)
		}
	})
}

// Pins MGR-93.
func TestCoordinatedTermEndsWhenAnotherIsPreferred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a, term := s.chosen(t, "a")
		s.edit(func(l *coordinationv1.Lease) { l.Spec.PreferredHolder = ptr.To("b") })
		renewed := *s.stored().Spec.RenewTime
		pass(defaults.RetryPeriod)
		synctest.Wait()
		a.standingBy(t)
		if !errors.Is(term.Err(), ErrNotChosen) || !s.stored().Spec.RenewTime.Equal(&renewed) {
			t.Fatalf("the term ended with %v, lease %+v", term.Err(), s.stored().Spec)
		}
		pass(time.Minute) // it stands by for good
		a.standingBy(t)
		if !s.stored().Spec.RenewTime.Equal(&renewed) {
			t.Fatal("the lease was renewed")
		}
		if err := a.Yield(t.Context(), nil, 0); err != nil {
			t.Fatal(err)
		}
		l := s.stored()
		if holderOf(l) != "" || preferredOf(l) != "" || ptr.Deref(l.Spec.Strategy, "") != coordinationv1.OldestEmulationVersion {
			t.Fatalf("yielded lease: %+v", l.Spec)
		}
		s.choose("a")
		synctest.Wait()
		if a.leading(t).ID != 2 {
			t.Fatal("not chosen again")
		}
	})
}

func TestCoordinatedTermEndsWhenTheLeaseIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a, term := s.chosen(t, "a")
		s.remove()
		pass(defaults.RetryPeriod)
		synctest.Wait()
		a.standingBy(t)
		if !errors.Is(term.Err(), ErrNotChosen) {
			t.Fatalf("the term ended with %v", term.Err())
		}
		if got := a.sent(); got["create"] != 0 {
			t.Fatal("it created the lease")
		}
	})
}

// candidateOf reads the LeaseCandidate of a process.
func candidateOf(t *testing.T, p *process) *v1beta1.LeaseCandidate {
	t.Helper()
	c, err := p.CoordinationV1beta1().LeaseCandidates(namespace).Get(t.Context(), p.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Pins MGR-92.
func TestLeaseCandidateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, start := newServer(), time.Now()
		a := s.runWith(t, "a", defaults, coordinated)
		pass(time.Second)
		synctest.Wait()
		if err := a.CheckCandidate(nil); err != nil {
			t.Error(err)
		}
		c := candidateOf(t, a)
		want := v1beta1.LeaseCandidateSpec{
			LeaseName: leaseName, BinaryVersion: "1.36.3", EmulationVersion: "1.35.0",
			Strategy: coordinationv1.OldestEmulationVersion, RenewTime: c.Spec.RenewTime,
		}
		if c.Spec != want || c.Spec.RenewTime.Sub(start) > time.Second {
			t.Fatalf("lease candidate %+v, want %+v", c.Spec, want)
		}
		pass(5*time.Minute + time.Second)
		synctest.Wait()
		if got := candidateOf(t, a).Spec.RenewTime.Sub(start); got < 5*time.Minute {
			t.Fatalf("last renewed %v after the start", got)
		}

		pass(time.Minute)
		c = candidateOf(t, a)
		pinged := time.Now()
		c.Spec.PingTime = &metav1.MicroTime{Time: pinged}
		if _, err := a.CoordinationV1beta1().LeaseCandidates(namespace).Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := candidateOf(t, a).Spec.RenewTime; got.Time.Before(pinged) {
			t.Fatalf("the ping at %v is not answered, last renewed at %v", pinged, got)
		}
	})
}

// TestReleasedCandidateIsNotChosenAgain: who gives the lease back for good has taken itself
// out of the choice before.
func TestReleasedCandidateIsNotChosenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a, _ := s.chosen(t, "a")
		c := candidateOf(t, a)
		c.Spec.PingTime = &metav1.MicroTime{Time: time.Now()} // of the choice in which it won
		if _, err := a.CoordinationV1beta1().LeaseCandidates(namespace).Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := len(a.Actions())
		if err := a.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		var updated []string
		for _, action := range a.Actions()[before:] {
			if action.GetVerb() == "update" {
				updated = append(updated, action.GetResource().Resource)
			}
		}
		if !slices.Equal(updated, []string{"leasecandidates", "leases"}) {
			t.Errorf("it updated %v", updated)
		}
		pass(10 * time.Minute)
		synctest.Wait()
		if renewed := candidateOf(t, a).Spec.RenewTime; renewed.Unix() != 0 {
			t.Errorf("the candidate was renewed at %v", renewed)
		}
		if holderOf(s.stored()) != "" {
			t.Errorf("the lease: %+v", s.stored().Spec)
		}
	})
}

// TestACandidateThatIsPingedMeanwhileIsWithdrawn: the API server pings all candidates when it begins to choose.
// Pins MGR-221.
func TestACandidateThatIsPingedMeanwhileIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a, _ := s.chosen(t, "a")
		pinged := false
		a.PrependReactor("update", "leasecandidates", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
			if pinged {
				return false, nil, nil
			}
			pinged = true
			return true, nil, apierrors.NewConflict(v1beta1.Resource("leasecandidates"), "a", errors.New("pinged"))
		})
		if err := a.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if renewed := candidateOf(t, a).Spec.RenewTime; !pinged || renewed.Unix() != 0 {
			t.Errorf("pinged: %t, the candidate was renewed at %v", pinged, renewed)
		}
	})
}

// TestLeaseCandidateOfAnEarlierElectorIsCorrected: a process keeps its identity when the
// configuration changes.
func TestLeaseCandidateOfAnEarlierElectorIsCorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		client := s.candidate("a")
		left := &v1beta1.LeaseCandidate{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"},
			Spec:       v1beta1.LeaseCandidateSpec{LeaseName: leaseName, BinaryVersion: "1.30.0", EmulationVersion: "1.30.0", Strategy: "Other"},
		}
		if _, err := client.CoordinationV1beta1().LeaseCandidates(namespace).Create(t.Context(), left, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		e, err := New(Options{
			Leases: client.leases(), Namespace: namespace, Name: leaseName, Identity: "a", Timings: defaults,
			Coordinated: &Coordination{Client: client, BinaryVersion: "1.36.3", EmulationVersion: "1.36.0"},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); e.Run(ctx) }()
		pass(time.Second)
		synctest.Wait()
		c, err := client.CoordinationV1beta1().LeaseCandidates(namespace).Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil || c.Spec.BinaryVersion != "1.36.3" || c.Spec.EmulationVersion != "1.36.0" || c.Spec.Strategy != coordinationv1.OldestEmulationVersion || c.Spec.RenewTime == nil {
			t.Fatalf("lease candidate %+v, error %v", c, err)
		}
		cancel()
		<-done
	})
}

func TestCoordinationLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		once := func() {
			p := s.runWith(t, "a", defaults, coordinated)
			pass(time.Second)
			candidateOf(t, p)
			p.stop()
			synctest.Wait()
		}
		once()
		before := runtime.NumGoroutine()
		for range 20 {
			once()
		}
		if after := runtime.NumGoroutine(); after > before+2 {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			t.Fatalf("%d goroutines, before %d:\n%s", after, before, stacks)
		}
	})
}

func TestCandidacyIsChecked(t *testing.T) {
	client := fakeclient.New()
	o := Options{Leases: client.CoordinationV1(), Namespace: namespace, Name: leaseName, Identity: "a", Timings: defaults}
	for name, tc := range map[string]struct {
		coordination *Coordination
		released     bool
		want         string
	}{
		"not coordinated": {},
		"before Run":      {coordination: &Coordination{Client: client, BinaryVersion: "1.36.3", EmulationVersion: "1.36"}, want: "there is no candidate for lease " + leaseName + " yet"},
		"released":        {coordination: &Coordination{Client: client, BinaryVersion: "1.36.3", EmulationVersion: "1.36"}, released: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.Coordinated = tc.coordination
			e, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			if tc.released {
				if err := e.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			got := ""
			if err := e.CheckCandidate(nil); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Pins MGR-92.
func TestVersionsOfCandidates(t *testing.T) {
	client := fakeclient.New()
	for _, tc := range []struct{ binary, emulated, wantBinary, wantEmulated string }{
		{"v1.36.3", "1.36", "1.36.3", "1.36.0"},
		{"v1.36.3-kcmd.1+dirty", "1.33", "1.36.3", "1.33.0"},
		{"v0.0.0-master+$Format:%H$", "1.36", "1.36.0", "1.36.0"}, // built without a version
	} {
		c, err := Coordination{Client: client, BinaryVersion: tc.binary, EmulationVersion: tc.emulated}.complete()
		if err != nil || c.BinaryVersion != tc.wantBinary || c.EmulationVersion != tc.wantEmulated {
			t.Errorf("%s emulating %s: got %+v, %v", tc.binary, tc.emulated, c, err)
		}
	}
}

func TestCoordinationIsChecked(t *testing.T) {
	client := fakeclient.New()
	for name, tc := range map[string]struct {
		c    Coordination
		want string
	}{
		"no client":            {Coordination{BinaryVersion: "1.36.0", EmulationVersion: "1.36.0"}, "Client is required"},
		"no version":           {Coordination{Client: client, EmulationVersion: "1.36.0"}, "version"},
		"no emulation version": {Coordination{Client: client, BinaryVersion: "1.36.0"}, "version"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Options{
				Leases: client.CoordinationV1(), Namespace: namespace, Name: leaseName, Identity: "a", Timings: defaults, Coordinated: &tc.c,
			})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
		})
	}
}
