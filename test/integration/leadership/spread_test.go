package leadership

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// threeGroups are groups of the fakes, four leases with the main one.
func threeGroups(c *manager.Config) {
	group(c, "apps", deployments, replicaSets)
	group(c, "batch", jobs, cronJobs)
	group(c, "network", endpoints)
}

var allLocks = []string{"main", "group/apps", "group/batch", "group/network"}

// transitions counts changes of the holder over all leases.
func transitions(t *testing.T) int32 {
	t.Helper()
	total := int32(0)
	for _, name := range []string{mainLease, mainLease + "-apps", mainLease + "-batch", mainLease + "-network"} {
		total += ptr.Deref(lease(t, metav1.NamespaceSystem, name).Spec.LeaseTransitions, 0)
	}
	return total
}

// waitSpread waits until two processes hold two of four leases each.
func waitSpread(t *testing.T, a, b harness.Subject) {
	t.Helper()
	await.That(t, "each holds two leases", func(context.Context) error {
		var inA, inB []string
		for m, in := range map[harness.Subject]*[]string{a: &inA, b: &inB} {
			s, err := m.Status(t.Context())
			if err != nil {
				return err // a process does not serve from its first moment on
			}
			*in = locksOf(&s)
		}
		if len(inA) != 2 || len(inB) != 2 {
			return fmt.Errorf("one holds %v, the other %v", inA, inB)
		}
		return nil
	})
}

// A second replica gets its share by hand-overs, and then nothing moves any more. With
// Sticky nothing moves at all.
func TestGroupsAreSpread(t *testing.T) {
	l := newLedger(t)
	sticky := func(c *manager.Config) {
		threeGroups(c)
		c.LeaderElection.Spread = v1beta1.SpreadSticky
	}
	a := l.begin("a", sticky)
	l.waitAll()
	waitLocks(t, a, allLocks...)
	b := l.begin("b", sticky)
	harness.Wait(t, b, "it knows who holds the leases", func(s *runtime.Status) error {
		for _, e := range s.Leadership.Leases {
			if e.Election == nil || processOf(e.Election.Holder) != "a" {
				return errNotYet
			}
		}
		return nil
	})
	before := transitions(t)
	await.Stays(t, "the first one holds everything", leaseDuration, func(context.Context) error {
		if got := transitions(t); got != before {
			return fmt.Errorf("%d changes of a holder", got-before)
		}
		return nil
	})

	balanced := func(c *manager.Config) { c.LeaderElection.Spread = v1beta1.SpreadBalanced }
	began := time.Now()
	harness.Edit(t, b, balanced)
	harness.Edit(t, a, balanced)
	waitSpread(t, a, b)
	t.Logf("two leases each %v after the switch to Balanced", time.Since(began).Round(time.Millisecond))
	if !slices.Contains(locksOf(status(t, a)), "main") {
		t.Error("the main lock was handed over")
	}
	l.waitAll()
	before = transitions(t)
	await.Stays(t, "the leases stay where they are", 2*leaseDuration, func(context.Context) error {
		if got := transitions(t); got != before {
			return fmt.Errorf("%d changes of a holder", got-before)
		}
		return nil
	})
	for _, lock := range allLocks[1:] {
		if requests := lease(t, metav1.NamespaceSystem, mainLease+"-"+lock[len("group/"):]).Annotations["config.kcmd.dev/requested-by"]; requests != "" {
			t.Errorf("the request of %q is left on %s", requests, lock)
		}
	}
}

// Replicas that share a file share the identity in it. Each adds something of its own, so that
// they do not take the leases of the other one for theirs.
func TestReplicasShareAFileWithAnIdentity(t *testing.T) {
	l := newLedger(t)
	shared := func(c *manager.Config) { c.LeaderElection.Identity = "shared" }
	a := l.begin("a", shared)
	l.waitAll()
	b := l.begin("b", shared)
	harness.Wait(t, b, "it knows who holds the lease", func(s *runtime.Status) error {
		if e := s.Leadership.Lease; e == nil || e.Holder == "" {
			return errNotYet
		}
		return nil
	})
	await.Stays(t, "the first one holds everything", leaseDuration, func(context.Context) error {
		if held := locksOf(status(t, b)); len(held) > 0 {
			return fmt.Errorf("the second one holds %v", held)
		}
		return nil
	})
	inA, inB := status(t, a).Leadership.Lease, status(t, b).Leadership.Lease
	if inA.Identity == inB.Identity || processOf(inA.Identity) != "shared" || processOf(inB.Identity) != "shared" || inB.Holder != inA.Identity {
		t.Errorf("the first is %q, the second is %q and sees the holder %q", inA.Identity, inB.Identity, inB.Holder)
	}
	must.Succeed(t, a.Stop())
	for _, c := range fakes {
		l.waitOwner(c, "b")
	}
}

// A replica that is cut off loses its leases, each group by itself, and gets a share again
// when it is back. What it runs ends before another one begins.
func TestAReplicaIsCutOff(t *testing.T) {
	l := newLedger(t)
	proxy, err := plane.NewProxy()
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	kubeconfig, err := proxy.Kubeconfig("cut-off", controlplane.ManagerUser)
	must.Succeed(t, err)
	a := l.begin("a", func(c *manager.Config) {
		threeGroups(c)
		c.ClientConnection.Kubeconfig = kubeconfig
	})
	t.Cleanup(proxy.Heal)
	l.waitAll()
	b := l.begin("b", threeGroups)
	waitSpread(t, a, b)
	l.waitAll()

	began := time.Now()
	proxy.Cut()
	waitLocks(t, b, allLocks...)
	for _, c := range fakes {
		l.waitOwner(c, "b")
	}
	t.Logf("everything runs in the other replica %v after the first one was cut off", time.Since(began).Round(time.Millisecond))
	proxy.Heal()
	waitSpread(t, a, b)
	l.waitAll()
	t.Logf("two leases each %v after the beginning", time.Since(began).Round(time.Millisecond))
}

// Two real processes share the work; when one is killed, the other takes over each group.
func TestAProcessIsKilled(t *testing.T) {
	edit := harness.All(quick, threeGroups)
	a := manager.JoinProcess(t, plane, edit)
	waitLocks(t, a, allLocks...)
	b := manager.JoinProcess(t, plane, edit)
	waitSpread(t, a, b)
	harness.Wait(t, b, "everything of its locks runs", func(s *runtime.Status) error {
		for _, lock := range locksOf(s) {
			for _, name := range leaseOf(s, lock).Controllers {
				if generations(s)[name] == 0 && slices.Contains(fakes, name) {
					return fmt.Errorf("%s does not run", name)
				}
			}
		}
		return nil
	})
	was := status(t, b)
	must.Succeed(t, a.Kill())
	killed := time.Now()
	waitLocks(t, b, allLocks...)
	held := time.Since(killed)
	harness.Wait(t, b, "everything runs", func(s *runtime.Status) error {
		for _, c := range s.Controllers {
			if c.State == supervisor.Standby || c.Pending {
				return fmt.Errorf("%s is %s: %s", c.Name, c.State, c.Reason)
			}
		}
		return nil
	})
	t.Logf("all leases are held %v after one of two processes was killed, everything runs after %v", held.Round(time.Millisecond), time.Since(killed).Round(time.Millisecond))
	if limit := leaseDuration + 4*retryPeriod + time.Second; held > limit {
		t.Errorf("it took %v, want at most %v", held, limit)
	}
	// What the second process ran already has not noticed.
	now := generations(status(t, b))
	for _, lock := range locksOf(was) {
		for _, c := range leaseOf(was, lock).Controllers {
			if before := generations(was)[c]; before > 0 && now[c] != before {
				t.Errorf("%s went from instance %d to %d", c, before, now[c])
			}
		}
	}
}

// A manager that ends gives each group back as soon as its controllers have stopped, also
// if those of another group take long.
func TestEachGroupIsGivenBackByItself(t *testing.T) {
	l := newLedger(t)
	release := make(chan struct{})
	descriptors := l.descriptors("a")
	for n, d := range descriptors {
		if d.Name == jobs {
			descriptors[n] = slow(d, release)
		}
	}
	m, err := manager.Begin(t.Context(), plane, runtime.Options{Descriptors: descriptors}, func(c *manager.Config) {
		quick(c)
		threeGroups(c)
		c.Serving.Port = ptr.To[int32](0)
	})
	must.Succeed(t, err)
	waitLocks(t, m, allLocks...)
	harness.Wait(t, m, "everything runs", func(s *runtime.Status) error {
		for _, c := range s.Controllers {
			if c.State != supervisor.Running {
				return errNotYet
			}
		}
		return nil
	})
	ended := make(chan error, 1)
	go func() { ended <- m.Stop() }()
	holder := func(name string) string {
		return ptr.Deref(lease(t, metav1.NamespaceSystem, name).Spec.HolderIdentity, "")
	}
	await.That(t, "all but one lease are given back", func(context.Context) error {
		if holder(mainLease) != "" || holder(mainLease+"-apps") != "" || holder(mainLease+"-network") != "" {
			return errNotYet
		}
		return nil
	})
	if holder(mainLease+"-batch") == "" {
		t.Error("the lease of a controller that still stops was given back")
	}
	close(release)
	must.Succeed(t, <-ended)
	if got := holder(mainLease + "-batch"); got != "" {
		t.Errorf("a lease is left with %q", got)
	}
}

// slow is a descriptor whose instances stop when they are told to and may.
func slow(d controller.Descriptor, may <-chan struct{}) controller.Descriptor {
	return controller.Describe(d,
		func(*controller.Config) struct{} { return struct{}{} },
		func(controller.Env, struct{}) (controller.Controller, error) {
			return runFunc(func(ctx context.Context) error {
				<-ctx.Done()
				<-may
				return nil
			}), nil
		})
}

// runFunc is a controller that only has a Run.
type runFunc func(context.Context) error

func (f runFunc) Run(ctx context.Context) error { return f(ctx) }
