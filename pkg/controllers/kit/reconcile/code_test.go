package reconcile

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Pins CTB-20 and ROOTCA-22.
func TestStatusCode(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("configmaps"), "a", errors.New("stale"))
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"success":                             {nil, "200"},
		"conflict":                            {conflict, "409"},
		"CTB-20, ROOTCA-41: wrapped conflict": {fmt.Errorf("updating: %w", conflict), "409"},
		"not found":                           {apierrors.NewNotFound(corev1.Resource("configmaps"), "a"), "404"},
		"status without":                      {&apierrors.StatusError{}, "500"},
		"no API error":                        {errors.New("connection refused"), "500"},
		"too many requests":                   {apierrors.NewTooManyRequests("slow down", 1), "429"},
		"client-side expiry":                  {fmt.Errorf("waiting: %w", os.ErrDeadlineExceeded), "500"},
		"server timeout":                      {apierrors.NewServerTimeout(corev1.Resource("configmaps"), "create", int(time.Second)), "500"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := StatusCode(tc.err); got != tc.want {
				t.Errorf("StatusCode = %q, want %q", got, tc.want)
			}
		})
	}
}
