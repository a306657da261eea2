package storageversionmigrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// livePage answers a live list of all widgets.
type livePage func(metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)

// liveClient is a metadata client whose lists of all widgets are answered by a function, all else by the fake.
type liveClient struct {
	metadata.Interface
	page livePage
}

type liveWidgets struct {
	metadata.Getter
	page livePage
}

func (c liveClient) Resource(resource schema.GroupVersionResource) metadata.Getter {
	return liveWidgets{Getter: c.Interface.Resource(resource), page: c.page}
}

func (w liveWidgets) List(_ context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	return w.page(options)
}

// newMissingWorld has a migration at version 100, a cache that shows ns/a@1 and ns/b@2, and live lists that a function
// answers.
func newMissingWorld(t *testing.T, page livePage) *world {
	t.Helper()
	w := newMigratingWorld(t, "ns/a@1", "ns/b@2")
	w.c.Metadata = liveClient{Interface: w.Metadata, page: page}
	return w
}

// pageOf is a page of widgets at version 100. Names with a second "@" have that UID.
func pageOf(next string, objects ...string) *metav1.PartialObjectMetadataList {
	page := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "100", Continue: next}}
	for _, text := range objects {
		parts := strings.Split(text, "@")
		object := widget(parts[0] + "@" + parts[1])
		if len(parts) > 2 {
			object.UID = "uid-" + object.UID
		}
		page.Items = append(page.Items, object)
	}
	return page
}

// expired is the answer to a list whose token has expired, with the token that it can go on with.
func expired(next string) error {
	err := apierrors.NewResourceExpired("too old")
	err.ErrStatus.Continue = next
	return err
}

// Users lose what is stored in a version that nobody can read any more.
func TestWhatTheCacheHasMissedIsRewritten(t *testing.T) {
	boom := errors.New("boom")
	conflict := apierrors.NewConflict(widgets.GroupResource(), "a", errors.New("changed"))
	behind := pageOf("", "ns/a@1", "ns/b@2")
	behind.ResourceVersion = "99"
	type pages map[string]any // what a continue token is answered with: a page or an error
	for name, test := range map[string]struct {
		pages  pages
		answer func(times int) error // to a patch of ns/a
		named  string                // what ns/a is when it is listed by its name
		want   []string              // what is patched
		shown  string                // the condition; empty if it is retried
		failed error
	}{
		"SVM-72: nothing":                               {pages: pages{"": pageOf("", "ns/a@1", "ns/b@2")}, want: []string{"ns/a", "ns/b"}, shown: succeeded},
		"SVM-72: an object":                             {pages: pages{"": pageOf("", "ns/a@1", "ns/b@2", "ns/c@3")}, want: []string{"ns/a", "ns/b", "ns/c"}, shown: succeeded},
		"SVM-72: one of the same version":               {pages: pages{"": pageOf("", "ns/c@100")}, want: []string{"ns/a", "ns/b", "ns/c"}, shown: succeeded},
		"SVM-72: one that needs no rewrite":             {pages: pages{"": pageOf("", "ns/c@101", "ns/a@102")}, want: []string{"ns/a", "ns/b"}, shown: succeeded},
		"SVM-72: a namesake of one that was rewritten":  {pages: pages{"": pageOf("", "ns/a@50@other")}, want: []string{"ns/a", "ns/b", "ns/a"}, shown: succeeded},
		"SVM-72: in no namespace":                       {pages: pages{"": pageOf("", "/c@3")}, want: []string{"ns/a", "ns/b", "/c"}, shown: succeeded},
		"SVM-72: one on the second page":                {pages: pages{"": pageOf("1", "ns/a@1"), "1": pageOf("", "ns/c@3")}, want: []string{"ns/a", "ns/b", "ns/c"}, shown: succeeded},
		"SVM-72: the state of one":                      {pages: pages{"": pageOf("", "ns/a@90")}, answer: onlyFirst(conflict), named: "ns/a@90", want: []string{"ns/a", "ns/b", "ns/a"}, shown: succeeded},
		"SVM-72, SVM-68: one that is refused":           {pages: pages{"": pageOf("", "ns/a@90")}, answer: always(conflict), named: "ns/a@90", want: []string{"ns/a", "ns/b", "ns/a"}, shown: unhandled},
		"SVM-72: whether it has cannot be found":        {pages: pages{"": boom}, want: []string{"ns/a", "ns/b"}, failed: boom},
		"SVM-72: the list is behind":                    {pages: pages{"": behind}, want: []string{"ns/a", "ns/b"}},
		"SVM-72: one of another kind of version":        {pages: pages{"": pageOf("", "ns/c@abc")}, want: []string{"ns/a", "ns/b"}, shown: unhandled},
		"SVM-72: the token has expired":                 {pages: pages{"": pageOf("1"), "1": expired("2"), "2": pageOf("", "ns/c@3")}, want: []string{"ns/a", "ns/b", "ns/c"}, shown: succeeded},
		"SVM-72: the token has expired for good":        {pages: pages{"": pageOf("1"), "1": expired("")}, want: []string{"ns/a", "ns/b"}, failed: expired("")},
		"SVM-72: the next token has expired as well":    {pages: pages{"": pageOf("1"), "1": expired("2"), "2": expired("3"), "3": pageOf("")}, want: []string{"ns/a", "ns/b"}, failed: expired("3")},
		"SVM-72: the token has expired again and again": {pages: pages{"": pageOf("1"), "1": expired("1")}, want: []string{"ns/a", "ns/b"}, failed: expired("1")},
		"SVM-72: a later page fails":                    {pages: pages{"": pageOf("1"), "1": apierrors.NewServiceUnavailable("later")}, want: []string{"ns/a", "ns/b"}, failed: apierrors.NewServiceUnavailable("later")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMissingWorld(t, func(options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
				if options.Limit != 500 || options.ResourceVersion != "" || options.FieldSelector != "" {
					t.Errorf("listed with %+v", options)
				}
				if err, ok := test.pages[options.Continue].(error); ok {
					return nil, err
				}
				return test.pages[options.Continue].(*metav1.PartialObjectMetadataList), nil
			})
			times := 0
			w.answer = func(name string) error {
				if name != "a" || test.answer == nil {
					return nil
				}
				w.listed = []metav1.PartialObjectMetadata{widget(test.named)}
				times++
				return test.answer(times)
			}
			err := w.c.migrate(w.Context(), "m")
			if (err == nil) != (test.failed == nil) || err != nil && !strings.HasSuffix(err.Error(), test.failed.Error()) {
				t.Errorf("error is %v", err)
			}
			if got := w.patched(); !slices.Equal(got, test.want) {
				t.Errorf("patched %q, want %q", got, test.want)
			}
			got := w.shown(t, "m")
			if test.shown == "" {
				if len(got) != 2 {
					t.Errorf("it is %q", got)
				}
			} else if len(got) != 3 || !strings.HasPrefix(got[2], test.shown) {
				t.Errorf("it is %q, want %q", got, test.shown)
			}
		})
	}
}

func onlyFirst(err error) func(int) error {
	return func(times int) error {
		if times == 1 {
			return err
		}
		return nil
	}
}

func always(err error) func(int) error { return func(int) error { return err } }

// What was missed is applied to as it is stored, since its UID and version in the cache are others. Pins SVM-72.
func TestWhatTheCacheHasMissedIsRewrittenAsItIsListed(t *testing.T) {
	w := newMissingWorld(t, func(metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		return pageOf("", "ns/a@50@other", "ns/b@2"), nil
	})
	must.Succeed(t, w.c.migrate(w.Context(), "m"))
	if want := `"metadata":{"resourceVersion":"50","uid":"uid-uid-of-a"}`; len(w.patches) != 3 || !strings.Contains(w.patches[2], want) {
		t.Errorf("patches are %q, the last should have %s", w.patches, want)
	}
}

// Pins SVM-72.
func TestAListThatIsBehindIsRepeatedAfterASecond(t *testing.T) {
	at := "99"
	w := newMissingWorld(t, func(metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		page := pageOf("", "ns/c@3")
		page.ResourceVersion = at
		return page, nil
	})
	controllertest.Eventually(t, "the handler has seen the migration", func() bool { return w.c.migrator.Inspect().Depth == 1 })
	again := &controllertest.Queue[string]{}
	w.c.migratorQueue = again
	must.Succeed(t, w.c.migrate(w.Context(), "m"))
	if delay := again.TakeDelay("m"); delay != time.Second {
		t.Errorf("it is tried again after %v", delay)
	}
	at = "100"
	must.Succeed(t, w.c.migrate(w.Context(), "m"))
	if got := w.patched(); !slices.Equal(got, []string{"ns/a", "ns/b", "ns/c"}) {
		t.Errorf("patched %q", got)
	}
}

// An error, and a restart of the controller, cost no second request for an object that does not change. Pins SVM-72.
func TestNoObjectIsMissedForItsVersion(t *testing.T) {
	live := func(metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		return pageOf("", "ns/a@1", "ns/b@2", "ns/c@3", "ns/d@4"), nil
	}
	w := newMissingWorld(t, live)
	refused := "d"
	w.answer = func(name string) error {
		if name == refused {
			return apierrors.NewServiceUnavailable("later")
		}
		return nil
	}
	if err := w.c.migrate(w.Context(), "m"); err == nil {
		t.Error("no error")
	}
	if got := w.patched(); !slices.Equal(got, []string{"ns/a", "ns/b", "ns/c", "ns/d"}) {
		t.Errorf("patched %q", got)
	}
	w.succeed(t, w.c.HandOver())
	w.c.Metadata = liveClient{Interface: w.Metadata, page: live}
	must.Succeed(t, w.c.begin(w.Context()))
	refused = ""
	must.Succeed(t, w.c.migrate(w.Context(), "m"))
	if got := w.patched(); !slices.Equal(got, []string{"ns/d"}) {
		t.Errorf("patched %q", got)
	}
	w.wantShown(t, "m", "at 100", "Running=True", succeeded)
}

// An object that has a higher version now needs no memory. Pins SVM-72.
func TestOnlyObjectsThatDoNotChangeAreRemembered(t *testing.T) {
	for stored, want := range map[string]int{"": 2, "100": 2, "101": 0} {
		w := newMissingWorld(t, func(metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) { return nil, errors.New("boom") })
		w.stored = stored
		if err := w.c.migrate(w.Context(), "m"); err == nil {
			t.Error("no error")
		}
		if got := len(w.c.HandOver().positions["m"].unchanged); got != want {
			t.Errorf("stored as of %q: remembers %d objects, want %d", stored, got, want)
		}
	}
}

// Pins SVM-72.
func TestANamesakeOfAMigrationHasRewrittenNothing(t *testing.T) {
	p := newProgress()
	first, second := newMigration("m"), newMigration("m")
	second.UID = "another"
	p.unchanged(first, "u1")
	if !p.isUnchanged(first, "u1") || p.isUnchanged(first, "u2") || p.isUnchanged(second, "u1") {
		t.Errorf("remembers %v", p.all)
	}
}

// Pins SVM-72.
func TestNoFurtherPageIsListedOnceTheControllerIsToStop(t *testing.T) {
	var w *world
	lists := 0
	w = newMissingWorld(t, func(metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		if lists++; lists == 2 {
			close(w.c.stopped)
		}
		return pageOf(fmt.Sprint(lists), "ns/c@3"), nil
	})
	must.Succeed(t, w.c.migrate(w.Context(), "m"))
	if lists != 2 {
		t.Errorf("%d pages", lists)
	}
	w.wantShown(t, "m", "at 100", "Running=True")
}
