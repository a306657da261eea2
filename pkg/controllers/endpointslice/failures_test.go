package endpointslice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/must"
)

// unindexed is an informer that refuses indexes, as one does that has stopped.
type unindexed struct{ cache.SharedIndexInformer }

func (unindexed) AddIndexers(cache.Indexers) error { return errors.New("it has stopped") }

func TestCachesThatCannotBeLookedUp(t *testing.T) {
	broken := unindexed{cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, cache.Indexers{})}
	for name, test := range map[string]struct {
		breakIt func(*endpointSliceController)
		event   string
	}{
		"EPS-21, EPS-39: pods": {func(c *endpointSliceController) { c.selected = index.NewSelectedPods(broken) },
			"Warning FailedToListPods Error listing Pods for Service n/web: "},
		"EPS-21, EPS-39: slices": {func(c *endpointSliceController) { c.slices = index.NewEndpointSlices(broken) },
			"Warning FailedToListEndpointSlices Error listing Endpoint Slices for Service n/web: "},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1)).begin(t)
			test.breakIt(b.c)
			if err := b.Reconcile(); err == nil || reconcile.IsExpected(err) {
				t.Errorf("error is %v", err)
			}
			if events := b.RecordedEvents(); len(events) != 1 || !strings.HasPrefix(events[0], test.event) {
				t.Errorf("events are %q, want %s...", events, test.event)
			}
			if writes := b.WriteVerbs(); len(writes) != 0 {
				t.Errorf("writes are %v", writes)
			}
		})
	}
}

// Pins EPS-28b.
func TestPodOnUnknownNodeIsSkippedAndRetried(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1),
		testPod(2, func(p *corev1.Pod) { p.Spec.NodeName = "node-b" })).begin(t)
	err := b.Reconcile()
	if err == nil || !strings.Contains(err.Error(), "skipping Pod web-2 for Service n/web: Node node-b Not Found") {
		t.Fatalf("error is %v", err)
	}
	if n := len(b.one(t).Endpoints); n != 1 {
		t.Errorf("%d endpoints, want that of the other pod", n)
	}
	b.observed(t)
	b.Cache(t, testNode("node-b", "zone-b"))
	b.MustReconcile(t)
	if n := len(b.one(t).Endpoints); n != 2 {
		t.Errorf("%d endpoints once the node is known, want 2", n)
	}
}

// TestNodesThatTheCacheLacksAreRead has a list lack nodes whose pods are in a slice. Pins EPS-86.
func TestNodesThatTheCacheLacksAreRead(t *testing.T) {
	notFound := apierrors.NewNotFound(corev1.Resource("nodes"), "node-1")
	proxy := apierrors.NewGenericServerResponse(404, "get", corev1.Resource("nodes"), "node-1", "", 0, true)
	forbidden := apierrors.NewForbidden(corev1.Resource("nodes"), "node-1", errors.New("no"))
	for name, test := range map[string]struct {
		lacking int
		refused error
		err     string // empty if the Service is reconciled
		served  int
		reads   []string
	}{
		"it exists":                {1, nil, "", 2, []string{"get nodes node-1"}},
		"it is gone":               {1, notFound, "Node node-1 Not Found", 1, []string{"get nodes node-1"}},
		"a proxy does not know it": {1, proxy, "reading nodes", 2, []string{"get nodes node-1", "get nodes node-1"}},
		"it may not be read":       {1, forbidden, "forbidden", 2, []string{"get nodes node-1", "get nodes node-1"}},
		"many exist":               {6, nil, "", 7, []string{"list nodes"}},
		"many cannot be read":      {6, forbidden, "forbidden", 7, []string{"list nodes", "list nodes"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{testService(), testNode("node-a", "zone-a"), testPod(0)}
			for i := range test.lacking {
				node := fmt.Sprint("node-", i+1)
				objects = append(objects, testNode(node, "zone-b"), testPod(i+1, func(p *corev1.Pod) { p.Spec.NodeName = node }))
			}
			b := newBench(t, defaults, objects...).begin(t)
			b.MustReconcile(t)
			b.observed(t)
			for i := range test.lacking {
				b.Uncache(t, testNode(fmt.Sprint("node-", i+1), ""))
			}
			if test.refused != nil {
				b.Refuse("get nodes", test.refused)
				b.Refuse("list nodes", test.refused)
			}
			b.Requests()
			for range 2 {
				switch err := b.Reconcile(); {
				case test.err == "":
					must.Succeed(t, err)
				case err == nil || !strings.Contains(err.Error(), test.err):
					t.Errorf("error is %v", err)
				}
				b.observed(t)
			}
			reads := slices.DeleteFunc(b.Requests(), func(r string) bool { return !strings.Contains(r, " nodes") })
			if slice := b.one(t); len(slice.Endpoints) != test.served || !slices.Equal(reads, test.reads) {
				t.Errorf("endpoints are %+v after %q", slice.Endpoints, reads)
			}
			if test.err == "" && slices.ContainsFunc(b.one(t).Endpoints, func(e discoveryv1.Endpoint) bool { return e.Zone == nil }) {
				t.Errorf("an endpoint has lost its zone: %+v", b.one(t).Endpoints)
			}
		})
	}
}

// Pins EPS-25.
func TestFailedWriteIsReportedAndTriedAgain(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1)).begin(t)
	failing := true
	b.Fake.PrependReactor("create", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		return failing, nil, errors.New("no")
	})
	failed := syncs(t, "error")
	if err := b.Reconcile(); err == nil || reconcile.IsExpected(err) {
		t.Fatalf("error is %v", err)
	}
	want := "Warning FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service n/web: failed to create EndpointSlice for Service n/web: no"
	b.WantEvents(t, want)
	if syncs(t, "error") != failed+1 {
		t.Error("the sync was not counted as error")
	}
	failing = false
	b.MustReconcile(t)
	b.one(t)
}

// The library sends requests without a context, so that they fail at the fence. Pins EPS-25.
func TestAWriteThatIsCutOffIsNotReported(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1)).begin(t)
	ctx, end := context.WithCancel(b.Context())
	b.Intercept("create endpointslices", func(clienttesting.Action) error {
		end()
		return context.Canceled
	})
	if err := b.Work(ctx, web); err == nil {
		t.Error("it succeeds")
	}
	b.WantEvents(t)
}

// Pins EPS-33.
func TestTerminatingNamespaceEndsTheWork(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1)).begin(t)
	refusal := apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "", errors.New("terminating"))
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	b.Refuse("create endpointslices", refusal)
	b.MustReconcile(t)
	if events := b.RecordedEvents(); len(events) != 0 {
		t.Errorf("events are %q", events)
	}
}
