package storageversionmigrator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

const (
	succeeded = "Succeeded=True StorageVersionMigrationSucceeded: "
	unhandled = "Failed=True StorageVersionMigrationFailed: migration encountered unhandled error: "
)

// newMigratingWorld has a migration at version 100 and widgets.
func newMigratingWorld(t *testing.T, objects ...string) *world {
	t.Helper()
	w := newWorld(t, newMigration("m", with("Running"), atVersion("100")))
	for _, object := range objects {
		w.listed = append(w.listed, widget(object))
	}
	return w
}

// Pins SVM-9, SVM-63, SVM-58, SVM-35, SVM-37, SVM-40, SVM-50, SVM-51 and SVM-52.
func TestObjectsAreRewritten(t *testing.T) {
	w := newMigratingWorld(t, "ns/c@101", "ns/b@100", "a/z@90", "ns/a@9")
	must.Succeed(t, w.c.migrate(w.Context(), "m"))
	body := func(name, version string) string {
		return fmt.Sprintf(`application/apply-patch+yaml {"apiVersion":"example.com/v2","kind":"Widget","metadata":{"resourceVersion":%q,"uid":"uid-of-%s"}}`, version, name)
	}
	if want := []string{"a/z " + body("z", "90"), "ns/a " + body("a", "9"), "ns/b " + body("b", "100")}; !slices.Equal(w.patches, want) {
		t.Errorf("patches are %q", w.patches)
	}
	w.WantRequests(t, "update storageversionmigrations/status m")
	w.wantShown(t, "m", "at 100", "Running=True", succeeded)
	w.WantEvents(t)
}

// Pins SVM-30 and SVM-42.
func TestWhatIsNotTheMigratorsTurn(t *testing.T) {
	for name, migration := range map[string]*migrationType{
		"gone":       newMigration("another", atVersion("100")),
		"succeeded":  newMigration("m", with("Running", "Succeeded"), atVersion("100")),
		"failed":     newMigration("m", with("Running", "Failed"), atVersion("100")),
		"no version": newMigration("m", with("Running")),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, migration)
			w.listed = []metav1.PartialObjectMetadata{widget("ns/a@1")}
			must.Succeed(t, w.c.migrate(w.Context(), "m"))
			w.WantRequests(t)
			if got := w.patched(); len(got) > 0 || len(w.lists) > 0 {
				t.Errorf("patched %q", got)
			}
		})
	}
	w := newWorld(t, newMigration("m", atVersion("100")))
	must.Succeed(t, w.c.migrate(w.Context(), "m"))
	w.wantShown(t, "m", "at 100", succeeded)
}

// Pins SVM-58.
func TestTheAnswerToAPatch(t *testing.T) {
	group := widgets.GroupResource()
	status := func(code int32, reason metav1.StatusReason) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: string(reason)}}
	}
	for name, test := range map[string]struct {
		answer error
		want   string // the condition; empty if the attempt is repeated
	}{
		"SVM-58: server timeout":              {apierrors.NewServerTimeout(group, "patch", 0), ""},
		"SVM-58: too many requests":           {apierrors.NewTooManyRequests("slow down", 1), ""},
		"SVM-58: service unavailable":         {apierrors.NewServiceUnavailable("later"), ""},
		"SVM-58: a webhook does not answer":   {apierrors.NewInternalError(errors.New("failed calling webhook")), ""},
		"SVM-58: timeout":                     {apierrors.NewTimeoutError("slow", 0), ""},
		"SVM-58, SVM-59: nobody is there":     {errors.New("connection refused"), ""},
		"SVM-58, SVM-59: unknown credentials": {apierrors.NewUnauthorized("expired"), ""},
		"SVM-34c, SVM-36: a webhook refuses":  {apierrors.NewForbidden(group, "a", errors.New("denied the request: no")), unhandled + "widgets.example.com \"a\" is forbidden: denied the request: no"},
		"SVM-34c: a webhook finds nothing":    {status(404, metav1.StatusReasonNotFound), unhandled + "NotFound"},
		"SVM-34c: invalid":                    {status(422, metav1.StatusReasonInvalid), unhandled + "Invalid"},
		"SVM-34c: too large":                  {status(413, metav1.StatusReasonRequestEntityTooLarge), unhandled + "RequestEntityTooLarge"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMigratingWorld(t, "ns/a@1")
			w.answer = func(string) error { return test.answer }
			err := w.c.migrate(w.Context(), "m")
			if test.want == "" {
				if !errors.Is(err, test.answer) {
					t.Errorf("error is %v", err)
				}
				w.wantShown(t, "m", "at 100", "Running=True")
				return
			}
			must.Succeed(t, err)
			w.wantShown(t, "m", "at 100", "Running=True", test.want)
		})
	}
}

// Only an object that has changed needs no rewrite. A webhook may answer with a conflict as well. If that were taken for a
// change, the migration would succeed, and the stored versions of its definition would lose that of the object.
func TestAConflict(t *testing.T) {
	conflict := apierrors.NewConflict(widgets.GroupResource(), "a", errors.New("admission webhook \"locks.example.com\" denied the request: locked"))
	recreated := widget("ns/a@101")
	recreated.UID = "another"
	unchanged := widget("ns/a@1")
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		now    []metav1.PartialObjectMetadata
		failed error // the list
		want   string
	}{
		"SVM-34a: updated":                       {[]metav1.PartialObjectMetadata{widget("ns/a@101")}, nil, succeeded},
		"SVM-34a: deleted":                       {nil, nil, succeeded},
		"SVM-34a: recreated":                     {[]metav1.PartialObjectMetadata{recreated}, nil, succeeded},
		"SVM-34a: another one is as it was":      {[]metav1.PartialObjectMetadata{widget("ns/b@101")}, nil, succeeded},
		"SVM-68: it is as it was":                {[]metav1.PartialObjectMetadata{widget("ns/0@1"), unchanged}, nil, unhandled + conflict.Error()},
		"SVM-68: whether it is, cannot be found": {nil, boom, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMigratingWorld(t, "ns/a@1")
			w.answer = func(string) error {
				w.listed, w.listFailure = test.now, test.failed
				return conflict
			}
			err := w.c.migrate(w.Context(), "m")
			if test.want == "" {
				if !errors.Is(err, boom) {
					t.Errorf("error is %v", err)
				}
				w.wantShown(t, "m", "at 100", "Running=True")
				return
			}
			must.Succeed(t, err)
			w.wantShown(t, "m", "at 100", "Running=True", test.want)
			w.mu.Lock()
			defer w.mu.Unlock()
			if got := w.lists[1]; got != "ns" { // the first one is that of the cache
				t.Errorf("the list is of namespace %q", got)
			}
		})
	}
}

// A webhook can say more than a condition can hold. Pins SVM-36 and SVM-62.
func TestALongMessageIsCut(t *testing.T) {
	w := newMigratingWorld(t, "ns/a@1")
	w.answer = func(string) error {
		return apierrors.NewForbidden(widgets.GroupResource(), "a", errors.New(strings.Repeat("ä", 40<<10)))
	}
	must.Succeed(t, w.c.migrate(w.Context(), "m"))
	if message := conditionOf(controllertest.MustStored[*migrationType](t, w.Env, "", "m"), "Failed").Message; len(message) > 32768 || len(message) < 32760 || !strings.HasSuffix(message, "ä") {
		t.Errorf("the message has %d bytes", len(message))
	}
}

// Pins SVM-58, SVM-57 and SVM-55.
func TestAMigrationGoesOnWhereItWas(t *testing.T) {
	w := newMigratingWorld(t, "ns/a@1", "ns/b@2", "ns/c@3", "ns/d@4")
	refused := "b"
	boom := apierrors.NewServiceUnavailable("later")
	w.answer = func(name string) error {
		if name == refused {
			return boom
		}
		return nil
	}
	attempt := func(name string, want ...string) {
		t.Helper()
		refused = name
		if err := w.c.migrate(w.Context(), "m"); (err == nil) != (name == "") {
			t.Errorf("error is %v", err)
		}
		if got := w.patched(); !slices.Equal(got, want) {
			t.Errorf("patched %q, want %q", got, want)
		}
	}
	attempt("b", "ns/a", "ns/b")
	attempt("c", "ns/b", "ns/c")
	left := w.c.HandOver()
	w.succeed(t, left)
	must.Succeed(t, w.c.begin(w.Context()))
	attempt("", "ns/c", "ns/d")
	must.Succeed(t, w.c.migrate(w.Context(), "m")) // it is over
	if left := w.c.HandOver().positions; len(left) > 0 {
		t.Errorf("remembers %v", left)
	}
}

// Pins SVM-57.
func TestANamesakeBeginsAnew(t *testing.T) {
	p := newProgress()
	first, second := newMigration("m"), newMigration("m")
	second.UID = "another"
	p.reached(first, types.NamespacedName{Namespace: "ns", Name: "a"})
	if at := p.of(second); at != (types.NamespacedName{}) {
		t.Errorf("it is at %s", at)
	}
	w := newWorld(t, second)
	q := newProgress()
	q.takeOver(p.handOver(), w.c.migrations)
	if len(q.all) > 0 {
		t.Errorf("took over %v", q.all)
	}
}

// Pins SVM-31, SVM-57, SVM-58 and SVM-39.
func TestAMigrationThatCannotBegin(t *testing.T) {
	const compare = unhandled + "error comparing "
	for name, test := range map[string]struct {
		change func(*migrationType)
		world  func(*world)
		want   string // the condition; empty if it is retried
	}{
		"SVM-31: not served":                {of("example.com", "gadgets"), nil, ""},
		"SVM-57: the cache has no version":  {nil, func(w *world) { w.listedAt = "" }, compare},
		"SVM-57: the cache has another one": {nil, func(w *world) { w.listedAt = "abc" }, compare},
		"SVM-58: an object has another one": {nil, func(w *world) { w.listed = []metav1.PartialObjectMetadata{widget("ns/a@abc")} }, compare},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMigration("m", with("Running"), atVersion("100"))
			if test.change != nil {
				test.change(m)
			}
			w := newWorld(t, m)
			if test.world != nil {
				test.world(w)
			}
			err := w.c.migrate(w.Context(), "m")
			if test.want == "" {
				if !reconcile.IsExpected(err) {
					t.Errorf("error is %v", err)
				}
				w.WantRequests(t)
				return
			}
			must.Succeed(t, err)
			if got := w.shown(t, "m"); len(got) != 3 || !strings.HasPrefix(got[2], test.want) {
				t.Errorf("it is %q", got)
			}
		})
	}
}

// An API server that has just started does not know custom resources. Pins SVM-64.
func TestAResourceThatIsNotServedForAWhile(t *testing.T) {
	noMatch, boom := &meta.NoResourceMatchError{PartialResource: widgets}, errors.New("boom")
	type step struct {
		after                time.Duration
		resourceErr, kindErr error
		want                 string // the condition; empty if it is retried
	}
	const failed = unhandled + "unable to obtain GVR from discovery"
	for name, steps := range map[string][]step{
		"SVM-31: for a moment":                    {{0, noMatch, nil, ""}, {time.Hour, nil, nil, succeeded}},
		"SVM-31: for less than a minute":          {{0, noMatch, nil, ""}, {time.Minute - 1, noMatch, nil, ""}, {1, noMatch, nil, failed}},
		"its kind, for a moment":                  {{0, nil, noMatch, ""}, {time.Second, nil, nil, succeeded}},
		"its kind, for a minute":                  {{0, nil, noMatch, ""}, {time.Minute, nil, noMatch, failed}},
		"first the kind, then the resource":       {{0, nil, noMatch, ""}, {time.Minute, noMatch, nil, failed}},
		"SVM-31: nobody could be asked meanwhile": {{0, noMatch, nil, ""}, {time.Second, boom, nil, ""}, {time.Hour, noMatch, nil, ""}, {time.Minute, noMatch, nil, failed}},
		"its kind could not be asked for":         {{0, nil, boom, ""}, {time.Hour, nil, boom, ""}, {time.Hour, nil, nil, succeeded}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newMigration("m", with("Running"), atVersion("100"), created(time.Hour)))
			for i, step := range steps {
				w.Clock.Step(step.after)
				w.mapper.resourceErr, w.mapper.kindErr = step.resourceErr, step.kindErr
				err := w.c.migrate(w.Context(), "m")
				if step.want == "" {
					w.wantShown(t, "m", "at 100", "Running=True")
					failure := errors.Is(err, boom)
					if wantFailure := errors.Is(errors.Join(step.resourceErr, step.kindErr), boom); failure != wantFailure || reconcile.IsExpected(err) == wantFailure {
						t.Errorf("error %d is %v", i, err)
					}
					continue
				}
				must.Succeed(t, err)
				w.wantShown(t, "m", "at 100", "Running=True", step.want)
			}
			if left := w.c.absences.all; len(left) > 0 {
				t.Errorf("remembers %v", left)
			}
		})
	}
}

// An aggregated API server that is down says nothing about its resources.
func TestAResourceWhoseGroupCannotBeAskedFor(t *testing.T) {
	for name, begins := range map[string]*migrationType{
		"SVM-69: before the version is known":  newMigration("m", with("Running"), created(time.Hour)),
		"SVM-69: before objects are rewritten": newMigration("m", with("Running"), atVersion("100"), created(time.Hour)),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, begins)
			unasked := errors.New("could not be asked")
			w.mapper.resourceErr = unasked
			was := w.shown(t, "m")
			for range 2 {
				if err := errors.Join(w.c.determineVersion(w.Context(), "m"), w.c.migrate(w.Context(), "m")); !errors.Is(err, unasked) {
					t.Errorf("error is %v", err)
				}
				w.Clock.Step(time.Hour)
			}
			w.wantShown(t, "m", was...)
			w.mapper.resourceErr = &meta.NoResourceMatchError{PartialResource: widgets}
			_ = errors.Join(w.c.determineVersion(w.Context(), "m"), w.c.migrate(w.Context(), "m"))
			w.wantShown(t, "m", was...) // the minute begins
		})
	}
}

// Pins SVM-64.
func TestANamesakeIsNotAbsent(t *testing.T) {
	a, first, second := newAbsences(), newMigration("m"), newMigration("m")
	second.UID = "another"
	later := controllertest.Epoch.Add(time.Hour)
	if at := a.since(first, controllertest.Epoch); !at.Equal(controllertest.Epoch) {
		t.Errorf("since %s", at)
	}
	if at := a.since(second, later); !at.Equal(later) {
		t.Errorf("since %s", at)
	}
}

// Pins SVM-58.
func TestAnAttemptThatWaitsEndsWithTheController(t *testing.T) {
	w := newWorld(t, newMigration("m", with("Running"), atVersion("100"), created(time.Hour)))
	w.listFailure = errors.New("boom")
	_, _, err := w.c.caches.acquire(w.Context(), "m", widgets)
	must.Succeed(t, err)
	w.Clock.Step(time.Hour)
	ended := make(chan error, 1)
	go func() { ended <- w.c.migrate(w.Context(), "m") }()
	controllertest.Eventually(t, "it waits", w.Clock.HasWaiters)
	close(w.c.stopped)
	must.Succeed(t, <-ended)
	w.WantRequests(t)
	w.wantShown(t, "m", "at 100", "Running=True")
}

// Pins SVM-29 and SVM-35.
func TestTheResultIsWrittenAgainIfThatFails(t *testing.T) {
	w := newMigratingWorld(t, "ns/a@1")
	allow := w.Refuse("update storageversionmigrations/status", errors.New("boom"))
	if err := w.c.migrate(w.Context(), "m"); err == nil {
		t.Error("no error")
	}
	allow()
	must.Succeed(t, w.c.migrate(w.Context(), "m"))
	w.wantShown(t, "m", "at 100", "Running=True", succeeded)
	if got := w.patched(); len(got) != 1 {
		t.Errorf("patched %q", got)
	}
}

// Pins SVM-65.
func TestNoObjectIsRewrittenOnceTheMigrationIsOver(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *world){
		"gone": func(t *testing.T, w *world) {
			w.Remove(t, newMigration("m"))
			controllertest.Eventually(t, "it is gone", func() bool { _, err := w.c.migrations.Get("m"); return apierrors.IsNotFound(err) })
		},
		"a namesake": func(t *testing.T, w *world) {
			w.Remove(t, newMigration("m"))
			w.Store(t, newMigration("m", func(m *migrationType) { m.UID = "another" }))
			controllertest.Eventually(t, "there is another", func() bool { m, err := w.c.migrations.Get("m"); return err == nil && m.UID == "another" })
		},
		"failed": func(t *testing.T, w *world) {
			w.Store(t, newMigration("m", with("Running", "Failed"), atVersion("100")))
			controllertest.Eventually(t, "it has failed", func() bool { m, err := w.c.migrations.Get("m"); return err == nil && isOver(m) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMigratingWorld(t, "ns/a@1", "ns/b@2")
			w.answer = func(string) error { end(t, w); return nil }
			must.Succeed(t, w.c.migrate(w.Context(), "m"))
			w.WantRequests(t)
			if got := w.patched(); !slices.Equal(got, []string{"ns/a"}) {
				t.Errorf("patched %q", got)
			}
			if held, left := len(w.c.caches.byResource), w.c.HandOver().positions; held > 0 || len(left) > 0 {
				t.Errorf("%d caches are held, left %v", held, left)
			}
		})
	}
}
