package promises

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// restartsAll makes an edit that moves every controller to another term, and fails unless
// each is restarted exactly once.
func restartsAll(t *testing.T, m *manager.Manager, change func(*manager.Config)) {
	t.Helper()
	before := harness.Status(t, m)
	harness.Edit(t, m, change)
	harness.Wait(t, m, "every controller has a new instance", func(s *runtime.Status) error {
		now := harness.Instances(*s)
		for name, was := range harness.Instances(before) {
			if now[name].Generation <= was.Generation {
				return fmt.Errorf("%s is instance %d", name, now[name].Generation)
			}
		}
		return nil
	})
	was := harness.Instances(before)
	harness.SameInstances(t, was, harness.Instances(harness.Status(t, m)), slices.Collect(maps.Keys(was))...)
	controllersWork(t)
}

func TestLeaderElectionIsSwitchedLive(t *testing.T) {
	m := start(t, func(c *manager.Config) { harness.Settle(10 * time.Millisecond)(c) })
	name := harness.LeaseOf(t)
	if got := holder(t, name); got == "" {
		t.Fatal("nobody holds the lease")
	}
	for range 2 {
		restartsAll(t, m, func(c *manager.Config) { c.LeaderElection.LeaderElect = ptr.To(false) })
		if got := holder(t, name); got != "" {
			t.Errorf("the lease is held by %q although leader election is off", got)
		}
		if s := harness.Status(t, m); s.Leadership.Lease != nil || !s.Leadership.Leading {
			t.Errorf("leadership is %+v", s.Leadership)
		}
		restartsAll(t, m, func(c *manager.Config) { c.LeaderElection.LeaderElect = ptr.To(true) })
		if got, want := holder(t, name), harness.Status(t, m).Leadership.Lease.Identity; got != want {
			t.Errorf("the lease is held by %q, want %q", got, want)
		}
	}
}

func TestLockMovesLive(t *testing.T) {
	m := start(t, func(c *manager.Config) { harness.Settle(10 * time.Millisecond)(c) })
	old, moved := harness.LeaseOf(t), harness.LeaseOf(t)+"-moved"
	restartsAll(t, m, func(c *manager.Config) { c.LeaderElection.ResourceName = moved })
	if got := holder(t, old); got != "" {
		t.Errorf("the old lease is held by %q", got)
	}
	if got := holder(t, moved); got == "" {
		t.Error("nobody holds the new lease")
	}
	restartsAll(t, m, func(c *manager.Config) { c.LeaderElection.Identity = "renamed" })
	if got := holder(t, moved); !strings.HasPrefix(got, "renamed_") {
		t.Errorf("the lease is held by %q, want the new identity", got)
	}
}

// Another process may hold the new lock: then this one stands by. The other one runs nothing
// as long as this one does, although it has a lock of its own.
func TestLockMovesToOneThatIsHeld(t *testing.T) {
	m := start(t, func(c *manager.Config) { harness.Settle(10 * time.Millisecond)(c) })
	theirs := harness.LeaseOf(t) + "-theirs"
	other := manager.Join(t, plane, runtime.Options{}, func(c *manager.Config) { c.LeaderElection.ResourceName = theirs })
	harness.Wait(t, other, "it holds its lock and runs nothing", func(s *runtime.Status) error {
		if !s.Leadership.Leading || len(harness.Instances(*s)) > 0 || len(s.Leadership.Leases[0].Blocked) == 0 {
			return fmt.Errorf("leading %v, running %v, leases %+v", s.Leadership.Leading, harness.Instances(*s), s.Leadership.Leases)
		}
		return nil
	})
	harness.Edit(t, m, func(c *manager.Config) { c.LeaderElection.ResourceName = theirs })
	harness.Wait(t, m, "it stands by", func(s *runtime.Status) error {
		if s.Leadership.Leading || len(harness.Instances(*s)) > 0 {
			return fmt.Errorf("leading %v, running %v", s.Leadership.Leading, harness.Instances(*s))
		}
		return nil
	})
	waitRunning(t, other)
	if got := holder(t, harness.LeaseOf(t)); got != "" {
		t.Errorf("the old lease is held by %q", got)
	}
	must.Succeed(t, other.Stop())
	waitRunning(t, m)
}

func TestKubeconfigChangesLive(t *testing.T) {
	second, err := plane.Kubeconfig("second", controlplane.ManagerUser)
	if err != nil {
		t.Fatal(err)
	}
	first := plane.ManagerKubeconfig()
	m := start(t, func(c *manager.Config) {
		harness.Settle(10 * time.Millisecond)(c)
		c.Serving.Port = ptr.To[int32](0) // it has connections of its own
	})
	use := func(path string) {
		t.Helper()
		restartsAll(t, m, func(c *manager.Config) { c.ClientConnection.Kubeconfig = path })
	}
	// Client-go keeps one transport for each set of credentials: have both.
	use(second)
	use(first)
	_, was := goroutines(t, m)
	for range 2 {
		use(second)
		use(first)
	}
	use(second)
	await.That(t, "nothing of the old connections is left", func(context.Context) error {
		var left []string
		for stack, n := range stacks(t) {
			if n > was[stack] && !closesByItself(stack) {
				left = append(left, fmt.Sprintf("%d goroutines, before %d: %s", n, was[stack], stack))
			}
		}
		if len(left) > 0 {
			return errors.New(strings.Join(left, "\n"))
		}
		return nil
	})
}

// closesByItself reports a goroutine that reads from an idle connection, which net/http
// closes after 90 seconds, and the one that looks.
func closesByItself(stack string) bool {
	return strings.Contains(stack, "http2.(*clientConnReadLoop).run") || strings.Contains(stack, "pprof.writeRuntimeProfile")
}
