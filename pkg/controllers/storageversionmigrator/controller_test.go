package storageversionmigrator

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
)

// Pins SVM-5, SVM-57, SVM-16, SVM-37 and SVM-63.
func TestAMigrationFromStartToEnd(t *testing.T) {
	w := newWorld(t, newMigration("m"), newMigration("n", created(-time.Second)))
	w.define(t, newDefinition("v1", "v2"))
	w.listed = append(w.listed, widget("ns/a@1"), widget("ns/b@2"))
	w.Run(t, w.c)
	for _, name := range []string{"m", "n"} {
		w.EventuallyAsTimePasses(t, name+" has ended", time.Second, func() bool {
			return slices.Equal(w.shown(t, name), []string{completed, succeeded}) || slices.Equal(w.shown(t, name), []string{"at 100", completed, succeeded})
		})
	}
	if got := w.defined(t); got[0] != "stored v2" {
		t.Errorf("the definition has %q", got)
	}
	if got := w.patched(); !slices.Equal(got, []string{"ns/a", "ns/b", "ns/a", "ns/b"}) {
		t.Errorf("patched %q", got)
	}
	want := []string{"name=migration-runner-controller 0", "name=resource-version-controller 0", "name=storage-version-migrator-controller 0"}
	// The event of the last write may still be on its way.
	controllertest.Eventually(t, "the queues are empty", func() bool { return slices.Equal(w.Series(t, "workqueue_depth"), want) })
}

// Pins SVM-57.
func TestNoObjectIsRewrittenOnceTheControllerIsToStop(t *testing.T) {
	w := newMigratingWorld(t)
	for i := range 50 {
		w.listed = append(w.listed, widget(fmt.Sprintf("ns/%02d@1", i)))
	}
	ctx, cancel := context.WithCancel(w.Context())
	w.answer = func(string) error { cancel(); <-w.c.stopped; return nil }
	if err := w.c.Run(ctx); err != nil {
		t.Error(err)
	}
	if got := w.patched(); len(got) != 1 {
		t.Errorf("patched %q", got)
	}
	w.wantShown(t, "m", "at 100", "Running=True")
	if left := w.c.HandOver(); left.positions["m"].last.Name != "00" {
		t.Errorf("left %v", left)
	}
}

// Pins SVM-56.
func TestThePaceIsLimited(t *testing.T) {
	clock := clocktesting.NewFakeClock(controllertest.Epoch)
	stopped := make(chan struct{})
	p := newPace(2, clock, stopped)
	for range 2 {
		if !p.wait(t.Context()) {
			t.Fatal("stopped")
		}
	}
	passed := make(chan bool, 1)
	wait := func() { passed <- p.wait(t.Context()) }
	go wait()
	controllertest.Eventually(t, "the third waits", clock.HasWaiters)
	clock.Step(499 * time.Millisecond)
	select {
	case <-passed:
		t.Fatal("three within half a second")
	default:
	}
	clock.Step(time.Millisecond)
	if !<-passed {
		t.Error("stopped")
	}
	go wait()
	controllertest.Eventually(t, "the fourth waits", clock.HasWaiters)
	close(stopped)
	if <-passed || p.wait(t.Context()) {
		t.Error("does not stop")
	}

	unlimited := newPace(0, clock, nil)
	for range 10000 {
		if !unlimited.wait(t.Context()) {
			t.Fatal("stopped")
		}
	}
}

// Pins SVM-17.
func TestAFailureWaitsAsLongAsTheAPIServerAsks(t *testing.T) {
	w := newMigratingWorld(t, "ns/a@1")
	w.answer = func(string) error { return apierrors.NewTooManyRequests("slow down", 7) }
	if err := w.c.migrate(w.Context(), "m"); err == nil {
		t.Error("no error")
	}
	for i, want := range []time.Duration{7 * time.Second, 10 * time.Millisecond, 20 * time.Millisecond} {
		if got := w.c.hints.When("m"); got != want {
			t.Errorf("delay %d is %v, want %v", i, got, want)
		}
	}
	if got := w.c.hints.NumRequeues("m"); got != 3 {
		t.Errorf("%d failures", got)
	}
	w.c.hints.expect("m", time.Millisecond)
	if got := w.c.hints.When("m"); got != 40*time.Millisecond {
		t.Errorf("the backoff is longer, but the delay %v", got)
	}
}

// Pins SVM-1, SVM-2, SVM-4, SVM-7 and SVM-56.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if enabled, why := d.Enabled(cfg); enabled || why != "needs the feature gate StorageVersionMigrator" {
		t.Errorf("enabled %v: %s", enabled, why)
	}
	cfg.FeatureGates = map[string]bool{"StorageVersionMigrator": true}
	if enabled, why := d.Enabled(cfg); !enabled {
		t.Error(why)
	}
	if got := d.Value(cfg); got != (config{rate: 400}) {
		t.Errorf("value is %+v", got)
	}
	if d.Name != "storage-version-migrator-controller" || !slices.Equal(d.Aliases, []string{"svm"}) || d.EventSource != "" ||
		d.ServiceAccount != "storage-version-migrator-controller" || d.Limits.QPS != 20 || d.Limits.Burst != 100 ||
		d.Requires[0].String() != "storagemigration.k8s.io/v1beta1, Resource=storageversionmigrations" {
		t.Errorf("%+v", d)
	}
}
