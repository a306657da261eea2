package controller_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controller"
)

// Pins MGR-194.
func TestAbsent(t *testing.T) {
	nodes := corev1.Resource("nodes")
	page := func(code int) error {
		return apierrors.NewGenericServerResponse(code, "get", nodes, "n", "404 page not found", 0, true)
	}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                 {nil, false},
		"a Status":                 {apierrors.NewNotFound(nodes, "n"), true},
		"a wrapped Status":         {fmt.Errorf("reading: %w", apierrors.NewNotFound(nodes, "n")), true},
		"a code without reason":    {&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusNotFound}}, true},
		"a page":                   {page(http.StatusNotFound), false},
		"a wrapped page":           {fmt.Errorf("reading: %w", page(http.StatusNotFound)), false},
		"another Status":           {apierrors.NewForbidden(nodes, "n", errors.New("no")), false},
		"the object has expired":   {apierrors.NewResourceExpired("n"), false},
		"a page of the wrong code": {page(http.StatusBadGateway), false},
		"no answer":                {errors.New("connection refused"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := controller.Absent(tc.err); got != tc.want {
				t.Errorf("Absent = %v, want %v", got, tc.want)
			}
		})
	}
}
