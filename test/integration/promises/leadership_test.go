package promises

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/manager"
)

// restartsAll makes an edit that moves every controller to another term, and fails unless
// each is restarted exactly once.
func restartsAll(t *testing.T, m *manager.Manager, change func(*manager.Config)) {
	t.Helper()
	before := status(t, m)
	edit(t, m, change)
	wait(t, m, "every controller has a new instance", func(s *runtime.Status) error {
		now := instances(*s)
		for name, was := range instances(before) {
			if now[name].generation <= was.generation {
				return fmt.Errorf("%s is instance %d", name, now[name].generation)
			}
		}
		return nil
	})
	was := instances(before)
	sameInstances(t, was, instances(status(t, m)), slices.Collect(maps.Keys(was))...)
	controllersWork(t)
}

func TestLeaderElectionIsSwitchedLive(t *testing.T) {
	m := start(t, func(c *manager.Config) { settle(c, 10*time.Millisecond) })
	name := leaseOf(t)
	if got := holder(t, name); got == "" {
		t.Fatal("nobody holds the lease")
	}
	for range 2 {
		restartsAll(t, m, func(c *manager.Config) { c.LeaderElection.LeaderElect = ptr.To(false) })
		if got := holder(t, name); got != "" {
			t.Errorf("the lease is held by %q although leader election is off", got)
		}
		if s := status(t, m); s.Leadership.Lease != nil || !s.Leadership.Leading {
			t.Errorf("leadership is %+v", s.Leadership)
		}
		restartsAll(t, m, func(c *manager.Config) { c.LeaderElection.LeaderElect = ptr.To(true) })
		if got, want := holder(t, name), status(t, m).Leadership.Lease.Identity; got != want {
			t.Errorf("the lease is held by %q, want %q", got, want)
		}
	}
}

func TestLockMovesLive(t *testing.T) {
	m := start(t, func(c *manager.Config) { settle(c, 10*time.Millisecond) })
	old, moved := leaseOf(t), leaseOf(t)+"-moved"
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
	m := start(t, func(c *manager.Config) { settle(c, 10*time.Millisecond) })
	theirs := leaseOf(t) + "-theirs"
	other, err := manager.Begin(t.Context(), plane, runtime.Options{}, func(c *manager.Config) { c.LeaderElection.ResourceName = theirs })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.Stop(); err != nil {
			t.Error(err)
		}
	})
	wait(t, other, "it holds its lock and runs nothing", func(s *runtime.Status) error {
		if !s.Leadership.Leading || len(instances(*s)) > 0 || len(s.Leadership.Leases[0].Blocked) == 0 {
			return fmt.Errorf("leading %v, running %v, leases %+v", s.Leadership.Leading, instances(*s), s.Leadership.Leases)
		}
		return nil
	})
	edit(t, m, func(c *manager.Config) { c.LeaderElection.ResourceName = theirs })
	wait(t, m, "it stands by", func(s *runtime.Status) error {
		if s.Leadership.Leading || len(instances(*s)) > 0 {
			return fmt.Errorf("leading %v, running %v", s.Leadership.Leading, instances(*s))
		}
		return nil
	})
	waitRunning(t, other)
	if got := holder(t, leaseOf(t)); got != "" {
		t.Errorf("the old lease is held by %q", got)
	}
	must(t, other.Stop())
	waitRunning(t, m)
}

func TestKubeconfigChangesLive(t *testing.T) {
	second, err := plane.Kubeconfig("second", controlplane.ManagerUser)
	if err != nil {
		t.Fatal(err)
	}
	first := plane.ManagerKubeconfig()
	m := start(t, func(c *manager.Config) {
		settle(c, 10*time.Millisecond)
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
	eventually(t, "nothing of the old connections is left", func() error {
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
