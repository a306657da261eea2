package election

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// Pins MGR-267.
func TestAnAPIServerThatAnswersNothingIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want int // in a minute, and ten seconds at a time
	}{
		"no answer": {context.DeadlineExceeded, 6},
		"refused":   {apierrors.NewForbidden(leases.GroupResource(), leaseName, errors.New("no")), 0},
		"too slow":  {apierrors.NewTimeoutError("etcd", 1), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, calls, fails := newServer(), 0, false
				a := s.runWith(t, "a", defaults, func(o *Options) { o.OnSilence = func() { calls++ } })
				a.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return fails, nil, test.err })
				pass(time.Minute + time.Second)
				synctest.Wait()
				a.leading(t)
				fails = true
				pass(defaults.RenewDeadline)
				synctest.Wait()
				if calls != 0 {
					t.Fatal("one that may still answer is left")
				}
				pass(50*time.Second + defaults.RetryPeriod)
				synctest.Wait()
				if calls < test.want-1 || calls > test.want {
					t.Errorf("reported %d times, want %d", calls, test.want)
				}
				fails, calls = false, 0
				pass(time.Minute)
				synctest.Wait()
				if a.leading(t); calls > 0 {
					t.Error("reported although it answers")
				}
			})
		})
	}
}
