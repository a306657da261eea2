package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
)

// recorder is told what becomes of the instances of a controller.
type recorder struct {
	mu      sync.Mutex
	follows bool
	resumed []string
}

// begin starts a process, and returns when the instance follows its pauses: it may be shown as running before.
func (r *recorder) begin(t *testing.T, cfg *plan.Config) *world {
	t.Helper()
	w := beginWith(t, cfg, following(r))
	w.wait(t, "the instance follows its pauses", func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.follows {
			return errors.New("it does not")
		}
		return nil
	})
	return w
}

// told are the notes of resumed instances, of which each says whether it was at work.
func (r *recorder) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.resumed...)
}

// follower is a controller that notes when a pause of it ends.
type follower struct {
	pauses   *controller.Pauses
	recorder *recorder
	value    string
}

// Run implements controller.Controller.
func (f follower) Run(ctx context.Context) error {
	defer f.pauses.Follow(func() {
		if f.pauses.Any() || ctx.Err() != nil {
			return
		}
		f.recorder.mu.Lock()
		defer f.recorder.mu.Unlock()
		f.recorder.resumed = append(f.recorder.resumed, f.value)
	})()
	f.recorder.mu.Lock()
	f.recorder.follows = true
	f.recorder.mu.Unlock()
	<-ctx.Done()
	return nil
}

const (
	jobs     = "job-controller"
	cronJobs = "cronjob-controller"
	binder   = "persistentvolume-binder-controller"
)

// following are the controllers of fakes, of which the one for Jobs notes when a pause of it ends.
func following(r *recorder) []controller.Descriptor {
	all := fakes()
	for n, d := range all {
		if d.Name == jobs {
			bare := controller.Descriptor{Name: d.Name, Gate: d.Gate, RunsWithoutLease: d.RunsWithoutLease}
			all[n] = controller.Describe(bare, func(c *plan.Config) opaque { return opaque{d.Value(c)} },
				func(env controller.Env, of opaque) (controller.Controller, error) {
					return follower{env.Pauses, r, fmt.Sprint(of.value)}, nil
				})
		}
	}
	return all
}

// An edit lifts a pause, and changes the controller, stops it or pauses it as a whole: the instance that was there before
// does not go on, with what it was paused for.
func TestAnInstanceThatEndsIsNotResumed(t *testing.T) {
	for name, change := range map[string]func(*plan.Config){
		"it is replaced": func(c *plan.Config) { c.Controllers.Job.ConcurrentSyncs = ptr.To[int32](77) },
		"it is stopped":  func(c *plan.Config) { c.Controllers.Job.Enabled = ptr.To(false) },
		"it is paused":   func(c *plan.Config) { c.Controllers.Job.Paused = ptr.To(true) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg, _ := base(t, newLeaseServer(t))
			paused := cfg.DeepCopy()
			paused.PausedNamespaces = []string{"shop"}
			r := &recorder{}
			w := r.begin(t, paused)
			change(cfg)
			w.edit(t, cfg)
			if told := r.told(); len(told) > 0 {
				t.Errorf("resumed while it was at work: %q", told)
			}
		})
	}
	t.Run("it is kept", func(t *testing.T) {
		cfg, _ := base(t, newLeaseServer(t))
		paused := cfg.DeepCopy()
		paused.PausedNamespaces = []string{"shop"}
		r := &recorder{}
		w := r.begin(t, paused)
		w.edit(t, cfg)
		if told := r.told(); len(told) != 1 {
			t.Errorf("resumed: %q", told)
		}
	})
}

// The files of controllers are used as soon as all who read one can use it, whatever changed to allow that: what was
// refused because of another file is used with the next content of that one, or with its former one. Pins MGR-176.
func TestAFileThatWasRefusedIsInUseWithAnother(t *testing.T) {
	w := newReaders(t)
	w.uses("both p1 c1", "one c1", "volumes t1")
	w.refused("ca", "bad1")
	w.refused("key", "p2")
	w.write("ca", "c3")
	w.uses("both p2 c3", "one c3", "volumes t1")
	w.write("key", "p1")
	w.uses("both p1 c3", "one c3", "volumes t1")

	w.refused("ca", "bad2")
	w.refused("key", "p4")
	w.write("ca", "c3") // what is in use
	w.uses("both p4 c3", "one c3", "volumes t1")

	w.refused("key", "bad3")
	w.refused("ca", "c5")
	w.write("key", "p4")
	w.uses("both p4 c5", "one c5", "volumes t1")

	w.refused("key", "bad4")
	w.refused("ca", "c6")
	w.write("key", "p7")
	w.uses("both p7 c6", "one c6", "volumes t1")

	w.refused("template", "bad5") // and stays so, which is the affair of its reader
	w.refused("key", "bad6")
	w.refused("ca", "c8")
	w.write("key", "p7")
	w.uses("both p7 c8", "one c8", "volumes t1")
}

// What an edit could not name, and the process could not start with, is no better in a file that changes, also if its
// reader would take it. Pins MGR-249.
func TestAChangedFileThatNoEditCouldNameIsNotUsed(t *testing.T) {
	const first, second = "{apiVersion: v1, kind: Pod, spec: {volumes: [{name: a}]}}", "{apiVersion: v1, kind: Pod, spec: {volumes: [{name: b}]}}"
	w := newReaders(t)
	w.write("template", first)
	w.uses("both p1 c1", "one c1", "volumes "+first)
	cfg := w.inForce.DeepCopy()
	cfg.Controllers.PersistentVolumeBinder.Recycler.NFS.PodTemplateFile = filepath.Join(w.folder, "template")
	w.world.write(t, cfg)
	w.wait(t, "the file is named", func() error {
		if s := w.runtime.Status().Configuration; s.Generation != 2 {
			return fmt.Errorf("generation %d, rejected: %s", s.Generation, s.Rejected)
		}
		return nil
	})
	w.write("template", "{spec: {volumes: [{name: b}]}}")
	w.write("ca", "c2")
	w.uses("both p1 c2", "one c2", "volumes "+first)
	w.write("template", second)
	w.uses("both p1 c2", "one c2", "volumes "+second)
}

// A file has another content for a moment, while a controller reads it because of another one.
func TestAContentThatWasReadByChanceIsNotKept(t *testing.T) {
	w := newReaders(t, func(c *plan.Config) { c.Reload.SettleTime.Duration = 300 * time.Millisecond }) // it sees p1 only
	w.uses("both p1 c1", "one c1", "volumes t1")
	w.mu.Lock()
	w.building = func() { w.write("key", "p2") }
	w.running = func() { w.write("key", "p1") }
	w.mu.Unlock()
	w.write("ca", "c2")
	w.uses("both p1 c2", "one c2", "volumes t1")
}

// A kubeconfig that names another API server is used as soon as all controllers can be built again: what they could not
// use when it changed may be in order by now, without another change of the kubeconfig. Pins MGR-209.
func TestAnotherAPIServerWaitsForFilesOfControllers(t *testing.T) {
	for name, test := range map[string]struct {
		repair func(*readers)
		uses   []string
	}{
		"the file has its former content": {func(w *readers) { w.write("ca", "c1") }, []string{"both p1 c1", "one c1", "volumes t1"}},
		"the file has another content":    {func(w *readers) { w.write("ca", "c2") }, []string{"both p1 c2", "one c2", "volumes t1"}},
		"an edit disables those who read it": {func(w *readers) {
			cfg := w.inForce.DeepCopy()
			cfg.Controllers.Job.Enabled, cfg.Controllers.CronJob.Enabled = ptr.To(false), ptr.To(false)
			w.world.write(w.t, cfg)
		}, []string{"both p1 c1", "one c1", "volumes t1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReaders(t)
			w.uses("both p1 c1", "one c1", "volumes t1")
			w.refused("ca", "bad1")
			kubeconfig, other := w.inForce.ClientConnection.Kubeconfig, newLeaseServer(t)
			was := w.runtime.Status().Connection
			named := strings.ReplaceAll(string(must.Get(os.ReadFile(kubeconfig))(t)), was.Server, other.URL)
			must.Succeed(t, os.WriteFile(kubeconfig, []byte(named), 0o600))
			w.wait(t, "the other API server is not used", func() error {
				if s := w.runtime.Status().Connection; !strings.Contains(s.Error, "cannot be built") {
					return fmt.Errorf("connection %d, %q", s.Generation, s.Error)
				}
				return nil
			})
			test.repair(w)
			w.wait(t, "it is", func() error {
				if s := w.runtime.Status().Connection; s.Server != other.URL || s.Error != "" {
					return fmt.Errorf("connection %d to %s: %s", s.Generation, s.Server, s.Error)
				}
				return nil
			})
			w.uses(test.uses...)
		})
	}
}

// readers are controllers that read files: the one for Jobs a key and a CA, the one for CronJobs only the CA, and the one
// for volumes a template.
type readers struct {
	*world
	t      *testing.T
	folder string

	mu    sync.Mutex
	inUse map[string]string
	tried map[string]string // the content of each file that a controller was built with last
	// building and running, if not nil, are called when the controller for Jobs is built and begins to run next.
	building, running func()
}

func newReaders(t *testing.T, changes ...func(*plan.Config)) *readers {
	t.Helper()
	cfg, _ := base(t, newLeaseServer(t))
	for _, change := range changes {
		change(cfg)
	}
	r := &readers{t: t, folder: t.TempDir(), inUse: map[string]string{}, tried: map[string]string{}}
	r.write("key", "p1")
	r.write("ca", "c1")
	r.write("template", "t1")
	all := fakes()
	for n, d := range all {
		switch d.Name {
		case jobs:
			all[n] = r.descriptor(d.Name, "both", "key", "ca")
		case cronJobs:
			all[n] = r.descriptor(d.Name, "one", "ca")
		case binder:
			all[n] = r.descriptor(d.Name, "volumes", "template")
		}
	}
	r.world = beginWith(t, cfg, all)
	return r
}

// reading is the value of a controller that reads files.
type reading struct{ files [2]string }

// Files implements controller.FileReader.
func (r reading) Files() []string {
	return slices.DeleteFunc(r.files[:], func(f string) bool { return f == "" })
}

func (r *readers) descriptor(name, as string, names ...string) controller.Descriptor {
	var of reading
	for n, file := range names {
		of.files[n] = filepath.Join(r.folder, file)
	}
	return controller.Describe(controller.Descriptor{Name: name}, func(*plan.Config) reading { return of },
		func(controller.Env, reading) (controller.Controller, error) { return r.build(as, of) })
}

func (r *readers) build(as string, of reading) (controller.Controller, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if as == "both" && r.building != nil {
		r.building()
		r.building = nil
	}
	uses, usable := as, true
	for _, file := range of.Files() {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		r.tried[filepath.Base(file)] = string(content)
		usable = usable && !strings.HasPrefix(string(content), "bad")
		uses += " " + string(content)
	}
	if !usable {
		return nil, fmt.Errorf("unusable: %s", uses)
	}
	return reader{r, as, uses}, nil
}

// reader is an instance that says what it uses when it runs: others are built, and discarded.
type reader struct {
	of       *readers
	as, uses string
}

// Run implements controller.Controller.
func (r reader) Run(ctx context.Context) error {
	r.of.mu.Lock()
	r.of.inUse[r.as] = r.uses
	if r.as == "both" && r.of.running != nil {
		r.of.running()
		r.of.running = nil
	}
	r.of.mu.Unlock()
	<-ctx.Done()
	return nil
}

func (r *readers) write(name, content string) {
	r.t.Helper()
	path := filepath.Join(r.folder, name)
	if err := os.WriteFile(path+".next", []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(path+".next", path); err != nil {
		r.t.Fatal(err)
	}
}

// uses waits until the controllers use what they are to.
func (r *readers) uses(want ...string) {
	r.t.Helper()
	r.wait(r.t, fmt.Sprintf("%q are in use", want), func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if got := slices.Sorted(maps.Values(r.inUse)); !slices.Equal(got, want) {
			return fmt.Errorf("%q are", got)
		}
		return nil
	})
}

// refused changes a file, and waits until some controller was built with the new content.
func (r *readers) refused(name, content string) {
	r.t.Helper()
	r.mu.Lock()
	r.tried = map[string]string{}
	r.mu.Unlock()
	r.write(name, content)
	r.wait(r.t, content+" was tried", func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.tried[name] != content {
			return fmt.Errorf("%v was", r.tried)
		}
		return nil
	})
}
