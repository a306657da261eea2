package servicecidr

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins CIDR-40.
func TestRequestsOfADeletion(t *testing.T) {
	s := newSubject(t, deleted(newCIDR("is", "192.168.0.0/24"), time.Hour), newCIDR("other", "192.168.0.0/16"))
	s.MustReconcile(t)
	s.WantRequests(t, "list servicecidrs", "patch servicecidrs is")
}

// Pins CIDR-18d, CIDR-24, CIDR-34 and CIDR-38.
func TestADeletionIsJudgedAgainAfterTheGracePeriod(t *testing.T) {
	s := newSubject(t, deleted(newCIDR("is", "192.168.0.0/24"), 4*time.Second))
	s.Run(t, s.c)
	controllertest.Eventually(t, "it has been judged", func() bool { return s.c.loop.Inspect().Reconciled > 0 })
	s.AwaitIdle(t)
	// A running loop always waits for its heartbeat, and for a key once it is scheduled.
	controllertest.Eventually(t, "the end of the grace period is waited for", func() bool { return s.Clock.Waiters() == 2 })
	if got := sent(t, s); len(got) > 0 {
		t.Errorf("requests before the grace period ended: %q", got)
	}
	s.Clock.Step(6*time.Second + time.Millisecond)
	controllertest.Eventually(t, "the finalizer is deleted", func() bool { return slices.Equal(sent(t, s), []string{deletesFinalizer}) })
}

// The clock is behind that of the API server, and may be set right while the grace period lasts. Pins CIDR-52.
func TestTheGracePeriodIsLookedAtAgain(t *testing.T) {
	s := newSubject(t, deleted(newCIDR("is", "192.168.0.0/24"), -24*time.Hour))
	s.c.queue = s.Queued
	s.MustReconcile(t)
	s.WantRequests(t)
	if delay := s.Queued.TakeDelay("is"); delay != grace {
		t.Errorf("it is looked at again in %v", delay)
	}
}

// The caches lack the only address, or show a range that is gone: the API server is asked before
// the finalizer goes. Pins CIDR-43.
func TestALateCacheLeavesNoAddressWithoutARange(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *subject){
		"an address is not shown": func(t *testing.T, s *subject) {
			if err := s.Fake.Tracker().Add(allocatedAddress("192.168.0.24")); err != nil {
				t.Fatal(err)
			}
		},
		"a range is shown that is gone": func(t *testing.T, s *subject) {
			if err := s.Fake.Tracker().Add(allocatedAddress("192.168.0.24")); err != nil {
				t.Fatal(err)
			}
			s.c.ranges.show(rangeOf(newCIDR("other", "192.168.0.0/16")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			cidr := deleted(newCIDR("is", "192.168.0.0/24"), time.Hour)
			s := newSubjectWithoutCaches(t, cidr)
			s.c.queue = s.Queued
			s.fillCaches(t, cidr)
			change(t, s)
			s.Requests()
			s.MustReconcile(t)
			s.WantRequests(t, "list servicecidrs", "list ipaddresses", "patch servicecidrs/status is")
			if delay := s.Queued.TakeDelay("is"); delay != reconcile.RecheckAfter { // the address may be gone before the cache shows it
				t.Errorf("it is looked at again in %v", delay)
			}
		})
	}
}

// The cache lacks a range that was added to the ServiceCIDR, and that an address needs. Pins CIDR-50.
func TestALateCacheForgetsNoRangeOfItsOwn(t *testing.T) {
	is := deleted(newCIDR("is", "192.168.0.0/24"), time.Hour)
	s := newSubjectWithoutCaches(t, deleted(newCIDR("is", "192.168.0.0/24", "2001:db2::/64"), time.Hour),
		newAddress("2001:db2::24", corev1.IPv6Protocol, allocator))
	s.Cache(t, is)
	s.MustReconcile(t)
	s.WantRequests(t, "list servicecidrs", "list ipaddresses", "list ipaddresses", "patch servicecidrs/status is")
}

// A list that fails does not let a range go. Pins CIDR-43.
func TestAFailedListLetsNothingGo(t *testing.T) {
	boom := errors.New("boom")
	for _, refused := range []string{"list servicecidrs", "list ipaddresses"} {
		s := newSubject(t, deleted(newCIDR("is", "192.168.0.0/24"), time.Hour))
		s.Refuse(refused, boom)
		if err := s.Reconcile(); !errors.Is(err, boom) {
			t.Errorf("error is %v", err)
		}
		if got := sent(t, s); len(got) > 0 {
			t.Errorf("requests after a failed %s: %q", refused, got)
		}
	}
}

// The request that releases the other one may have been decided before this one was deleted, and be on its way for
// longer than grace. Pins CIDR-53.
func TestARangeThatWasDeletedEarlierIsNotReliedOn(t *testing.T) {
	for name, test := range map[string]struct {
		other    time.Duration // since its deletion
		released bool
	}{
		"it was deleted earlier": {time.Hour, false},
		"it was deleted later":   {15 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, deleted(newCIDR("is", "192.168.0.0/24"), 20*time.Second),
				deleted(newCIDR("later", "192.168.0.0/24"), test.other), allocatedAddress("192.168.0.7"))
			must.Succeed(t, s.Reconcile())
			released := slices.Contains(s.Requests(), "patch servicecidrs is")
			if released != test.released {
				t.Errorf("released: %v", released)
			}
		})
	}
}

// Nothing keeps the other one while the request that releases this one is on its way. Pins CIDR-54.
func TestARangeWithoutTheFinalizerIsNotReliedOn(t *testing.T) {
	for name, test := range map[string]struct {
		deleted    bool
		finalizers []string
		released   bool
	}{
		"it has none yet":          {false, nil, false},
		"it was let go, but stays": {true, []string{"example.com/hold"}, false},
		"it has it among others":   {true, []string{"example.com/hold", string(finalizer)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			other := newCIDR("other", "192.168.0.0/16")
			if other.Finalizers = test.finalizers; test.deleted {
				deleted(other, 15*time.Second)
			}
			s := newSubject(t, deleted(newCIDR("is", "192.168.0.0/24"), 20*time.Second), other, allocatedAddress("192.168.0.7"))
			must.Succeed(t, s.Reconcile())
			released := slices.Contains(s.Requests(), "patch servicecidrs is")
			if released != test.released {
				t.Errorf("released: %v", released)
			}
		})
	}
}

// While addresses are listed, the ServiceCIDR that has them too begins to go, relies on this one, and may be gone.
// Pins CIDR-51.
func TestARangeThatGoesMeanwhileIsNotReliedOn(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(t *testing.T, s *subject)
		released  bool
	}{
		"it stays": {func(*testing.T, *subject) {}, true},
		"it is being deleted": {func(t *testing.T, s *subject) {
			s.Store(t, deleted(newCIDR("first", "192.168.0.0/28"), 0))
		}, true}, // it does not rely on this one
		"it was deleted before": {func(t *testing.T, s *subject) {
			s.Store(t, deleted(newCIDR("first", "192.168.0.0/28"), 2*time.Hour))
		}, false},
		"it is gone":               {func(t *testing.T, s *subject) { s.Remove(t, newCIDR("first", "192.168.0.0/28")) }, false},
		"another one has its name": {func(t *testing.T, s *subject) { s.Store(t, newCIDR("first", "10.0.0.0/28")) }, false},
		"a further one comes":      {func(t *testing.T, s *subject) { s.Store(t, newCIDR("second", "192.168.0.0/28")) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			is := deleted(newCIDR("is", "192.168.0.0/24"), time.Hour)
			s := newSubjectWithoutCaches(t, is, newCIDR("first", "192.168.0.0/28"), allocatedAddress("192.168.0.7"))
			s.Cache(t, is)
			s.Intercept("list ipaddresses", func(clienttesting.Action) error {
				test.meanwhile(t, s)
				return nil
			})
			err := s.Reconcile()
			want := []string{deletesFinalizer}
			if !test.released {
				want = nil
			}
			if got := sent(t, s); !slices.Equal(got, want) || reconcile.IsExpected(err) == test.released {
				t.Errorf("sent %q, want %q; the error is %v", got, want, err)
			}
		})
	}
}

// lists counts how often all addresses are listed.
type lists struct {
	cache.GenericLister
	n int
}

// List implements cache.GenericLister.
func (l *lists) List(selector labels.Selector) ([]runtime.Object, error) {
	l.n++
	return l.GenericLister.List(selector)
}

// Each address of the range that comes or goes has its ServiceCIDR reconciled. Pins CIDR-49.
func TestOneAddressIsLookedAtWhileItHoldsTheServiceCIDR(t *testing.T) {
	cidr := deleted(newCIDR("is", "192.168.0.0/24"), time.Hour)
	first := allocatedAddress("192.168.0.24")
	s := newSubject(t, cidr, first)
	cached := s.Informers.MetadataFor(networkingv1.SchemeGroupVersion.WithResource("ipaddresses")).Informer().GetIndexer()
	listed := &lists{GenericLister: s.c.addresses}
	s.c.addresses = listed
	judged := func(want bool, lists int) {
		t.Helper()
		if held := must.Get(s.c.held(rangeOf(cidr)))(t); held != want || listed.n != lists {
			t.Errorf("held: %v, want %v; listed %d times, want %d", held, want, listed.n, lists)
		}
	}
	judged(true, 1)
	must.Succeed(t, cached.Add(metadataOf(allocatedAddress("192.168.0.25"))))
	judged(true, 1)
	must.Succeed(t, cached.Delete(metadataOf(first)))
	judged(true, 2)
	judged(true, 2)
	s.c.ranges.show(rangeOf(newCIDR("other", "192.168.0.16/28"))) // which has it too
	judged(false, 3)
	s.c.ranges.delete("other")
	judged(true, 4)
	must.Succeed(t, cached.Update(metadataOf(newAddress("192.168.0.25", corev1.IPv4Protocol, "example.com"))))
	judged(false, 5)
	must.Succeed(t, cached.Update(metadataOf(allocatedAddress("192.168.0.25"))))
	judged(true, 6)
	s.EmptyCache(t, cidr, "100")
	s.MustReconcile(t)
	if len(s.c.holders.byCIDR) > 0 {
		t.Errorf("of one that is gone it is known that %v", s.c.holders.byCIDR)
	}
}
