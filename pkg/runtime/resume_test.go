package runtime_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/controller"
)

// recorder is told what becomes of the instances of a controller.
type recorder struct {
	mu      sync.Mutex
	resumed []string
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
	<-ctx.Done()
	return nil
}

const jobs = "job-controller"

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
			w := beginWith(t, paused, following(r))
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
		w := beginWith(t, paused, following(r))
		w.edit(t, cfg)
		if told := r.told(); len(told) != 1 {
			t.Errorf("resumed: %q", told)
		}
	})
}

// pair is the value of a controller that reads two files.
type pair struct{ key, ca string }

// Files implements controller.FileReader.
func (p pair) Files() []string { return []string{p.key, p.ca} }

// A controller reads two files. One cannot be used, so that a change of the other one is not either, until the first is
// right. From then on the change is in use, and can be taken back. Pins MGR-176.
func TestAFileThatWasRefusedIsInUseWithAnother(t *testing.T) {
	cfg, _ := base(t, newLeaseServer(t))
	folder := t.TempDir()
	files := pair{folder + "/key", folder + "/ca"}
	write := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(path+".next", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".next", path); err != nil {
			t.Fatal(err)
		}
	}
	write(files.key, "p1")
	write(files.ca, "c1")
	var mu sync.Mutex
	var inUse string
	tried := 0
	all := fakes()
	for n, d := range all {
		if d.Name == jobs {
			bare := controller.Descriptor{Name: d.Name}
			all[n] = controller.Describe(bare, func(*plan.Config) pair { return files }, func(controller.Env, pair) (controller.Controller, error) {
				key, keyErr := os.ReadFile(files.key)
				ca, caErr := os.ReadFile(files.ca)
				mu.Lock()
				defer mu.Unlock()
				tried++
				if keyErr != nil || caErr != nil || string(ca) == "bad" {
					return nil, fmt.Errorf("unusable: %s", ca)
				}
				inUse = string(key) + string(ca)
				return idle{}, nil
			})
		}
	}
	w := beginWith(t, cfg, all)
	uses := func(want string) {
		t.Helper()
		w.wait(t, want+" is in use", func() error {
			mu.Lock()
			defer mu.Unlock()
			if inUse != want {
				return fmt.Errorf("%s is", inUse)
			}
			return nil
		})
	}
	refused := func(change func()) {
		t.Helper()
		mu.Lock()
		before := tried
		mu.Unlock()
		change()
		w.wait(t, "it was tried", func() error {
			mu.Lock()
			defer mu.Unlock()
			if tried == before {
				return fmt.Errorf("%d attempts", tried)
			}
			return nil
		})
	}
	uses("p1c1")
	refused(func() { write(files.ca, "bad") })
	refused(func() { write(files.key, "p2") })
	write(files.ca, "c3")
	uses("p2c3")
	write(files.key, "p1")
	uses("p1c3")
}
