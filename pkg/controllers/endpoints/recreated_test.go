package endpoints

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// The API server may refuse because of a namespace that is gone, while there is another of its name. Pins EP-70.
func TestRunGoesOnInANamespaceThatWasMadeAnew(t *testing.T) {
	b := newBench(t, defaults, testService(), testPod(1))
	terminating := apierrors.NewForbidden(corev1.Resource("endpoints"), "web", errors.New("going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	b.RefuseIf("create endpoints", terminating, func(n int) bool { return n == 1 })
	b.run(t)
	b.EventuallyAsTimePasses(t, "there are Endpoints", time.Second, func() bool {
		return b.stored(t) != nil
	})
	if b.stored(t).Annotations[corev1.EndpointsLastChangeTriggerTime] == "" {
		t.Error("the time of the change was forgotten with the first attempt")
	}
}

// A Service that is being deleted is none of a namespace that was recreated. Pins EP-70.
func TestNothingIsTriedAgainForAServiceThatGoes(t *testing.T) {
	b := newBench(t, defaults, testService(func(s *corev1.Service) {
		s.DeletionTimestamp, s.Finalizers = ptr.To(metav1.Now()), []string{"example.com/hold"}
	}), testPod(1))
	terminating := apierrors.NewForbidden(corev1.Resource("endpoints"), "web", errors.New("going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	b.RefuseIf("create endpoints", terminating, func(int) bool { return true })
	b.run(t)
	b.AwaitIdle(t)
	if keys := b.c.serviceLoop.Keys(func(string) bool { return true }); len(keys) != 0 {
		t.Errorf("waiting for another attempt: %v", keys)
	}
}

// Somebody deletes Endpoints before the cache has shown them, while the watch is interrupted: no event shows either.
// Pins EP-77.
func TestRunMakesEndpointsAgainThatTheCacheNeverShows(t *testing.T) {
	b := newBench(t, defaults, testService(), testPod(1))
	var created atomic.Bool
	b.Fake.PrependReactor("create", "endpoints", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return !created.Swap(true), action.(clienttesting.CreateAction).GetObject(), nil
	})
	b.run(t)
	b.EventuallyAsTimePasses(t, "there are Endpoints", time.Second, func() bool { return b.stored(t) != nil })
}

// An admission webhook refuses a deletion as if there were nothing to delete. Pins EP-78.
func TestRunDeletesEndpointsAgainThatAreSaidToBeGone(t *testing.T) {
	b := newBench(t, defaults, testEndpoints(nil))
	notFound := apierrors.NewNotFound(corev1.Resource("endpoints"), "web")
	b.RefuseIf("delete endpoints web", notFound, func(n int) bool { return n == 1 })
	b.run(t)
	b.EventuallyAsTimePasses(t, "the Endpoints are gone", time.Second, func() bool { return b.stored(t) == nil })
}
