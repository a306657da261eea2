package writes

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func (f fixture) objects() Objects[*corev1.Pod] { return ObjectsOf[*corev1.Pod](f.Memory, podResource) }

// list lists cached objects of an owner, as names and versions.
func (f fixture) list(t *testing.T, cached ...*corev1.Pod) []string {
	t.Helper()
	newest, err := f.objects().List(owner, func() ([]*corev1.Pod, error) { return cached, nil })
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range newest {
		all = append(all, p.Name+"@"+p.ResourceVersion)
	}
	return all
}

func (f fixture) kept() int {
	n := 0
	for _, r := range f.owners {
		n += len(r.Objects[podResource])
	}
	return n
}

func TestListOfNewestObjects(t *testing.T) {
	for _, test := range []struct {
		name          string
		wrote, cached []*corev1.Pod
		shown         string
		want          []string // names and versions
		kept          int
	}{
		{"nothing written", nil, []*corev1.Pod{pod("p", "1", "5")}, "9", []string{"p@5"}, 0},
		{"the cache is older", []*corev1.Pod{pod("p", "1", "10")}, []*corev1.Pod{pod("p", "1", "9")}, "9", []string{"p@10"}, 1},
		{"the cache has caught up", []*corev1.Pod{pod("p", "1", "10")}, []*corev1.Pod{pod("p", "1", "10")}, "10", []string{"p@10"}, 0},
		{"the cache is newer", []*corev1.Pod{pod("p", "1", "10")}, []*corev1.Pod{pod("p", "1", "11")}, "11", []string{"p@11"}, 0},
		{"not in the cache yet", []*corev1.Pod{pod("p", "1", "10")}, nil, "9", []string{"p@10"}, 1},
		{"not in the cache any more", []*corev1.Pod{pod("p", "1", "10")}, nil, "11", nil, 0},
		{"a namesake", []*corev1.Pod{pod("p", "1", "10")}, []*corev1.Pod{pod("p", "other", "12")}, "12", []string{"p@12"}, 0},
		{"versions that cannot be compared", []*corev1.Pod{pod("p", "1", "x")}, []*corev1.Pod{pod("p", "1", "y")}, "", []string{"p@y"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture()
			f.pods.Bookmark(test.shown)
			for _, p := range test.wrote {
				f.objects().Wrote(owner, p)
			}
			if got := f.list(t, test.cached...); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if f.kept() != test.kept {
				t.Errorf("%d are remembered, want %d", f.kept(), test.kept)
			}
		})
	}
	f, broken := newFixture(), errors.New("broken")
	if _, err := f.objects().List(owner, func() ([]*corev1.Pod, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// What arrives in the cache while it is listed must not be listed twice, and what is
// deleted meanwhile is known to be only by the version before.
func TestListReadsTheVersionFirst(t *testing.T) {
	f := newFixture()
	f.pods.Bookmark("9")
	f.objects().Wrote(owner, pod("p", "1", "10"))
	newest, err := f.objects().List(owner, func() ([]*corev1.Pod, error) {
		f.pods.Bookmark("10") // after the list was made
		return nil, nil
	})
	if err != nil || len(newest) != 1 {
		t.Errorf("got %v, %v", newest, err)
	}
	if got := f.list(t); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// Pins DEP-54.
func TestNewestObject(t *testing.T) {
	for _, test := range []struct {
		name          string
		wrote, cached *corev1.Pod
		ours          bool
	}{
		{"older cache", pod("rs", "o", "10"), pod("rs", "o", "9"), true},
		{"same", pod("rs", "o", "10"), pod("rs", "o", "10"), false},
		{"newer cache", pod("rs", "o", "10"), pod("rs", "o", "11"), false},
		{"recreated", pod("rs", "o", "10"), pod("rs", "new", "9"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture()
			f.objects().Wrote(test.wrote, test.wrote)
			got := f.objects().Newest(test.cached, test.cached)
			if (got == test.wrote) != test.ours || (f.kept() != 0) != test.ours {
				t.Errorf("got version %s, %d remembered", got.ResourceVersion, f.kept())
			}
		})
	}
}

func TestNothingIsKeptForAnOwnerWithoutObjects(t *testing.T) {
	f := newFixture()
	f.pods.Bookmark("9")
	f.list(t)
	f.objects().Deleted(owner, pod("p", "1", "10"))
	if len(f.owners) != 0 {
		t.Error("nothing was written, but something is remembered")
	}
	f.objects().Wrote(owner, pod("p", "1", "10"))
	f.objects().Wrote(owner, pod("q", "2", "11"))
	f.objects().Deleted(owner, pod("p", "1", "10"))
	if got := f.list(t); !slices.Equal(got, []string{"q@11"}) {
		t.Errorf("got %v", got)
	}
	f.objects().Deleted(owner, pod("q", "2", "11"))
	if len(f.owners) != 0 {
		t.Error("what was deleted is remembered")
	}
}

// The cache shows an owner whose echo arrives, so its object takes no memory any more.
func TestAnEchoFreesTheOwner(t *testing.T) {
	f := newFixture()
	written := pod("rs", "o", "11")
	f.objects().Wrote(owner, written)
	f.WroteStatus(owner, "11")
	if !f.IsEcho(written) || f.kept() != 0 {
		t.Errorf("%d remembered", f.kept())
	}
}

// TestObjectsGiveWayToACacheThatStaysOlder: the cluster was restored from a backup, and its
// versions went back.
func TestObjectsGiveWayToACacheThatStaysOlder(t *testing.T) {
	resource := podResource
	write := func() fixture {
		f := newFixture()
		f.pods.Bookmark("6")
		f.objects().Wrote(owner, pod("rs", "o", "1000"))
		f.objects().Wrote(owner, pod("p", "1", "1001"))
		return f
	}
	for _, test := range []struct {
		name string
		then func(fixture)
		kept bool
	}{
		{"just written", func(fixture) {}, true},
		{"before the time is over", func(f fixture) { f.clock.Step(Timeout - 1) }, true},
		{"after it", func(f fixture) { f.clock.Step(Timeout) }, false},
		{"an error that says nothing", func(f fixture) { f.Answered(owner, errors.New("something else")) }, true},
		{"no error", func(f fixture) { f.Answered(owner, nil) }, true},
		{"a conflict", func(f fixture) { f.Answered(owner, apierrors.NewConflict(resource, "p", errors.New("newer"))) }, false},
		{"something is not there", func(f fixture) {
			f.Answered(owner, errors.Join(nil, fmt.Errorf("updating: %w", apierrors.NewNotFound(resource, "p"))))
		}, false},
		{"the versions of the store go back", func(f fixture) {
			if err := f.pods.Replace(nil, "5"); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"the owner is deleted", func(f fixture) { f.Forget(owner) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := write()
			test.then(f)
			newest := f.objects().Newest(owner, pod("rs", "o", "5"))
			want, listed := "5", 0
			if test.kept {
				want, listed = "1000", 2
			}
			if got := f.list(t); newest.ResourceVersion != want || len(got) != listed {
				t.Errorf("newest %s, listed %v", newest.ResourceVersion, got)
			}
		})
	}
}
