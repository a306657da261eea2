package clients

import (
	"errors"
	"slices"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controller"
)

func TestNamespaceIn(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces/shop/pods":                      "shop",
		"/api/v1/namespaces/shop/pods/web/eviction":         "shop",
		"/api/v1/namespaces/shop":                           "shop",
		"/api/v1/namespaces/shop/finalize":                  "shop",
		"/apis/apps/v1/namespaces/shop/deployments/web":     "shop",
		"/apis/example.org/v1/namespaces/shop/namespaces/x": "shop",
		"/api/v1/namespaces":                                "",
		"/api/v1/nodes/shop":                                "",
		"/apis/apps/v1/deployments":                         "",
		"/apis/example.org/v1/things/namespaces/shop":       "",
		"/healthz": "",
		"/api/v1":  "",
		"":         "",
	} {
		if got := namespaceIn(path); got != want {
			t.Errorf("%s is in %q, want %q", path, got, want)
		}
	}
}

// Whatever the client and the verb, a write into a paused namespace is not sent, and says why.
func TestAPauseStopsWritesIntoItsNamespaceAndNothingElse(t *testing.T) {
	ctx := t.Context()
	s := newServer(t)
	pauses := &controller.Pauses{}
	set := s.set(Identity{Name: "c", Pauses: pauses}, NewFence())
	all := writes(ctx, set, nil)
	all["delete"] = func() error { return set.Kubernetes.CoreV1().ConfigMaps("ns").Delete(ctx, "x", metav1.DeleteOptions{}) }
	all["metadata delete"] = func() error {
		return set.Metadata.Resource(configMaps).Namespace("ns").Delete(ctx, "x", metav1.DeleteOptions{})
	}
	all["of the Namespace"] = func() error { return set.Kubernetes.CoreV1().Namespaces().Delete(ctx, "ns", metav1.DeleteOptions{}) }
	refused := func(paused bool) {
		t.Helper()
		for name, write := range all {
			var is *controller.PausedError
			if err := write(); errors.As(err, &is) != paused || !slices.Equal(controller.PausedIn(err), map[bool][]string{true: {"ns"}}[paused]) {
				t.Errorf("%s: %v, want it refused: %t", name, err, paused)
			}
		}
	}
	refused(false)
	pauses.Set([]string{"ns", "other"})
	refused(true)
	for name, allowed := range map[string]func() error{
		"a read": func() error {
			_, err := set.Kubernetes.CoreV1().ConfigMaps("ns").Get(ctx, "x", metav1.GetOptions{})
			return err
		},
		"a write elsewhere": func() error {
			return set.Kubernetes.CoreV1().ConfigMaps("elsewhere").Delete(ctx, "x", metav1.DeleteOptions{})
		},
		"a write of what has no namespace": func() error { return set.Kubernetes.CoreV1().Nodes().Delete(ctx, "ns", metav1.DeleteOptions{}) },
		"a review": func() error {
			_, err := set.Kubernetes.AuthorizationV1().LocalSubjectAccessReviews("ns").Create(ctx, &authorizationv1.LocalSubjectAccessReview{}, metav1.CreateOptions{})
			return err
		},
	} {
		if err := allowed(); controller.IsPaused(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	pauses.Set([]string{"other"})
	refused(false)
}
