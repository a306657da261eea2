package storageversionmigrator

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins SVM-57, SVM-47 and SVM-49.
func TestTheCacheHasToBeNewEnough(t *testing.T) {
	w := newMigratingWorld(t, "ns/a@1")
	w.listedAt = "99"
	must.Succeed(t, w.c.migrate(w.Context(), "m"))
	w.WantRequests(t)
	if got := w.patched(); len(got) > 0 {
		t.Errorf("patched %q", got)
	}
	must.Get(w.Informers.AnyFor(widgets))(t).Informer().GetStore().Bookmark("100")
	w.listedAt = "100"
	must.Succeed(t, w.c.migrate(w.Context(), "m"))
	w.wantShown(t, "m", "at 100", "Running=True", succeeded)
}

// Pins SVM-57 and SVM-39.
func TestACacheThatCannotBeCompleted(t *testing.T) {
	w := newMigratingWorld(t, "ns/a@1")
	w.listFailure = errors.New("boom")
	attempt := func() error {
		ended := make(chan error, 1)
		go func() { ended <- w.c.migrate(w.Context(), "m") }()
		controllertest.Eventually(t, "it waits", w.Clock.HasWaiters)
		w.Clock.Step(10*time.Second - 1)
		select {
		case err := <-ended:
			t.Fatalf("it does not wait: %v", err)
		default:
		}
		w.Clock.Step(1)
		return <-ended
	}
	if err := attempt(); !reconcile.IsExpected(err) {
		t.Errorf("error is %v", err)
	}
	w.Clock.Step(time.Minute)
	must.Succeed(t, attempt())
	w.wantShown(t, "m", "at 100", "Running=True", unhandled+"resource does not exist in GC: its cache cannot be completed")
}

// Pins SVM-57.
func TestNoCacheIsHeldOnceAMigrationIsOver(t *testing.T) {
	held := func(t *testing.T, w *world, want int) {
		t.Helper()
		if got := len(w.c.caches.byResource); got != want {
			t.Errorf("%d caches are held, want %d", got, want)
		}
	}
	for name, answer := range map[string]error{"succeeded": nil, "failed": apierrors.NewForbidden(widgets.GroupResource(), "a", errors.New("no"))} {
		t.Run(name, func(t *testing.T) {
			w := newMigratingWorld(t, "ns/a@1")
			w.answer = func(string) error { return answer }
			must.Succeed(t, w.c.migrate(w.Context(), "m"))
			held(t, w, 0)
		})
	}
	t.Run("a namesake has no version", func(t *testing.T) {
		w := newWorld(t, newMigration("m", with("Running")))
		_, _, err := w.c.caches.acquire(w.Context(), "m", widgets)
		must.Succeed(t, err)
		held(t, w, 1)
		must.Succeed(t, w.c.migrate(w.Context(), "m"))
		held(t, w, 0)
	})
}

// Pins SVM-57.
func TestACacheIsHeldUntilTheMigrationIsOver(t *testing.T) {
	w := newMigratingWorld(t, "ns/a@1")
	w.listedAt = "99"
	held := func(want int) {
		t.Helper()
		if got := len(w.c.caches.byResource); got != want {
			t.Errorf("%d caches are held, want %d", got, want)
		}
	}
	must.Succeed(t, w.c.migrate(w.Context(), "m"))
	held(1)
	first, _, err := w.c.caches.acquire(w.Context(), "another", widgets)
	must.Succeed(t, err)
	w.c.caches.release("another")
	held(1)
	second, _, err := w.c.caches.acquire(w.Context(), "m", widgets)
	must.Succeed(t, err)
	if first != second {
		t.Error("two migrations have two caches")
	}
	w.Remove(t, newMigration("m"))
	controllertest.Eventually(t, "the cache shows that it is gone", func() bool { _, err := w.c.migrations.Get("m"); return err != nil })
	must.Succeed(t, w.c.migrate(w.Context(), "m"))
	held(0)

	// Migrations can be migrated. Their informer stays.
	own, _, err := w.c.caches.acquire(w.Context(), "m", migrationResource)
	must.Succeed(t, err)
	w.c.caches.release("m")
	again := must.Get(w.Informers.AnyFor(migrationResource))(t).Informer()
	if own != again {
		t.Error("the informer of migrations was released")
	}
}
