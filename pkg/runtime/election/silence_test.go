package election

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Pins MGR-267.
func TestAnAPIServerThatAnswersNothingIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want int32 // in a minute, and ten seconds at a time
	}{
		"no answer": {context.DeadlineExceeded, 6},
		"refused":   {apierrors.NewForbidden(leases.GroupResource(), leaseName, errors.New("no")), 0},
		"too slow":  {apierrors.NewTimeoutError("etcd", 1), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				s := newServer()
				a := s.runWith(t, "a", defaults, func(o *Options) { o.OnSilence = func() { calls.Add(1) } })
				pass(time.Minute + time.Second)
				synctest.Wait()
				a.leading(t)
				s.do(func() { a.fails = test.err })
				pass(defaults.RenewDeadline)
				synctest.Wait()
				if calls.Load() != 0 {
					t.Fatal("one that may still answer is left")
				}
				pass(50*time.Second + defaults.RetryPeriod)
				synctest.Wait()
				if got := calls.Swap(0); got < test.want-1 || got > test.want {
					t.Errorf("reported %d times, want %d", got, test.want)
				}
				s.do(func() { a.fails = nil })
				pass(time.Minute)
				synctest.Wait()
				if a.leading(t); calls.Load() > 0 {
					t.Error("reported although it answers")
				}
			})
		})
	}
}
