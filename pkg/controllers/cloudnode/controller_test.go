package cloudnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cloud-provider/names"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/fakecloud"
	"kcmd.dev/test/must"
)

// Pins CNODE-1 and CLOUD-5.
func TestNames(t *testing.T) {
	d := Descriptor()
	if d.Name != names.CloudNodeController || names.CCMControllerAliases()[d.Aliases[0]] != d.Name {
		t.Errorf("it is called %s, formerly %v", d.Name, d.Aliases)
	}
}

func TestValue(t *testing.T) {
	linked := func(c *controller.Config) { c.Cloud.Provider = fakecloud.Name }
	tests := map[string]struct {
		edit func(*controller.Config)
		want config
	}{
		"CNODE-3, CNODE-5: the defaults": {linked, config{workers: 1, statusWorkers: 1, period: 5 * time.Minute}},
		"CNODE-25, CNODE-4: as many for addresses": {func(c *controller.Config) {
			linked(c)
			c.Controllers.CloudNode.ConcurrentSyncs = ptr.To[int32](7)
		}, config{workers: 7, statusWorkers: 7, period: 5 * time.Minute}},
		"CNODE-4: a number of its own": {func(c *controller.Config) {
			linked(c)
			c.Controllers.CloudNode.ConcurrentStatusUpdates = ptr.To[int32](3)
		}, config{workers: 1, statusWorkers: 3, period: 5 * time.Minute}},
		"CLOUD-1: no provider": {func(*controller.Config) {}, config{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := v1beta1.NewDefault()
			test.edit(cfg)
			got := configOf(cfg)
			if got.workers != test.want.workers || got.statusWorkers != test.want.statusWorkers || got.period != test.want.period {
				t.Errorf("the value is %+v", got)
			}
			built, err := newController(controllertest.New(t).Env, got)
			if err != nil || (built == nil) != (test.want == config{}) {
				t.Errorf("New = %v, %v", built, err)
			}
		})
	}
}

// A round asks the cloud about every node, so one that was made lately is not made again because
// the controller was restarted.
func TestFirstRound(t *testing.T) {
	now := controllertest.Epoch
	tests := map[string]struct {
		last time.Time
		want time.Duration
	}{
		"CNODE-15: at once": {time.Time{}, 0},
		"CNODE-27: a period after the last one of another instance": {now.Add(-4 * time.Minute), time.Minute},
		"CNODE-27: at once, if that is over":                        {now.Add(-6 * time.Minute), 0},
		"the clock was set back":                                    {now.Add(time.Hour), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := rounds{last: test.last}
			if got := r.due(now, 5*time.Minute); got != test.want {
				t.Errorf("it waits %v, want %v", got, test.want)
			}
		})
	}
}

// The library begins a round when it starts. That one is empty; those of the package follow it,
// each a period after the end of the one before.
func TestRounds(t *testing.T) {
	env := controllertest.New(t)
	r := rounds{passed: make(chan struct{})}
	ctx, stop := context.WithCancel(t.Context())
	began, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		r.run(ctx, env.Clock, time.Minute, func(context.Context) error {
			began <- struct{}{}
			return errors.New("logged")
		})
	}()
	all := []*corev1.Node{{}}
	if got := r.list(all); len(got) > 0 {
		t.Errorf("the first round of the library has %v", got)
	}
	<-began
	if got := r.list(all); !slices.Equal(got, all) {
		t.Errorf("a later round has %v", got)
	}
	for range 2 {
		controllertest.Eventually(t, "the next round is waited for", env.Clock.HasWaiters)
		env.Clock.Step(time.Minute)
		<-began
	}
	controllertest.Eventually(t, "the next round is waited for", env.Clock.HasWaiters)
	stop()
	<-ended
	if want := controllertest.Epoch.Add(2 * time.Minute); !r.last.Equal(want) {
		t.Errorf("the last round began at %v, want %v", r.last, want)
	}
}

// A round that the stop cuts short may have left nodes out. Pins CNODE-29.
func TestRoundThatIsCutShortDoesNotCount(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	r := rounds{passed: make(chan struct{})}
	r.list(nil)
	r.run(ctx, testclock.NewFakeClock(controllertest.Epoch), time.Minute, func(context.Context) error {
		stop()
		runtime.Goexit()
		return nil
	})
	if !r.last.IsZero() {
		t.Errorf("the last round began at %v", r.last)
	}
}

// A round counts if the successor asks the same provider, with the same file. Pins CNODE-29.
func TestRoundOfAnotherProviderDoesNotCount(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cloud.conf")
	must.Succeed(t, os.WriteFile(path, []byte("a"), 0o600))
	of := func(file string) handover {
		cfg := v1beta1.NewDefault()
		cfg.Cloud.Provider, cfg.Cloud.ConfigFile = fakecloud.Name, file
		return must.Get(newController(controllertest.New(t).Env, configOf(cfg)))(t).HandOver()
	}
	former := of(path)
	if of(path) != former {
		t.Error("the same file is another source")
	}
	if of("") == former {
		t.Error("no file is the same source")
	}
	must.Succeed(t, os.WriteFile(path, []byte("b"), 0o600))
	if of(path) == former {
		t.Error("another content is the same source")
	}
}

// An instance that follows another makes its first round when the next one is due.
// Pins CNODE-27 and CNODE-29.
func TestRestartMakesNoRound(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: t.Name()}}
	env := controllertest.New(t, node)
	cfg := v1beta1.NewDefault()
	cfg.Cloud.Provider = fakecloud.Name
	asked := func() int { return len(fakecloud.The().Calls("InstanceMetadata " + node.Name)) }
	first := must.Get(newController(env.Env, configOf(cfg)))(t)
	env.Start(t)
	stop := env.Run(t, first)
	controllertest.Eventually(t, "the first instance has made a round", func() bool { return asked() == 1 && env.Clock.HasWaiters() })
	stop()

	env.Succeed(first.HandOver())
	second := must.Get(newController(env.Env, configOf(cfg)))(t)
	stop = env.Run(t, second)
	controllertest.Eventually(t, "the second waits for the next round", env.Clock.HasWaiters)
	if got := asked(); got != 1 {
		t.Errorf("the cloud was asked %d times", got)
	}
	env.Clock.Step(5 * time.Minute)
	controllertest.Eventually(t, "the second makes a round", func() bool { return asked() == 2 })
	stop()
}

// Pins CNODE-1 and CLOUD-17.
func TestProviderWithoutInstancesLeavesItIdle(t *testing.T) {
	env := controllertest.New(t, uninitialized("waiting"))
	cfg := v1beta1.NewDefault()
	cfg.Cloud.Provider = fakecloud.Lacking
	c := must.Get(newController(env.Env, configOf(cfg)))(t)
	env.WantIdleFor(t, c, "cloud provider does not support instances")
}

// As many nodes are worked on at once as each of the two numbers says. Pins CLOUD-15.
func TestWorkersOfBothKinds(t *testing.T) {
	for name, test := range map[string]struct {
		node    func(name string) *corev1.Node
		workers int
	}{
		"initialization": {uninitialized, 2},
		"addresses":      {initialized, 3},
	} {
		t.Run(name, func(t *testing.T) {
			about := "of-" + name + "-"
			cloud := fakecloud.The()
			cloud.Reset()
			hold := cloud.Hold("InstanceMetadata " + about)
			var nodes []k8sruntime.Object
			for i := range test.workers + 1 {
				nodes = append(nodes, test.node(fmt.Sprint(about, i)))
			}
			env := controllertest.New(t, nodes...)
			cfg := v1beta1.NewDefault()
			cfg.Cloud.Provider = fakecloud.Name
			cfg.Controllers.CloudNode.ConcurrentSyncs, cfg.Controllers.CloudNode.ConcurrentStatusUpdates = ptr.To[int32](2), ptr.To[int32](3)
			c := must.Get(newController(env.Env, configOf(cfg)))(t)
			env.Start(t)
			env.Run(t, c)
			t.Cleanup(hold.Release) // before the stop
			asked := func() int { return len(cloud.Calls("InstanceMetadata " + about)) }
			controllertest.Eventually(t, "all workers ask", func() bool { return asked() >= test.workers })
			await.Stays(t, "no other asks", 50*time.Millisecond, func(context.Context) error {
				if n := asked(); n != test.workers {
					return fmt.Errorf("%d ask", n)
				}
				return nil
			})
			hold.Release()
			controllertest.Eventually(t, "it is asked about every node", func() bool { return asked() > test.workers })
		})
	}
}
