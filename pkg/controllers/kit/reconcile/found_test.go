package reconcile_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func TestFound(t *testing.T) {
	pod := &corev1.Pod{}
	for name, tc := range map[string]struct {
		object *corev1.Pod
		err    error
		found  bool
		want   string
	}{
		"an object": {object: pod, found: true},
		"none":      {object: pod, err: apierrors.NewNotFound(corev1.Resource("pods"), "p")},
		"an error":  {object: pod, err: errors.New("boom"), want: "looking up a *v1.Pod in the cache: boom"},
	} {
		t.Run(name, func(t *testing.T) {
			got, found, err := reconcile.Found(tc.object, tc.err)
			if found != tc.found || (got != nil) != tc.found {
				t.Errorf("got %v, found %v", got, found)
			}
			if (err != nil) != (tc.want != "") || err != nil && err.Error() != tc.want {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
		})
	}
}
