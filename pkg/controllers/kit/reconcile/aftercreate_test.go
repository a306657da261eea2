package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

func TestAfterCreate(t *testing.T) {
	secrets := corev1.Resource("secrets")
	terminating := apierrors.NewForbidden(secrets, "s", errors.New("the namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tc := range map[string]struct {
		answer   error
		want     string
		expected bool
	}{
		"ROOTCA-37, SA-28: created":                              {answer: nil},
		"ROOTCA-42, SA-32: the namespace is terminating":         {answer: terminating},
		"ROOTCA-42, SA-34: the namespace is gone":                {answer: apierrors.NewNotFound(corev1.Resource("namespaces"), "a")},
		"ROOTCA-42, SA-34: the namespace is gone, wrapped":       {answer: fmt.Errorf("posting: %w", apierrors.NewNotFound(corev1.Resource("namespaces"), "a"))},
		"ROOTCA-42, SA-34: an admission webhook does not find":   {apierrors.NewNotFound(corev1.Resource("policies"), "p"), `creating secret a/s: policies "p" not found`, false},
		"ROOTCA-42, SA-34: it is not found, and nothing more":    {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound}}, "creating secret a/s: ", false},
		"ROOTCA-46, SA-33: it exists, and the cache is behind":   {apierrors.NewAlreadyExists(secrets, "s"), `the cache does not show secret a/s: secrets "s" already exists`, true},
		"ROOTCA-15, SA-15c: a quota":                             {apierrors.NewForbidden(secrets, "s", errors.New("exceeded quota")), `creating secret a/s: secrets "s" is forbidden: exceeded quota`, false},
		"ROOTCA-15, SA-15c: no answer, and it may have happened": {errors.New("connection lost"), "creating secret a/s: connection lost", false},
	} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t)
			l := reconcile.New(env.Env, reconcile.Options[string]{Queue: "q", Workers: 1}, func(context.Context, string) error { return nil })
			err := reconcile.AfterCreate(l, "a", "secret a/s", tc.answer)
			if got := fmt.Sprint(err); err != nil && got != tc.want || err == nil && tc.want != "" {
				t.Errorf("the error is %q, want %q", got, tc.want)
			}
			if err != nil && (!errors.Is(err, tc.answer) || reconcile.IsExpected(err) != tc.expected) {
				t.Errorf("the error is %v, expected %v", err, reconcile.IsExpected(err))
			}
			again := l.Keys(func(string) bool { return true })
			if err != nil {
				if len(again) != 0 {
					t.Errorf("a failure is queued besides: %+v", again)
				}
				return
			}
			if len(again) != 1 || again[0].State != controller.KeyDelayed || again[0].Until.Sub(env.Clock.Now()).Seconds() != 5 {
				t.Errorf("queued is %+v", again)
			}
		})
	}
}
