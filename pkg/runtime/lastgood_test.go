package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/lastgood"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
)

// hasty is a clock by which reminders are due almost at once.
type hasty struct{ clock.RealClock }

func (hasty) NewTimer(d time.Duration) clock.Timer {
	if d == 10*time.Minute {
		d = 5 * time.Millisecond
	}
	return clock.RealClock{}.NewTimer(d)
}

// keeper is a process that is started again and again with one file and one directory.
type keeper struct {
	*world
	server *leaseServer
	dir    string
	store  *lastgood.Store
	cfg    *plan.Config
	files  map[string]string
	clock  clock.WithTicker
	stop   func() error
}

func newKeeper(t *testing.T) *keeper {
	t.Helper()
	k := &keeper{server: newLeaseServer(t), dir: t.TempDir(), clock: clock.RealClock{}}
	k.cfg, k.files = base(t, k.server)
	k.world = &world{file: filepath.Join(t.TempDir(), "config.yaml")}
	store, err := lastgood.Open(k.dir, k.file)
	if err != nil {
		t.Fatal(err)
	}
	k.store = store
	return k
}

// start runs the process until stop is called, or until the end of the test.
func (k *keeper) start(t *testing.T) {
	t.Helper()
	r, err := runtime.New(runtime.Options{ConfigFile: k.file, LastGood: k.dir, Descriptors: fakes(), Clock: k.clock})
	if err != nil {
		t.Fatal(err)
	}
	k.runtime = r
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stopped := false
	k.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() {
		if err := k.stop(); err != nil {
			t.Error(err)
		}
	})
}

// fails runs the process, which ends by itself, and returns why.
func (k *keeper) fails(t *testing.T) string {
	t.Helper()
	r, err := runtime.New(runtime.Options{ConfigFile: k.file, LastGood: k.dir, Descriptors: fakes()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.Run(ctx); err != nil {
		return err.Error()
	}
	t.Fatal("the process starts")
	return ""
}

// begin runs the process with a good file until it is kept, then stops it.
func (k *keeper) begin(t *testing.T) {
	t.Helper()
	k.write(t, k.cfg)
	k.start(t)
	k.runs(t, k.cfg)
	k.keeps(t, k.cfg)
	if err := k.stop(); err != nil {
		t.Fatal(err)
	}
}

// runs waits until the file, with this configuration, is in force.
func (k *keeper) runs(t *testing.T, cfg *plan.Config) {
	t.Helper()
	k.wait(t, "the file is in force", func() error {
		s := k.runtime.Status()
		if s.Configuration.LastGood != nil {
			return fmt.Errorf("in force is %+v", s.Configuration)
		}
		return goalOf(t, cfg).reached(s)
	})
}

// runsLastGood waits until this configuration is in force in place of the file, and the file
// was rejected for a reason.
func (k *keeper) runsLastGood(t *testing.T, cfg *plan.Config, reason string) {
	t.Helper()
	k.wait(t, "the last good configuration is in force", func() error {
		s := k.runtime.Status()
		c := &s.Configuration
		if c.LastGood == nil || c.LastGood.File != k.store.Path() || !strings.Contains(c.Rejected, reason) || c.Generation != 1 {
			return fmt.Errorf("in force is %+v", c)
		}
		if len(s.Reloads) == 0 || s.Reloads[0].Status != telemetry.Failure || !strings.Contains(s.Reloads[0].Error, reason) {
			return fmt.Errorf("the reloads are %+v", s.Reloads)
		}
		c.Rejected = ""
		return goalOf(t, cfg).reached(s)
	})
}

// keeps waits until the text of a configuration is kept.
func (k *keeper) keeps(t *testing.T, cfg *plan.Config) {
	t.Helper()
	want := marshalled(t, cfg)
	k.wait(t, "the configuration is kept", func() error {
		kept, err := k.store.Read()
		if err == nil && string(kept.Text) != want {
			err = fmt.Errorf("kept is\n%s", kept.Text)
		}
		return err
	})
}

func marshalled(t *testing.T, cfg *plan.Config) string {
	t.Helper()
	data, err := config.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// put replaces the file by any text.
func (k *keeper) put(t *testing.T, text string) {
	t.Helper()
	next := k.file + ".next"
	if err := errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Rename(next, k.file)); err != nil {
		t.Fatal(err)
	}
}

func with(cfg *plan.Config, change func(*plan.Config)) *plan.Config {
	next := cfg.DeepCopy()
	change(next)
	return next
}

// A process whose file is of no use, in whatever way, starts with what was in force before, and
// takes the file when it is good again. Only what differs restarts.
func TestAProcessStartsWithItsLastGoodConfiguration(t *testing.T) {
	k := newKeeper(t)
	k.begin(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := taken.Close(); err != nil {
			t.Error(err)
		}
	})
	missing := filepath.Join(k.dir, "missing.key")
	repaired := with(k.cfg, func(c *plan.Config) { c.Controllers.Job.ConcurrentSyncs = ptr.To[int32](7) })
	for name, c := range map[string]struct {
		spoil  func()
		reason string
		repair *plan.Config
	}{
		"not YAML":         {func() { k.put(t, "a: [\n") }, "not valid YAML", repaired},
		"invalid":          {func() { k.put(t, marshalled(t, k.cfg)+"relod: {}\n") }, "relod", repaired},
		"empty":            {func() { k.put(t, "") }, "an empty file is not a configuration", repaired},
		"missing":          {func() { _ = os.Remove(k.file) }, "no such file or directory", repaired},
		"with a lost file": {func() { k.write(t, with(k.cfg, func(c *plan.Config) { c.ServiceAccounts.PrivateKeyFile = missing })) }, missing, repaired},
		"with a port that is in use": {func() {
			k.write(t, with(k.cfg, func(c *plan.Config) {
				c.Serving.BindAddress = "127.0.0.1"
				c.Serving.Port = ptr.To(int32(taken.Addr().(*net.TCPAddr).Port))
			}))
		}, "address already in use", repaired},
		"invalid, then as before": {func() { k.put(t, "a: [\n") }, "not valid YAML", k.cfg},
	} {
		t.Run(name, func(t *testing.T) {
			c.spoil()
			k.start(t)
			k.runsLastGood(t, k.cfg, c.reason)
			if got := k.runtime.Status().Configuration.LastGood; got.Program == "" || got.At.IsZero() {
				t.Errorf("the status shows %+v", got)
			}
			before := k.runtime.Status()
			k.write(t, c.repair)
			k.runs(t, c.repair)
			for _, is := range k.runtime.Status().Controllers {
				want := of(before, is.Name).Generation
				if is.Name == "job-controller" && c.repair == repaired {
					want++
				}
				if is.Generation != want || is.State != of(before, is.Name).State {
					t.Errorf("%s has instance %d, want %d", is.Name, is.Generation, want)
				}
			}
			k.keeps(t, c.repair)
			if err := k.stop(); err != nil {
				t.Error(err)
			}
			k.begin(t)
		})
	}
}

// A process that can use neither says why, for both, and ends.
func TestWhatIsKeptMayBeOfNoUse(t *testing.T) {
	k := newKeeper(t)
	const invalid = "a: [\n"
	keep := func(t *testing.T, text string) {
		t.Helper()
		if err := k.store.Keep(lastgood.Kept{Text: []byte(text), Program: "v0", At: time.Unix(0, 0)}); err != nil {
			t.Fatal(err)
		}
	}
	good := marshalled(t, k.cfg)
	lost := filepath.Join(k.dir, "lost.key")
	for name, c := range map[string]struct {
		file string
		kept func(t *testing.T)
		want string
	}{
		"nothing": {invalid, func(*testing.T) {}, k.store.Path() + ": nothing is kept there"},
		"a torn file": {invalid, func(t *testing.T) {
			keep(t, good)
			if err := os.Truncate(k.store.Path(), int64(len(good))); err != nil {
				t.Fatal(err)
			}
		}, k.store.Path() + ": it is incomplete, or was not written by this program"},
		"of another file": {invalid, func(t *testing.T) {
			other, err := lastgood.Open(k.dir, "/elsewhere.yaml")
			if err == nil {
				err = other.Keep(lastgood.Kept{Text: []byte(good)})
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "it was kept for another file, /elsewhere.yaml"},
		"of another version": {invalid, func(t *testing.T) { keep(t, good+"retired: {}\n") },
			"checking what v0 kept at 1970-01-01T00:00:00Z: " + k.store.Path() + ":"},
		"with a lost file": {invalid, func(t *testing.T) {
			keep(t, marshalled(t, with(k.cfg, func(c *plan.Config) { c.ServiceAccounts.PrivateKeyFile = lost })))
		}, "serviceAccounts.privateKeyFile: the file " + lost + " does not exist"},
		"the same": {invalid, func(t *testing.T) { keep(t, invalid) }, "it has the content of the file"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.RemoveAll(k.store.Path()); err != nil {
				t.Fatal(err)
			}
			k.put(t, c.file)
			c.kept(t)
			got := k.fails(t)
			first, second, both := strings.Cut(got, "\nstarting with the last good configuration instead: ")
			if !both || !strings.Contains(first, k.file+":") || !strings.Contains(second, c.want) {
				t.Errorf("the error is\n%s\nwithout %q", got, c.want)
			}
		})
	}
}

// What is in force is kept: no edit that is rejected, and every one that is not.
func TestWhatIsInForceIsKept(t *testing.T) {
	k := newKeeper(t)
	k.begin(t)
	k.start(t)
	k.runs(t, k.cfg)
	k.put(t, "a: [\n")
	k.wait(t, "the file is rejected", func() error {
		if k.runtime.Status().Configuration.Rejected == "" {
			return errors.New("it is not")
		}
		return nil
	})
	k.keeps(t, k.cfg)
	var last *plan.Config
	for n := range int32(5) {
		last = with(k.cfg, func(c *plan.Config) { c.Controllers.Job.ConcurrentSyncs = ptr.To(n + 11) })
		k.write(t, last)
		k.runs(t, last)
	}
	if err := k.stop(); err != nil { // even if it is still to be written
		t.Fatal(err)
	}
	kept, err := k.store.Read()
	if err != nil {
		t.Fatal(err)
	}
	hash, err := config.Hash(last)
	if err != nil {
		t.Fatal(err)
	}
	if string(kept.Text) != marshalled(t, last) || kept.Hash != hash {
		t.Errorf("kept is %s\n%s", kept.Hash, kept.Text)
	}
}

// Where nothing can be kept, the process works and says so, and keeps the configuration as soon
// as it can.
func TestAProcessThatCannotKeepWorks(t *testing.T) {
	k := newKeeper(t)
	k.clock = hasty{}
	if err := os.Remove(k.dir); err != nil {
		t.Fatal(err)
	}
	k.write(t, k.cfg)
	k.start(t)
	k.runs(t, k.cfg)
	notKept := func(want string) {
		t.Helper()
		k.wait(t, "the status shows whether it is kept", func() error {
			if got := k.runtime.Status().Configuration.NotKept; !strings.Contains(got, want) || (got == "") != (want == "") {
				return fmt.Errorf("it shows %q, want %q", got, want)
			}
			return nil
		})
	}
	notKept("keeping the configuration in " + k.dir + ": open " + k.dir + ": no such file or directory")
	if err := os.Mkdir(k.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	notKept("")
	k.keeps(t, k.cfg)
}

// While the last good configuration is in force, the leases and events say so, events again and
// again, and a file that failed because of something that is no file is tried again.
func TestTheLastGoodConfigurationIsShown(t *testing.T) {
	k := newKeeper(t)
	k.cfg.LeaderElection.LeaderElect = ptr.To(true)
	k.clock = hasty{}
	k.begin(t)
	if got := k.server.annotation(leadership.LastGoodAnnotation); len(got) != 0 {
		t.Errorf("the leases have %v", got)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	next := with(k.cfg, func(c *plan.Config) {
		c.Serving.BindAddress = "127.0.0.1"
		c.Serving.Port = ptr.To(int32(taken.Addr().(*net.TCPAddr).Port))
	})
	k.write(t, next)
	k.start(t)
	k.runsLastGood(t, k.cfg, "address already in use")
	hash, err := config.Hash(k.cfg)
	if err != nil {
		t.Fatal(err)
	}
	k.annotated(t, "sha256:"+hash)
	k.wait(t, "events say so again", func() error {
		got := k.server.eventsOf("LastGoodConfiguration")
		if len(got) < 3 || slices.ContainsFunc(got, func(m string) bool {
			return !strings.HasPrefix(m, "Warning Generation 1 is the last good configuration, which came into force at 2") ||
				!strings.Contains(m, ", because the file cannot be used. ") || !strings.HasSuffix(m, "address already in use")
		}) {
			return fmt.Errorf("the events are %q", got)
		}
		return nil
	})
	if n := len(k.runtime.Status().Reloads); n != 1 {
		t.Errorf("%d reloads are shown: attempts that change nothing are none", n)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	k.runs(t, next)
	k.annotated(t, "")
	k.keeps(t, next)
	if got := of(k.runtime.Status(), "job-controller"); got.State != supervisor.Running || got.Generation != 1 {
		t.Errorf("job-controller is %+v", got)
	}
}

// A lease that is given back says nothing about the configuration of its former holder.
func TestALeaseThatIsGivenBackDoesNotNameALastGoodConfiguration(t *testing.T) {
	k := newKeeper(t)
	k.cfg.LeaderElection.LeaderElect = ptr.To(true)
	k.begin(t)
	k.put(t, "a: [\n")
	k.start(t)
	hash, err := config.Hash(k.cfg)
	if err != nil {
		t.Fatal(err)
	}
	k.annotated(t, "sha256:"+hash)
	if err := k.stop(); err != nil {
		t.Fatal(err)
	}
	k.annotated(t, "")
}

// annotated waits until the lease has a value for the annotation, or does not have it if that is
// empty.
func (k *keeper) annotated(t *testing.T, want string) {
	t.Helper()
	k.wait(t, "the lease is annotated", func() error {
		got := k.server.annotation(leadership.LastGoodAnnotation)
		if value, has := got["kube-controller-manager"]; value != want || has != (want != "") {
			return fmt.Errorf("the leases have %v, want %q", got, want)
		}
		return nil
	})
}

// The directory must not be where the file is.
func TestTheFileIsNotKeptInItsOwnPlace(t *testing.T) {
	k := newKeeper(t)
	_, err := runtime.New(runtime.Options{ConfigFile: k.store.Path(), LastGood: k.dir, Descriptors: fakes()})
	if err == nil || !strings.Contains(err.Error(), k.store.Path()+" is the configuration file") {
		t.Errorf("got %v", err)
	}
}
