package takeover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"kcmd.dev/test/await"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/must"
)

// TestTakeovers has a leader stopped or killed at a random moment of a scale-out, a rollout
// or a Job, while the watches of its successor are up to five seconds behind: not a pod more
// is created than was asked for, Jobs count exactly, and no revision is lost.
func TestTakeovers(t *testing.T) {
	const lease = "takeovers"
	parent := t // a successor outlives the subtest in which it takes over
	leader := join(t, lease)
	leader.leads(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	all := workloads()
	for n := range takeovers(t) {
		w := all[n%len(all)]
		kill := n/len(all)%2 == 1
		delay := time.Duration(random.Int64N(int64(5 * time.Second)))
		moment := time.Duration(random.Int64N(int64(1500 * time.Millisecond)))
		signal := syscall.SIGTERM
		if kill {
			signal = syscall.SIGKILL
		}
		t.Run(fmt.Sprintf("%d %s", n, w.name), func(t *testing.T) {
			t.Logf("%v after %v, watches %v behind", signal, moment, delay)
			var successor *replica
			leader, successor = rolesOf(t, leader, join(parent, lease))
			namespace := plane.Namespace(t)
			created := count(t, namespace)
			behind := successor.proxy.DelayEvents(faultproxy.Requests{Client: "informers"}, delay)
			want := w.begin(t, namespace)
			await.Elapse(t, moment)
			must.Succeed(t, leader.Signal(signal))
			<-leader.Done()
			successor.leads(t)
			await.Elapse(t, delay+time.Second) // it could do harm for as long as it has not seen what was written
			behind.Lift()
			await.That(t, "the workload is as asked for", func(ctx context.Context) error {
				if err := w.done(ctx, namespace); err != nil {
					return fmt.Errorf("%d of %d pods were created: %w", created(), want, err)
				}
				if n := created(); n < want {
					return fmt.Errorf("%d of %d pods were created", n, want)
				}
				return nil
			})
			if got := created(); got != want {
				t.Errorf("%d pods were created, want %d", got, want)
			}
			leader = successor
		})
		if t.Failed() {
			return
		}
	}
}
