package informers

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controller"
)

// formOfInformer requests a resource and returns the form it got.
func formOfInformer(t *testing.T, h *harness, s *Scope, resource schema.GroupVersionResource) Form {
	t.Helper()
	if _, err := s.AnyFor(resource); err != nil {
		t.Fatal(err)
	}
	for k := range s.held {
		if k.resource == resource && k.filter == (controller.Filter{}) {
			return k.form
		}
	}
	t.Fatalf("no informer for %s is held", resource)
	return ""
}

// Pins MGR-170.
func TestAnyForTakesWholeObjectsOnlyIfTheyAreCachedAnyway(t *testing.T) {
	pods, secrets := corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("secrets")
	nodes := corev1.SchemeGroupVersion.WithResource("nodes")
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	h := newHarness(t)
	wanted := map[schema.GroupVersionResource]bool{pods: true, widgets: true}
	h.whole = func(r schema.GroupVersionResource) bool { return wanted[r] }
	other, s := h.open(ScopeOptions{Name: "other"}), h.open(ScopeOptions{Name: "any"})
	other.Core().V1().Nodes().Informer()
	other.Filtered(controller.Filter{FieldSelector: "type=x"}).Core().V1().Secrets().Informer()
	for resource, want := range map[schema.GroupVersionResource]Form{
		pods:    Typed,    // as the configuration says
		nodes:   Typed,    // as somebody holds them
		secrets: Metadata, // of which somebody holds a part
		widgets: Metadata, // for which there is no type
	} {
		if got := formOfInformer(t, h, s, resource); got != want {
			t.Errorf("%s are %s, want %s", resource.Resource, got, want)
		}
	}
	wanted[pods], wanted[secrets] = false, true
	if formOfInformer(t, h, s, pods) != Typed || formOfInformer(t, h, s, secrets) != Metadata {
		t.Error("a decision was changed")
	}
	later := h.open(ScopeOptions{Name: "later"})
	if formOfInformer(t, h, later, secrets) != Typed {
		t.Error("a later scope does not decide anew")
	}
}

func TestReleaseStopsAnInformerThatNobodyElseHolds(t *testing.T) {
	h := newHarness(t, pod("a"))
	s := h.open(ScopeOptions{Name: "s"})
	informer := s.Core().V1().Pods().Informer()
	seen := newRecorder()
	if _, err := informer.AddEventHandler(seen); err != nil {
		t.Fatal(err)
	}
	startAndSync(t, s)

	s.Release(informer)
	eventually(t, "the informer to stop", informer.IsStopped)
	if got := h.snapshot(); got.informers != 0 || got.handlers != 0 {
		t.Errorf("left are %+v", got)
	}
	if !s.Ready() {
		t.Error("a removed handler is waited for")
	}
	s.Release(informer) // once more is no error

	again := s.Core().V1().Pods().Informer()
	anew := newRecorder()
	if _, err := again.AddEventHandler(anew); err != nil {
		t.Fatal(err)
	}
	startAndSync(t, s)
	if adds, _ := anew.count(); adds != 1 || again.IsStopped() {
		t.Errorf("an informer requested again shows %d objects", adds)
	}
}

func TestReleaseLeavesTheInformersOfOthers(t *testing.T) {
	h := newHarness(t, pod("a"))
	s, other := h.open(ScopeOptions{Name: "s"}), h.open(ScopeOptions{Name: "other"})
	mine, theirs := newRecorder(), newRecorder()
	informer := s.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(mine); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Core().V1().Pods().Informer().AddEventHandler(theirs); err != nil {
		t.Fatal(err)
	}
	startAndSync(t, s)
	startAndSync(t, other)
	other.Release(informer) // not its own
	s.Release(informer)
	h.create(pod("b"))
	eventually(t, "the other scope to see the pod", func() bool { adds, _ := theirs.count(); return adds == 2 })
	if adds, _ := mine.count(); adds != 1 {
		t.Errorf("a released handler has seen %d pods", adds)
	}
	if got := h.snapshot(); got.running != 1 || got.handlers != 1 {
		t.Errorf("there are %+v", got)
	}
}

// An informer of a kind that is not served any more would go on asking for it.
func TestInformersOfWhatIsNotServedEndWithTheirLastUser(t *testing.T) {
	for name, c := range map[string]struct {
		answer error
		left   int
	}{
		"not served":  {apierrors.NewGenericServerResponse(http.StatusNotFound, "list", schema.GroupResource{}, "", "404 page not found", 0, true), 0},
		"unavailable": {apierrors.NewServiceUnavailable("down"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.answer })
			s := h.open(ScopeOptions{Name: "s"})
			s.Core().V1().Pods().Informer()
			s.StartWithContext(t.Context())
			eventually(t, "the informer to fail", func() bool { all := h.Status(); return len(all) == 1 && all[0].LastError != "" })
			s.Close()
			if got := h.snapshot().informers; got != c.left {
				t.Errorf("%d informers are left, want %d", got, c.left)
			}
		})
	}
}
