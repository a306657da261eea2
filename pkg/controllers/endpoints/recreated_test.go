package endpoints

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
}
