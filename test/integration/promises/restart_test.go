package promises

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	goruntime "runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/fakecloud"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const (
	// warmUp is how many cycles come before the baseline: enough for events about reloads
	// to be counted up instead of created, which is a request of another kind.
	warmUp = 15
	// heapBound is how much the heap may have grown in the end, in bytes. It differs by nearly as much from one
	// garbage collection to the next. A thousand leaked instances of any controller are more; goroutines, handlers
	// and series are counted, and show one.
	heapBound = 4 << 20
)

// footprint is what instances could leave behind.
type footprint struct {
	goroutines int
	stacks     map[string]int // of goroutines, by where they are
	handlers   map[string]string
	series     map[string]float64
	heap       uint64
}

// Promise 10, and the contract of a controller: after Run has returned nothing of an
// instance is left. Every controller of the registry is stopped and started again and again.
// Pins ATT-74, CIDR-39, NS-56 and QUOTA-74.
func TestEveryControllerStopsWithoutTrace(t *testing.T) {
	restarts := harness.Size(t, "KCMD_RESTARTS", 30)
	m := start(t, harness.All(harness.Settle(0), enableAll(true), func(c *manager.Config) {
		c.Controllers.NodeIPAM.AllocateNodeCIDRs, c.Networking.ClusterCIDRs = ptr.To(true), []string{"10.244.0.0/16"}
		c.Cloud.Provider = fakecloud.Name
		c.LeaderElection.Standby = v1beta1.StandbyCold // caches that nobody holds are dropped soon
	}))
	controllersWork(t) // whatever exists only once work was done is in the baseline
	for range warmUp {
		cycle(t, m)
	}
	series(t, m) // the first request for metrics makes series about such requests
	settled(t, m)
	rested(t, m)
	baseline := measure(t, m)

	began := time.Now()
	for range restarts {
		cycle(t, m)
	}
	t.Logf("%d controllers stopped and started %d times in %v", len(controllers.All()), restarts, time.Since(began).Round(time.Millisecond))

	s := harness.Status(t, m)
	for _, d := range controllers.All() {
		if d.Gate != "" {
			continue // off, and so are the APIs it needs
		}
		if got := harness.ControllerOf(&s, d.Name).Generation; got != uint64(restarts+warmUp+1) {
			t.Errorf("%d instances of %s, want %d", got, d.Name, restarts+warmUp+1)
		}
		if got := harness.ControllerOf(&s, d.Name); got.LastError != "" || got.Abandoned != 0 {
			t.Errorf("%s: %d abandoned, last error %s", d.Name, got.Abandoned, got.LastError)
		}
	}
	rested(t, m)
	compare(t, m, baseline)
	controllersWork(t)
}

// cycle stops every controller and starts it again.
func cycle(t *testing.T, m *manager.Manager) {
	t.Helper()
	harness.Edit(t, m, enableAll(false))
	harness.Wait(t, m, "every controller has stopped", func(s *runtime.Status) error {
		for _, c := range s.Controllers {
			if c.State != supervisor.Disabled {
				return fmt.Errorf("%s is %s", c.Name, c.State)
			}
		}
		for _, i := range s.Informers {
			if i.Handlers != 0 || i.Refs != 0 {
				return fmt.Errorf("informer of %s has %d handlers and %d scopes %v", i.Resource, i.Handlers, i.Refs, i.Scopes)
			}
		}
		return nil
	})
	harness.Edit(t, m, enableAll(true))
	waitRunning(t, m)
	harness.Wait(t, m, "every controller has caught up", caughtUp)
}

// enableAll returns an edit that turns every controller of the registry on or off, those that
// are off by default too.
func enableAll(on bool) func(*manager.Config) {
	return func(c *manager.Config) {
		c.ControllerDefaults.Enabled = ptr.To(on)
		for _, s := range c.Controllers.All() {
			if s.OffByDefault {
				s.Settings.Enabled = ptr.To(on)
			}
		}
	}
}

// caughtUp is nil once every running controller has started to work and has nothing to do.
func caughtUp(s *runtime.Status) error {
	for _, c := range s.Controllers {
		for _, l := range c.Loops {
			if l.Depth > 0 || len(l.InFlight) > 0 {
				return fmt.Errorf("%s has %d keys waiting and %d in flight", c.Name, l.Depth, len(l.InFlight))
			}
		}
	}
	return nil
}

// rested waits until every cache has a handler. Some controllers ask for caches after they have begun, and
// which form of a kind the garbage collector takes depends on whether another controller was faster: the form
// that it took before stays, with what feeds its handlers, until its grace period is over.
func rested(t *testing.T, m *manager.Manager) {
	t.Helper()
	harness.Wait(t, m, "every cache has a handler", func(s *runtime.Status) error {
		for _, i := range s.Informers {
			if i.Handlers == 0 {
				return fmt.Errorf("informer of %s (%s) has no handler", i.Resource, i.Form)
			}
		}
		return nil
	})
}

// measure takes the footprint now. The order matters: reading metrics needs connections.
func measure(t *testing.T, m *manager.Manager) footprint {
	t.Helper()
	f := footprint{series: series(t, m), handlers: handlersOf(harness.Status(t, m))}
	f.goroutines, f.stacks = goroutines(t, m)
	f.heap = heap()
	return f
}

// handlersOf says who holds what of each informer.
func handlersOf(s runtime.Status) map[string]string {
	all := map[string]string{}
	for _, i := range s.Informers {
		key := fmt.Sprint(i.Group, "/", i.Resource, " ", i.Form, i.Namespace, i.FieldSelector, i.LabelSelector)
		all[key] = fmt.Sprintf("%d handlers, %d scopes %v, indexes %v", i.Handlers, i.Refs, i.Scopes, i.Indexes)
	}
	return all
}

// goroutines counts them once no connection of the test is idle.
func goroutines(t *testing.T, m *manager.Manager) (int, map[string]int) {
	t.Helper()
	m.Client().CloseIdleConnections()
	stable, last := 0, 0
	await.That(t, "the number of goroutines is stable", func(context.Context) error {
		n := goruntime.NumGoroutine()
		if n != last {
			stable, last = 0, n
		}
		if stable++; stable < 20 {
			return fmt.Errorf("%d goroutines", n)
		}
		return nil
	})
	return last, stacks(t)
}

// stacks counts goroutines by the functions on their stacks.
func stacks(t *testing.T) map[string]int {
	t.Helper()
	var dump bytes.Buffer
	must.Succeed(t, pprof.Lookup("goroutine").WriteTo(&dump, 1))
	counts := map[string]int{}
	for _, group := range strings.Split(dump.String(), "\n\n") {
		var n int
		if _, err := fmt.Sscanf(group, "%d @", &n); err != nil {
			continue
		}
		var frames []string
		for _, line := range strings.Split(group, "\n") {
			if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "#" && fields[1] != "labels:" {
				name, _, _ := strings.Cut(fields[2], "+")
				frames = append(frames, name)
			}
		}
		counts[strings.Join(frames, " < ")] += n
	}
	return counts
}

func heap() uint64 {
	var m goruntime.MemStats
	goruntime.GC()
	goruntime.GC() // finalizers of the first round free more
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

// isRefusal reports whether a series counts requests that were refused. Whether there are any depends on what others
// write or delete at the same time, such as the namespaces of other tests.
func isRefusal(series string) bool {
	return strings.HasPrefix(series, `rest_client_requests_total{code="4`)
}

// compare fails unless everything is again as it was.
func compare(t *testing.T, m *manager.Manager, baseline footprint) {
	t.Helper()
	now := series(t, m)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, ok := baseline.series[name]; !ok && !isRefusal(name) {
			t.Errorf("series %s is new", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(baseline.series)) {
		if _, ok := now[name]; !ok {
			t.Errorf("series %s is gone", name)
		}
	}
	// Some controllers ask for informers when they have begun.
	err := await.Nil(t.Context(), patience, func(context.Context) error {
		if got := handlersOf(harness.Status(t, m)); !maps.Equal(got, baseline.handlers) {
			return fmt.Errorf("informers (-before +now):\n%s", cmp.Diff(baseline.handlers, got))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	m.Client().CloseIdleConnections()
	err = await.Nil(t.Context(), patience, func(context.Context) error {
		if n := goruntime.NumGoroutine(); n > baseline.goroutines {
			return fmt.Errorf("%d goroutines, want %d", n, baseline.goroutines)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
		for stack, n := range stacks(t) {
			if was := baseline.stacks[stack]; n > was {
				fmt.Fprintf(os.Stderr, "%d goroutines, before %d: %s\n", n, was, stack)
			}
		}
	}
	if got := heap(); got > baseline.heap+heapBound {
		t.Errorf("the heap grew from %d to %d KiB", baseline.heap>>10, got>>10)
	} else {
		t.Logf("goroutines %d, heap %d KiB, before %d KiB, %d series", baseline.goroutines, got>>10, baseline.heap>>10, len(now))
	}
}
