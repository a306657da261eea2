package apis

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

func TestAKindThatIsNotKnownIsLookedForAtOnce(t *testing.T) {
	f := follow(t)
	changes := func() {
		t.Helper()
		select {
		case <-f.Changed():
		case <-time.After(time.Minute):
			t.Fatal("nothing changed")
		}
	}
	f.asks()
	changes()
	widget := schema.GroupKind{Group: widgets.Group, Kind: "Kind"}
	if _, err := f.Mapper().RESTMapping(widget, widgets.Version); !meta.IsNoMatchError(err) {
		t.Fatalf("got %v", err)
	}
	f.server.serve(deployments, widgets)
	f.step(suspectPause)
	f.asks()
	changes()
	mapping, err := f.Mapper().RESTMapping(widget, widgets.Version)
	if err != nil || mapping.Resource != widgets {
		t.Errorf("got %v, %v", mapping, err)
	}
}

func TestWhatIsNotKnownIsNotLookedForForEver(t *testing.T) {
	s := newServer(deployments)
	c := New(s, clock.RealClock{})
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := c.Mapper()
	suspects := func(kind string) bool {
		t.Helper()
		if _, err := m.RESTMappings(schema.GroupKind{Group: "g", Kind: kind}); !meta.IsNoMatchError(err) {
			t.Fatalf("got %v", err)
		}
		select {
		case <-c.suspect:
			return true
		default:
			return false
		}
	}
	if !suspects("a") || suspects("a") || !suspects("b") {
		t.Error("what is not known is to be looked for at once, and just once")
	}
	for _, want := range []time.Duration{4 * time.Second, 8 * time.Second} {
		if got := c.nextRefresh(); got != want || suspects("a") {
			t.Errorf("the next refresh is in %v, want %v", got, want)
		}
	}
	if !suspects("c") || c.nextRefresh() != 4*time.Second {
		t.Error("what is not known is looked for as seldom as what was not known before")
	}
	for n := range 2 * maxUnknown {
		suspects(fmt.Sprint("kind", n))
	}
	if suspects("one more") || len(c.unknown) != maxUnknown {
		t.Errorf("%d kinds are remembered", len(c.unknown))
	}
	s.serve(deployments, widgets)
	if err := c.Refresh(t.Context()); err != nil || len(c.unknown) != 0 {
		t.Errorf("%v, %d kinds are remembered after a change", err, len(c.unknown))
	}
	if !suspects("a") {
		t.Error("after a change it is not looked for again")
	}
}

// questions are all that can be asked about a resource, and its kind.
func questions(m meta.RESTMapper, r schema.GroupVersionResource, kind string) map[string]func() error {
	k := schema.GroupKind{Group: r.Group, Kind: kind}
	return map[string]func() error{
		"KindFor":      func() error { _, err := m.KindFor(r); return err },
		"KindsFor":     func() error { _, err := m.KindsFor(r); return err },
		"ResourceFor":  func() error { _, err := m.ResourceFor(r); return err },
		"ResourcesFor": func() error { _, err := m.ResourcesFor(r); return err },
		"RESTMapping":  func() error { _, err := m.RESTMapping(k, r.Version); return err },
		"RESTMappings": func() error { _, err := m.RESTMappings(k, r.Version); return err },
	}
}

func TestEveryQuestionToTheMapperCounts(t *testing.T) {
	c := New(newServer(deployments), clock.RealClock{})
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := c.Mapper()
	for name, ask := range questions(m, widgets, "Kind") {
		clear(c.unknown)
		if err := ask(); !meta.IsNoMatchError(err) || len(c.unknown) != 1 {
			t.Errorf("%s: %v, noted %v", name, err, c.unknown)
		}
	}
	if _, ok := m.(meta.ResettableRESTMapper); !ok {
		t.Error("the mapper cannot be reset any more")
	}
}

// Who depends on a kind that is not served any more gives it up; not so on one of an API server that is down.
func TestAKindWhoseGroupCannotBeAskedIsNotUnknown(t *testing.T) {
	gadgets, scale, other, elsewhere := widgets, widgets, widgets, widgets
	gadgets.Resource, scale.Resource, other.Version, elsewhere.Group = "gadgets", "widgets/scale", "v2", "other.example.com"
	s := newServer(deployments, widgets)
	s.Resources[1].APIResources = append(s.Resources[1].APIResources, metav1.APIResource{Name: "widgets/scale", Kind: "Scale"})
	c := New(s, clock.RealClock{})
	m := c.Mapper()
	want := func(noMatch bool, r schema.GroupVersionResource, kind string) {
		t.Helper()
		for name, ask := range questions(m, r, kind) {
			if err := ask(); err == nil || meta.IsNoMatchError(err) != noMatch {
				t.Errorf("%s of %s and %q: %v", name, r, kind, err)
			}
		}
	}
	refresh := func() {
		t.Helper()
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.broken[widgets.GroupVersion()] = errors.New("down")
	refresh()
	want(true, widgets, "Kind") // never asked
	delete(s.broken, widgets.GroupVersion())
	refresh()
	s.broken[widgets.GroupVersion()] = errors.New("down")
	refresh()
	want(false, widgets, "Kind")
	want(true, gadgets, "Gadget")
	want(true, scale, "Scale") // no mapper knows subresources
	want(true, other, "Kind")
	want(true, elsewhere, "Kind")
	anyVersion := widgets
	anyVersion.Version = ""
	if _, err := m.ResourcesFor(anyVersion); err == nil || meta.IsNoMatchError(err) {
		t.Errorf("in any version: %v", err)
	}
	if _, err := m.RESTMappings(schema.GroupKind{Group: widgets.Group, Kind: "Kind"}); err == nil || meta.IsNoMatchError(err) {
		t.Errorf("in any version: %v", err)
	}
	s.serve(deployments)
	refresh()
	want(true, widgets, "Kind") // the group is gone
}
