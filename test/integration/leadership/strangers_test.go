package leadership

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// seize writes the stranger into the main lease and leaves the rest as it is, as a leader
// election does that knows of no annotations.
func seize(t *testing.T) {
	t.Helper()
	await.That(t, "the stranger has taken the main lease", func(context.Context) error {
		l := lease(t, metav1.NamespaceSystem, mainLease)
		now := metav1.NowMicro()
		l.Spec.HolderIdentity, l.Spec.AcquireTime, l.Spec.RenewTime = ptr.To("stranger"), &now, &now
		_, err := plane.AdminClient().CoordinationV1().Leases(l.Namespace).Update(t.Context(), l, metav1.UpdateOptions{})
		return err
	})
}

// stranger is client-go's leader election on the main lease: an unmodified
// kube-controller-manager. It returns when that leads. kill ends it, release gives the lease
// back too.
func stranger(t *testing.T) (release, kill func()) {
	t.Helper()
	client, err := kubernetes.NewForConfig(plane.AdminConfig())
	must.Succeed(t, err)
	started, done := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: mainLease},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "stranger"},
		},
		LeaseDuration: leaseDuration,
		RenewDeadline: renewDeadline,
		RetryPeriod:   retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(started) },
			OnStoppedLeading: func() {},
		},
	})
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		elector.Run(ctx)
	}()
	kill = func() { cancel(); <-done }
	release = func() {
		kill()
		l := lease(t, metav1.NamespaceSystem, mainLease)
		if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != "stranger" {
			return
		}
		l.Spec.HolderIdentity = new(string)
		_, err := client.CoordinationV1().Leases(l.Namespace).Update(context.Background(), l, metav1.UpdateOptions{})
		must.Succeed(t, err)
	}
	t.Cleanup(kill)
	<-started
	return release, kill
}

// A process that knows no claims holds the main lease: it runs everything, so that no group
// of ours does, until it is gone. That is also so if the lease still carries the claim of
// one of ours that held it before.
func TestAnUnmodifiedManagerBlocksGroups(t *testing.T) {
	for name, c := range map[string]struct{ claimed, killed bool }{
		"it gives the lease back":              {},
		"it is killed":                         {killed: true},
		"on a lease that was ours, given back": {claimed: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t)
			err := plane.AdminClient().CoordinationV1().Leases(metav1.NamespaceSystem).Delete(t.Context(), mainLease, metav1.DeleteOptions{})
			if err != nil && !strings.Contains(err.Error(), "not found") {
				t.Fatal(err)
			}
			if c.claimed {
				m := l.begin("before", nil)
				l.waitAll()
				must.Succeed(t, m.Stop())
			}
			release, kill := stranger(t)
			if got := lease(t, metav1.NamespaceSystem, mainLease).Annotations["config.kcmd.dev/claimed-by"]; (processOf(got) == "before") != c.claimed {
				t.Fatalf("the lease of the stranger carries the claim of %q", got)
			}
			m := l.begin("a", threeGroups)
			waitLocks(t, m, allLocks[1:]...)
			harness.Wait(t, m, "the groups are blocked", func(s *runtime.Status) error {
				for _, lock := range allLocks[1:] {
					l := leaseOf(s, lock)
					for _, name := range l.Controllers {
						if want := "the holder of lease kube-system/" + mainLease + " (stranger) still runs it"; l.Blocked[name] != want {
							return errNotYet
						}
					}
				}
				return nil
			})
			await.Stays(t, "nothing runs", time.Second, func(context.Context) error { return l.idle(t.Context()) })
			began := time.Now()
			if c.killed {
				kill()
			} else {
				release()
			}
			l.waitAll()
			t.Logf("everything runs %v after the stranger is gone", time.Since(began).Round(time.Millisecond))
			if took := time.Since(began); c.killed && took < leaseDuration/2 {
				t.Errorf("it took %v only: the lease has not expired", took)
			}
		})
	}
}

// A process that knows no claims takes the main lease while groups of ours run, in the process
// that has lost the lease and in another one: what runs in them ends at once, and begins again
// when the stranger has gone.
func TestAnUnmodifiedManagerEndsGroups(t *testing.T) {
	l := newLedger(t)
	a, b := l.begin("a", threeGroups), l.begin("b", threeGroups)
	waitSpread(t, a, b)
	l.waitAll()
	before := newestTerm(t, b)

	seize(t)
	began := time.Now()
	release, _ := stranger(t)
	await.That(t, "nothing runs", l.idle)
	took := time.Since(began)
	t.Logf("nothing runs any more %v after the stranger has taken the lease", took.Round(time.Millisecond))
	if limit := renewDeadline; took > limit {
		t.Errorf("it took %v, want at most %v", took, limit)
	}
	await.Stays(t, "nothing runs", 2*leaseDuration, l.idle)
	for _, m := range []*manager.Manager{a, b} {
		for _, k := range status(t, m).Leadership.Leases {
			for _, name := range k.Controllers {
				if want := "the holder of lease kube-system/" + mainLease + " (stranger) still runs it"; k.Leading && k.Blocked[name] != want {
					t.Errorf("%s under %s is blocked by %q", name, k.Lock, k.Blocked[name])
				}
			}
		}
	}
	if now, held := newestTerm(t, b), len(locksOf(status(t, b))); now > before+uint64(held) {
		t.Errorf("%d terms have ended for %d leases", now-before, held)
	}
	began = time.Now()
	release()
	l.waitAll()
	t.Logf("everything runs %v after the stranger is gone", time.Since(began).Round(time.Millisecond))
}

// newestTerm is the number of terms that a process has had, of all locks.
func newestTerm(t *testing.T, m harness.Subject) uint64 {
	t.Helper()
	newest := uint64(0)
	for _, k := range status(t, m).Leadership.Leases {
		newest = max(newest, k.Term)
	}
	return newest
}

// A stranger on a lease of another name runs what it likes: it is not asked.
func TestAStrangerElsewhereIsNoConcern(t *testing.T) {
	release, _ := stranger(t)
	defer release()
	l := newLedger(t)
	l.begin("a", func(c *manager.Config) { c.LeaderElection.ResourceName = "ours" })
	l.waitAll()
}
