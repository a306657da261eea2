package election

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// rival runs client-go's elector on the same lease until stop.
func (s *server) rival(t *testing.T, release bool) (e *leaderelection.LeaderElector, stop func()) {
	t.Helper()
	c := s.candidate("rival")
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: leaseName},
			Client:     c.leases(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "rival"},
		},
		LeaseDuration: defaults.LeaseDuration, RenewDeadline: defaults.RenewDeadline, RetryPeriod: defaults.RetryPeriod,
		ReleaseOnCancel: release,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return e, stop
}

func TestFollowsClientGo(t *testing.T) {
	for name, tc := range map[string]struct {
		release bool
		within  time.Duration
	}{
		"that releases": {true, time.Millisecond},
		"that dies":     {false, 15*time.Second + maxJitter},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				rival, stop := s.rival(t, tc.release)
				synctest.Wait()
				ours := s.run(t, "ours", defaults)
				pass(5 * time.Minute)
				synctest.Wait()
				ours.standingBy(t)
				if !rival.IsLeader() || ours.State().Holder != "rival" {
					t.Fatalf("rival leads: %v, status %+v", rival.IsLeader(), ours.Status())
				}
				stop()
				pass(tc.within)
				synctest.Wait()
				ours.leading(t)
				if _, _, transitions, _, _ := deref(s.stored()); transitions != 1 {
					t.Fatalf("%d transitions", transitions)
				}
			})
		})
	}
}

func TestClientGoFollows(t *testing.T) {
	for name, tc := range map[string]struct {
		release bool
		atLeast time.Duration
		within  time.Duration
	}{
		"a release": {true, 0, 4400 * time.Millisecond},
		"a death":   {false, 12 * time.Second, 15*time.Second + 2*4400*time.Millisecond}, // it polls,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				ours := s.run(t, "ours", defaults)
				synctest.Wait()
				rival, _ := s.rival(t, true)
				pass(5 * time.Minute)
				synctest.Wait()
				ours.leading(t)
				if rival.IsLeader() || rival.GetLeader() != "ours" {
					t.Fatalf("the rival believes that %q leads", rival.GetLeader())
				}
				if tc.release {
					if err := ours.Release(context.Background()); err != nil {
						t.Fatal(err)
					}
				} else {
					ours.stop()
				}
				pass(tc.atLeast)
				if tc.atLeast > 0 && rival.IsLeader() {
					t.Fatal("the rival took a lease that had not expired")
				}
				pass(tc.within - tc.atLeast)
				synctest.Wait()
				if !rival.IsLeader() {
					t.Fatalf("the rival did not follow: %+v", s.stored().Spec)
				}
			})
		})
	}
}
