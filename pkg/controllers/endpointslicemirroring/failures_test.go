package endpointslicemirroring

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// unindexed is an informer that refuses indexes, as one does that has stopped.
type unindexed struct{ cache.SharedIndexInformer }

func (unindexed) AddIndexers(cache.Indexers) error { return errors.New("it has stopped") }

// Pins EPM-25.
func TestSlicesThatCannotBeListed(t *testing.T) {
	b := newBench(t, defaults, testService(nil), oneAddress()).begin(t)
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &discoveryv1.EndpointSlice{}, 0, cache.Indexers{})
	b.c.slices = index.NewEndpointSlices(unindexed{informer})
	if err := b.Reconcile(); err == nil || reconcile.IsExpected(err) {
		t.Errorf("error is %v", err)
	}
	b.WantEvents(t)
	if got := b.WriteVerbs(); len(got) != 0 {
		t.Errorf("writes are %v", got)
	}
}

// No event reports a write that failed. Pins EPM-25.
func TestFailures(t *testing.T) {
	ending := apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "web", errors.New("going"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	notFound := apierrors.NewNotFound(discoveryv1.Resource("endpointslices"), "a")
	ofAProxy := apierrors.NewGenericServerResponse(
		http.StatusNotFound, "delete", discoveryv1.Resource("endpointslices"), "a", "404 page not found", 0, true)
	slice := sliceOf("a", oneAddress())
	for name, tc := range map[string]struct {
		verb    string
		err     error
		objects []runtime.Object
		want    string
	}{
		"create":                       {"create", errors.New("boom"), []runtime.Object{testService(nil), oneAddress()}, "creating an EndpointSlice of Endpoints n/web: boom"},
		"EPM-21: create in ending one": {"create", ending, []runtime.Object{testService(nil), oneAddress()}, ""},
		"update":                       {"update", errors.New("boom"), []runtime.Object{testService(nil), testEndpoints(subset(80, []string{"10.0.0.2"}, nil)), slice}, "updating EndpointSlice n/a: boom"},
		"delete":                       {"delete", errors.New("boom"), []runtime.Object{testService(nil), testEndpoints(), slice}, "deleting EndpointSlice n/a: boom"},
		"EPM-47: deleted by others":    {"delete", notFound, []runtime.Object{testService(nil), testEndpoints(), slice}, ""},
		"EPM-57: deletion answered by a proxy": {"delete", ofAProxy, []runtime.Object{testService(nil), testEndpoints(), slice},
			"deleting EndpointSlice n/a: " + ofAProxy.Error()},
		"EPM-57: cleaning up answered by a proxy": {"delete", ofAProxy, []runtime.Object{slice},
			"error(s) deleting 1/1 EndpointSlices for n/web Endpoints, including: " + ofAProxy.Error()},
		"EPM-15: clean up": {"delete", errors.New("boom"), []runtime.Object{slice, sliceOf("b", oneAddress())},
			"error(s) deleting 2/2 EndpointSlices for n/web Endpoints, including: boom"},
		"EPM-47: cleaned up by others": {"delete", notFound, []runtime.Object{slice}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults, tc.objects...).begin(t)
			b.Refuse(tc.verb+" endpointslices", tc.err)
			err := b.Reconcile()
			if got := fmt.Sprint(err); tc.want == "" && err != nil || tc.want != "" && (got != tc.want || !errors.Is(err, tc.err)) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
			b.WantEvents(t)
		})
	}
}
