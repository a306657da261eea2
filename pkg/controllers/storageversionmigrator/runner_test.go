package storageversionmigrator

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/customresources"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins SVM-18 and SVM-19.
func TestChoose(t *testing.T) {
	for name, test := range map[string]struct {
		all  []*migrationType
		over []string
		next string
	}{
		"none":                              {},
		"the oldest":                        {all: []*migrationType{newMigration("a"), newMigration("b", created(time.Second))}, next: "b"},
		"of the same age, by name":          {all: []*migrationType{newMigration("b"), newMigration("a")}, next: "a"},
		"another one is running":            {all: []*migrationType{newMigration("a"), newMigration("b", with("Running"))}},
		"SVM-19a: another one is over":      {all: []*migrationType{newMigration("a"), newMigration("b", with("Running", "Succeeded"))}, over: []string{"b"}, next: "a"},
		"SVM-19a: one has failed":           {all: []*migrationType{newMigration("b", with("Running", "Failed"))}, over: []string{"b"}},
		"SVM-19a: one is over, one runs":    {all: []*migrationType{newMigration("a", with("Running")), newMigration("b", with("Running", "Failed")), newMigration("c")}, over: []string{"b"}},
		"SVM-19a: over, without having run": {all: []*migrationType{newMigration("a", with("Failed"))}},
		"ended":                             {all: []*migrationType{newMigration("a", with("Running=False", "Succeeded"))}},
		"SVM-61: taken back by hand":        {all: []*migrationType{newMigration("a", with("Running=False")), newMigration("b")}, next: "b"},
		"unknown is not set":                {all: []*migrationType{newMigration("a", with("Running=Unknown"))}, next: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			over, next := choose(test.all)
			if got := controllertest.Names(over); !slices.Equal(got, test.over) {
				t.Errorf("over are %q", got)
			}
			if next == nil && test.next != "" || next != nil && next.Name != test.next {
				t.Errorf("next is %v", next)
			}
		})
	}
}

const (
	runs      = "Running=True MigrationRunning: The migration is running"
	completed = "Running=False MigrationCompleted: Migration completed"
	isStarted = "StorageMigrating=True MigrationRunning: Migration m is running (3)"
)

// Pins SVM-9, SVM-60, SVM-37 and SVM-46.
func TestAMigrationIsStarted(t *testing.T) {
	w := newWorld(t, newMigration("m", of("", "secrets")), newMigration("n", of("", "secrets")))
	must.Succeed(t, w.c.runNext(w.Context(), secrets.GroupResource()))
	w.wantShown(t, "m", runs)
	w.wantShown(t, "n")
	w.WantRequests(t, "update storageversionmigrations/status m")
	w.WantEvents(t)
}

// What the cache does not show yet counts. Pins SVM-19.
func TestOneMigrationOfAResourceRuns(t *testing.T) {
	w := newWorld(t, newMigration("m"))
	must.Succeed(t, w.c.runNext(w.Context(), widgets.GroupResource()))
	w.Store(t, newMigration("a"))
	controllertest.Eventually(t, "the cache has another one", func() bool {
		_, err := w.c.migrations.Get("a")
		return err == nil
	})
	must.Succeed(t, w.c.runNext(w.Context(), widgets.GroupResource()))
	w.WantRequests(t, "update storageversionmigrations/status m")
}

// A migration is replaced by one of another resource while the watch is interrupted: the next migration of its own
// resource does not wait for it. Pins SVM-71.
func TestBothResourcesOfAnUpdateAreLookedAt(t *testing.T) {
	w := newWorld(t)
	migrations := &controllertest.Captured{}
	w.c.watch(migrations)
	migrations.Handler.OnUpdate(newMigration("m"), newMigration("m", of("", "secrets"), func(m *migrationType) { m.UID = "successor" }))
	var queued []string
	for _, key := range w.c.runner.Keys(func(string) bool { return true }) {
		queued = append(queued, key.Key)
	}
	if want := []string{"secrets", "widgets.example.com"}; !slices.Equal(queued, want) {
		t.Errorf("queued are %q, want %q", queued, want)
	}
}

// Pins SVM-63, SVM-11, SVM-20, SVM-60, SVM-22, SVM-38 and SVM-45.
func TestADefinitionShowsItsMigration(t *testing.T) {
	w := newWorld(t, newMigration("m"))
	w.define(t, newDefinition("v1", "v2"))
	must.Succeed(t, w.c.runNext(w.Context(), widgets.GroupResource()))
	w.wantShown(t, "m", runs)
	if got := w.defined(t); !slices.Equal(got, []string{"stored v1 v2", isStarted}) {
		t.Errorf("definition has %q", got)
	}

	running := must.Get(w.Client.StoragemigrationV1beta1().StorageVersionMigrations().Get(t.Context(), "m", metav1.GetOptions{}))(t)
	with("Succeeded")(running)
	w.Store(t, running)
	controllertest.Eventually(t, "the cache has it", func() bool {
		m, err := w.c.migrations.Get("m")
		return err == nil && isOver(m)
	})
	w.Requests()
	w.Clock.Step(time.Minute)
	must.Succeed(t, w.c.runNext(w.Context(), widgets.GroupResource()))
	w.WantRequests(t, "update storageversionmigrations/status m")
	w.wantShown(t, "m", completed, "Succeeded=True")
	if c := conditionOf(controllertest.MustStored[*migrationType](t, w.Env, "", "m"), "Running"); c.ObservedGeneration != 1 || !c.LastTransitionTime.Time.Equal(w.Clock.Now()) {
		t.Errorf("condition is %+v", c)
	}
	want := []string{"stored v2", "StorageMigrating=False MigrationSucceeded: The migration has succeeded and the stored versions have been updated (3)"}
	if got := w.defined(t); !slices.Equal(got, want) {
		t.Errorf("definition has %q", got)
	}
}

// The controller is restarted while the cache shows neither the end of one migration nor the start of the next. To end
// the first one again would be to end the second one in the definition. Pins SVM-70.
func TestASuccessorKnowsWhatTheCacheDoesNotShow(t *testing.T) {
	first, second := newMigration("first", with("Running", "Succeeded"), created(time.Hour)), newMigration("m")
	w := newWorld(t, first, second)
	d := newDefinition("v1", "v2")
	d.Status.Conditions = []metav1.Condition{{
		Type: storageMigrating, Status: metav1.ConditionTrue, ObservedGeneration: 2,
		Reason: "MigrationRunning", Message: "Migration first is running",
	}}
	w.define(t, d)
	must.Succeed(t, w.c.runNext(w.Context(), widgets.GroupResource()))
	left := w.c.HandOver()
	want := []string{"stored v1 v2", isStarted}
	if got := w.defined(t); !slices.Equal(got, want) {
		t.Fatalf("definition has %q, want %q", got, want)
	}

	w.Succeed(left)
	next := must.Get(newController(w.Env.Env, config{rate: 1000}))(t)
	controllertest.Eventually(t, "the cache has seen everything", func() bool {
		m, err := next.migrations.Get("m")
		return err == nil && is(m, migrationv1beta1.MigrationRunning)
	})
	w.EmptyCache(t, first, "1")
	w.Cache(t, first, second)
	must.Succeed(t, next.begin(w.Context()))
	w.Requests()
	must.Succeed(t, next.runNext(w.Context(), widgets.GroupResource()))
	w.WantRequests(t)
	if got := w.defined(t); !slices.Equal(got, want) {
		t.Errorf("definition has %q, want %q", got, want)
	}
}

// Pins SVM-22.
func TestTheEndOfAMigrationInItsDefinition(t *testing.T) {
	started := metav1.Condition{Type: storageMigrating, Status: metav1.ConditionTrue, Reason: "MigrationRunning", Message: "Migration m is running", ObservedGeneration: 3}
	changed, done, another := started, started, started
	another.Message = "Migration n is running"
	changed.ObservedGeneration = 2
	done.Status, done.Reason = metav1.ConditionFalse, "MigrationSucceeded"
	const mismatch = "The migration has succeeded but the stored versions have not been updated due to a generation mismatch"
	for name, test := range map[string]struct {
		now       []metav1.Condition
		succeeded bool
		want      []string // nil: nothing
	}{
		"SVM-22a: success":                                {[]metav1.Condition{started}, true, []string{"MigrationSucceeded", "The migration has succeeded and the stored versions have been updated", "v2"}},
		"SVM-22a, SVM-45: its spec has changed":           {[]metav1.Condition{changed}, true, []string{"MigrationSucceeded", mismatch, "v1", "v2"}},
		"SVM-6, SVM-22a: no condition":                    {nil, true, []string{"MigrationSucceeded", mismatch, "v1", "v2"}},
		"SVM-22b, SVM-60: failure":                        {[]metav1.Condition{started}, false, []string{"MigrationFailed", "The migration has failed", "v1", "v2"}},
		"SVM-60: the decision is not made again, success": {[]metav1.Condition{done}, true, nil},
		"SVM-60: the decision is not made again, failure": {[]metav1.Condition{done}, false, nil},
		"SVM-73: another one was started, success":        {[]metav1.Condition{another}, true, nil},
		"SVM-73: another one was started, failure":        {[]metav1.Condition{another}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDefinition("v1", "v2")
			d.Status.Conditions = test.now
			over := newMigration("m", with("Running", "Failed"))
			if test.succeeded {
				over = newMigration("m", with("Running", "Succeeded"))
			}
			got := endOf(over)(d)
			if got == nil || test.want == nil {
				if got != nil || test.want != nil {
					t.Errorf("got %+v", got)
				}
				return
			}
			if is := append([]string{got.reason, got.message}, got.storedVersions...); !slices.Equal(is, test.want) || got.status != metav1.ConditionFalse {
				t.Errorf("got %q, %s", is, got.status)
			}
		})
	}
}

// Pins SVM-60 and SVM-39.
func TestAConflictInADefinitionIsRetriedWithAFreshCopy(t *testing.T) {
	for name, test := range map[string]struct{ conflicts, gets int }{"four": {4, 5}, "five": {5, 5}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newMigration("m"))
			w.define(t, newDefinition("v1"))
			client, gets, patches := w.Dynamic.(*dynamicfake.FakeDynamicClient), 0, 0
			client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if action.GetVerb() == "get" {
					gets++
					return false, nil, nil
				}
				patches++
				return patches <= test.conflicts, nil, apierrors.NewConflict(customresources.Definitions.GroupResource(), "", errors.New("changed"))
			})
			err := w.c.runNext(w.Context(), widgets.GroupResource())
			if failed := test.conflicts > 4; (err != nil) != failed || gets != test.gets {
				t.Errorf("%d reads, error %v", gets, err)
			}
		})
	}
}

// Pins SVM-20 and SVM-60.
func TestAMigrationIsNotWrittenBeforeItsDefinition(t *testing.T) {
	for name, migration := range map[string]*migrationType{"start": newMigration("m"), "end": newMigration("m", with("Running", "Failed"))} {
		t.Run(name, func(t *testing.T) {
			// The libraries take a timeout for the end of their own wait.
			for _, failure := range []error{errors.New("boom"), &url.Error{Op: "Get", URL: "https://server", Err: context.DeadlineExceeded}} {
				for _, verb := range []string{"get", "patch"} {
					w := newWorld(t, migration, newMigration("n"))
					w.define(t, newDefinition("v1"))
					w.Dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor(verb, "*", func(clienttesting.Action) (bool, runtime.Object, error) {
						return true, nil, failure
					})
					if err := w.c.runNext(w.Context(), widgets.GroupResource()); !errors.Is(err, failure) {
						t.Errorf("%s: error is %v, want %v", verb, err, failure)
					}
					w.WantRequests(t)
				}
			}
		})
	}
}

// What a proxy says does not mean that the resource is no custom one, or its definition would show no end of the
// migration. Pins SVM-67.
func TestThePageOfAProxyIsNotTheAbsenceOfADefinition(t *testing.T) {
	page := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", customresources.Definitions.GroupResource(), "widgets.example.com", "404 page not found", 0, true)
	absent := apierrors.NewNotFound(customresources.Definitions.GroupResource(), "widgets.example.com")
	for name, migration := range map[string]*migrationType{"start": newMigration("m"), "end": newMigration("m", with("Running", "Succeeded"))} {
		for said, answer := range map[string]*apierrors.StatusError{"a page": page, "a Status": absent} {
			t.Run(name+": "+said, func(t *testing.T) {
				w := newWorld(t, migration)
				w.Dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, answer })
				err := w.c.runNext(w.Context(), widgets.GroupResource())
				if answer == absent {
					must.Succeed(t, err)
					w.WantRequests(t, "update storageversionmigrations/status m")
					return
				}
				if !errors.Is(err, answer) {
					t.Errorf("error is %v", err)
				}
				w.WantRequests(t)
			})
		}
	}
}

// Pins SVM-61 and SVM-57.
func TestAConflictInAMigrationIsRetried(t *testing.T) {
	w := newWorld(t, newMigration("m"))
	w.Refuse("update storageversionmigrations/status", apierrors.NewConflict(migrationResource.GroupResource(), "m", errors.New("changed")))
	if err := w.c.runNext(w.Context(), widgets.GroupResource()); !reconcile.IsExpected(err) {
		t.Errorf("error is %v", err)
	}
}
