package runtime_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
)

// idle is a controller that does nothing until it is stopped.
type idle struct{}

// Run implements controller.Controller.
func (idle) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// opaque is a value that names no files and no resources to wait for.
type opaque struct{ value any }

// fakes are all controllers with their values, and nothing to do.
func fakes() []controller.Descriptor {
	var all []controller.Descriptor
	for _, d := range controllers.All() {
		fake := controller.Descriptor{Name: d.Name, Gate: d.Gate, RunsWithoutLease: d.RunsWithoutLease}
		all = append(all, controller.Describe(fake, func(c *plan.Config) opaque { return opaque{d.Value(c)} }, func(controller.Env, opaque) (controller.Controller, error) { return idle{}, nil }))
	}
	return all
}

// subjects are the controllers as check-config sees them.
var subjects = runtime.Subjects(controllers.All())

// world is a process that follows a file, with the API server it needs.
type world struct {
	runtime *runtime.Runtime
	file    string
	inForce *plan.Config
	edits   int
}

// begin starts a process with a configuration.
func begin(t *testing.T, cfg *plan.Config) *world {
	t.Helper()
	return beginWith(t, cfg, fakes())
}

// beginWith is begin with controllers of the test.
func beginWith(t *testing.T, cfg *plan.Config, descriptors []controller.Descriptor) *world {
	t.Helper()
	w := &world{file: filepath.Join(t.TempDir(), "config.yaml"), inForce: cfg}
	w.write(t, cfg)
	r, err := runtime.New(runtime.Options{ConfigFile: w.file, Descriptors: descriptors})
	if err != nil {
		t.Fatal(err)
	}
	w.runtime = r
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	w.wait(t, "the process runs", func() error { return goalOf(t, cfg).reached(r.Status()) })
	return w
}

// write replaces the file at once.
func (w *world) write(t *testing.T, cfg *plan.Config) {
	t.Helper()
	data, err := config.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	next := w.file + ".next"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, w.file); err != nil {
		t.Fatal(err)
	}
}

func (w *world) wait(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline, tick := time.NewTimer(time.Minute), time.NewTicker(time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waiting until %s: %v", what, err)
		}
	}
}

// goal is what a process does with a configuration, once its locks are held.
type goal struct {
	hash   string
	states map[string]supervisor.State
	locks  []locks.Lock
}

func goalOf(t *testing.T, cfg *plan.Config) goal {
	t.Helper()
	hash, err := config.Hash(cfg)
	if err != nil {
		t.Fatal(err)
	}
	g := goal{hash: hash, states: map[string]supervisor.State{}, locks: locks.All(cfg)}
	for _, s := range subjects {
		g.states[s.Name] = supervisor.Disabled
		switch spec := plan.SpecOf(cfg, s); {
		case spec.Runs() && spec.Paused:
			g.states[s.Name] = supervisor.Paused
		case spec.Runs():
			g.states[s.Name] = supervisor.Running
		}
	}
	return g
}

// reached reports that a process does what it should.
func (g goal) reached(s runtime.Status) error {
	if s.Configuration.Rejected != "" {
		return fmt.Errorf("rejected: %s", s.Configuration.Rejected)
	}
	if s.Configuration.Hash != g.hash {
		return fmt.Errorf("another configuration is in force")
	}
	for _, c := range s.Controllers {
		if want := g.states[c.Name]; c.State != want || c.Pending {
			return fmt.Errorf("%s: %s %s, want %s", c.Name, c.State, c.Reason, want)
		}
	}
	var held []string
	for _, l := range s.Leadership.Leases {
		if l.Leading {
			held = append(held, l.Lock)
		}
	}
	for _, l := range g.locks {
		if !slices.Contains(held, l.Name) {
			return fmt.Errorf("the lock %s is not held", l.Name)
		}
	}
	return nil
}

func of(s runtime.Status, name string) supervisor.Status {
	for _, c := range s.Controllers {
		if c.Name == name {
			return c
		}
	}
	return supervisor.Status{Name: name}
}

// edit makes a configuration that in force, and compares what was planned, done and shown.
func (w *world) edit(t *testing.T, cfg *plan.Config) plan.Plan {
	t.Helper()
	before := w.runtime.Status()
	want := plan.New(w.inForce, cfg, subjects)
	w.inForce = cfg
	w.edits++
	w.write(t, cfg)
	var after runtime.Status
	g := goalOf(t, cfg)
	w.wait(t, "the edit is carried out", func() error {
		after = w.runtime.Status()
		return g.reached(after)
	})
	if after.Configuration.Generation == before.Configuration.Generation {
		t.Fatalf("no reload: the edit is none")
	}
	reload := after.Reloads[len(after.Reloads)-1]
	if reload.Status != telemetry.Success || reload.Plan.String() != want.String() {
		t.Errorf("%s %s, planned:\n%swhat check-config prints:\n%s", reload.Status, reload.Error, reload.Plan, want)
	}
	for _, d := range reload.Deviations {
		if d.Because == "" {
			t.Errorf("%s: planned %s, done %s", d.Subject, d.Planned, d.Done)
		}
	}
	sameAsDone(t, want, before, after)
	return want
}

// sameAsDone compares a plan with what has become of the process.
func sameAsDone(t *testing.T, p plan.Plan, before, after runtime.Status) {
	t.Helper()
	for _, is := range after.Controllers {
		was := of(before, is.Name)
		did := plan.Keep
		switch ran, runs := was.State == supervisor.Running, is.State == supervisor.Running; {
		case was.State == supervisor.Paused && is.State == supervisor.Paused:
		case is.State == supervisor.Paused:
			did = plan.Pause
		case was.State == supervisor.Paused && runs:
			did = plan.Resume
		case was.State == supervisor.Paused, ran && !runs:
			did = plan.Stop
		case !ran && runs:
			did = plan.Start
		case !ran:
			did = plan.Off
		case is.Generation != was.Generation:
			did = plan.Restart
		}
		started := map[plan.Action]uint64{plan.Start: 1, plan.Resume: 1, plan.Restart: 1}[did]
		if planned := p.Controller(is.Name); planned != did || is.Generation != was.Generation+started {
			t.Errorf("%s: planned %s, done %s; instance %d, before %d", is.Name, planned, did, is.Generation, was.Generation)
		}
	}
	if reconnected := after.Connection.Generation != before.Connection.Generation; reconnected != p.Reconnects() {
		t.Errorf("another connection: planned %t, done %t", p.Reconnects(), reconnected)
	}
	planned := map[string]plan.Action{}
	for _, l := range p.Leases {
		planned[l.Lock] = l.Action
	}
	terms := leases(before)
	for lock, term := range leases(after) {
		was, had := terms[lock]
		delete(terms, lock)
		did := map[bool]plan.Action{true: "", false: plan.Restart}[was == term]
		if !had {
			did = plan.Start
		}
		if planned[lock] != did {
			t.Errorf("lease %s: planned %q, done %q", lock, planned[lock], did)
		}
	}
	for lock := range terms {
		if planned[lock] != plan.Stop {
			t.Errorf("lease %s: planned %q, given back", lock, planned[lock])
		}
	}
}

// leases are the terms of the locks that a lease carries.
func leases(s runtime.Status) map[string]uint64 {
	terms := map[string]uint64{}
	for _, l := range s.Leadership.Leases {
		if l.Election != nil {
			terms[l.Lock] = l.Term
		}
	}
	return terms
}
