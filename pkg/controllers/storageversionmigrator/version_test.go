package storageversionmigrator

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/must"
)

// Pins SVM-9, SVM-12, SVM-63, SVM-29 and SVM-58.
func TestDetermineVersion(t *testing.T) {
	const failed = "Failed=True StorageVersionMigrationFailed: "
	const update = "update storageversionmigrations/status m"
	const discovery = "get resource"
	absent := func(w *world) {
		if err := w.c.determineVersion(w.Context(), "m"); !reconcile.IsExpected(err) {
			t.Errorf("error is %v", err)
		}
		w.Clock.Step(time.Minute)
	}
	verbs := func(verbs ...string) func(*world) {
		return func(w *world) { w.Fake.Resources[0].APIResources[0].Verbs = verbs }
	}
	lacks := failed + `resource "example.com/v2, Resource=widgets" does not support discovery operations: [update patch list]`
	for name, test := range map[string]struct {
		migration *migrationType
		world     func(*world)
		requests  []string
		err       string
		want      []string
		lists     []string
	}{
		"SVM-23: not running": {newMigration("m"), nil, nil, "", nil, nil},
		"SVM-23: over":        {newMigration("m", with("Running", "Failed")), nil, nil, "", []string{"Running=True", "Failed=True"}, nil},
		"SVM-23: determined":  {newMigration("m", with("Running"), atVersion("7")), nil, nil, "", []string{"at 7", "Running=True"}, nil},
		"SVM-26, SVM-28, SVM-55: one of two resources": {newMigration("m", with("Running")), nil, []string{discovery, update}, "", []string{"at 100", "Running=True"}, []string{"@fake:svm_ns!"}},
		"SVM-26: in no namespace": {newMigration("m", with("Running")), func(w *world) { w.Fake.Resources[0].APIResources[0].Namespaced = false },
			[]string{discovery, update}, "", []string{"at 100", "Running=True"}, []string{""}},
		"SVM-24, SVM-64: not served": {newMigration("m", with("Running"), of("example.com", "gadgets"), created(time.Hour)), nil, nil, "does not serve", []string{"Running=True"}, nil},
		"SVM-24, SVM-64: not served for almost a minute": {newMigration("m", with("Running"), of("example.com", "gadgets"), created(time.Hour)),
			func(w *world) { absent(w); w.Clock.SetTime(w.Clock.Now().Add(-1)) }, nil, "does not serve", []string{"Running=True"}, nil},
		"SVM-24, SVM-64: not served for a minute": {newMigration("m", with("Running"), of("example.com", "gadgets")), absent, []string{update}, "",
			[]string{"Running=True", failed + "resource does not exist in discovery"}, nil},
		"SVM-24: another group": {newMigration("m", with("Running"), of("", "widgets")), absent, []string{update}, "",
			[]string{"Running=True", failed + "resource does not exist in discovery"}, nil},
		"SVM-66: no such version": {newMigration("m", with("Running")), func(w *world) { w.Fake.Resources = nil },
			[]string{discovery}, "does not serve", []string{"Running=True"}, nil},
		"SVM-66: no such version for a moment": {newMigration("m", with("Running")), func(w *world) {
			served := w.Fake.Resources
			w.Fake.Resources = nil
			absent(w)
			w.Fake.Resources = served
		}, []string{discovery, discovery, update}, "", []string{"at 100", "Running=True"}, []string{"@fake:svm_ns!"}},
		"SVM-66: no such version for a minute": {newMigration("m", with("Running")), func(w *world) { w.Fake.Resources = nil; absent(w) },
			[]string{discovery, discovery, update}, "", []string{"Running=True", failed + "resource does not exist in discovery"}, nil},
		"SVM-25: no update": {newMigration("m", with("Running")), verbs("patch", "list"), []string{discovery, update}, "", []string{"Running=True", lacks}, nil},
		"SVM-25: no patch":  {newMigration("m", with("Running")), verbs("update", "list"), []string{discovery, update}, "", []string{"Running=True", lacks}, nil},
		"SVM-25: no list":   {newMigration("m", with("Running")), verbs("update", "patch"), []string{discovery, update}, "", []string{"Running=True", lacks}, nil},
		"SVM-25: not in the document": {newMigration("m", with("Running")), func(w *world) { w.Fake.Resources[0].APIResources[0].Name = "gadgets" },
			[]string{discovery}, `resource "example.com/v2, Resource=widgets" not found in discovery`, []string{"Running=True"}, nil},
		"SVM-26: the list fails": {newMigration("m", with("Running")), func(w *world) { w.listFailure = errors.New("boom") },
			[]string{discovery}, "error getting latest resourceVersion for example.com/v2, Resource=widgets: boom", []string{"Running=True"}, []string{"@fake:svm_ns!"}},
		"SVM-27: not a number": {newMigration("m", with("Running")), func(w *world) { w.listedAt = "abcde" }, []string{discovery, update}, "",
			[]string{"Running=True", failed + "latest resourceVersion for example.com/v2, Resource=widgets is not valid: "}, []string{"@fake:svm_ns!"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.migration)
			if test.world != nil {
				test.world(w)
			}
			err := w.c.determineVersion(w.Context(), "m")
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error is %v", err)
			}
			w.WantRequests(t, test.requests...)
			got := w.shown(t, "m")
			if !slices.EqualFunc(got, test.want, func(is, want string) bool {
				return is == want || strings.HasSuffix(want, ": ") && strings.HasPrefix(is, want)
			}) {
				t.Errorf("it is %q", got)
			}
			if !slices.Equal(w.lists, test.lists) {
				t.Errorf("lists of %q", w.lists)
			}
		})
	}
}

// Pins SVM-23.
func TestAMigrationThatIsGoneHasNoVersion(t *testing.T) {
	w := newWorld(t)
	must.Succeed(t, w.c.determineVersion(w.Context(), "m"))
	w.WantRequests(t)
}

// Pins SVM-24.
func TestOfSeveralGroupsTheExactOneIsMigrated(t *testing.T) {
	w := newWorld(t)
	for _, group := range []string{"example.com", "other.example.com"} {
		found := must.Get(w.c.find(schema.GroupResource{Group: group, Resource: "widgets"}))
		if got := found(t); got.resource.Group != group || got.kind.Group != group {
			t.Errorf("%s is %v", group, got)
		}
	}
}
