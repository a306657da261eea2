package reconcile_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Pins MGR-198 and WL-102.
func TestIsExpected(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	conflict := apierrors.NewConflict(pods, "p", errors.New("changed"))
	forbidden := apierrors.NewForbidden(pods, "p", errors.New("quota"))
	ending := apierrors.NewForbidden(pods, "p", errors.New("the namespace is being terminated"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	behind, boom := reconcile.Requeue(errors.New("behind")), errors.New("boom")
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"none":                         {nil, false},
		"a failure":                    {boom, false},
		"a failure of the API":         {forbidden, false},
		"a reason to requeue":          {behind, true},
		"a failure that is one":        {reconcile.Requeue(forbidden), true},
		"a conflict":                   {conflict, true},
		"a namespace that ends":        {ending, true},
		"wrapped":                      {fmt.Errorf("writing: %w", conflict), true},
		"a wrapped failure":            {fmt.Errorf("writing: %w", forbidden), false},
		"waiting for a cache":          {reconcile.AwaitCache(boom), true},
		"all joined":                   {errors.Join(conflict, behind), true},
		"joined with a failure":        {errors.Join(conflict, boom), false},
		"a failure joined with it":     {fmt.Errorf("writing: %w", errors.Join(boom, conflict)), false},
		"an aggregate":                 {utilerrors.NewAggregate([]error{conflict, ending}), true},
		"an aggregate with a failure":  {utilerrors.NewAggregate([]error{conflict, forbidden}), false},
		"an aggregate within a joined": {errors.Join(utilerrors.NewAggregate([]error{conflict}), behind), true},
	} {
		if got := reconcile.IsExpected(test.err); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestWorst(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("changed"))
	behind := reconcile.Requeue(errors.New("behind"))
	boom, crash := errors.New("boom"), errors.New("crash")
	for name, test := range map[string]struct {
		errs []error
		want error
	}{
		"no errors":                        {nil, nil},
		"nil only":                         {[]error{nil, nil}, nil},
		"the first of two failures":        {[]error{boom, crash}, boom},
		"a failure after an expected one":  {[]error{behind, boom}, boom},
		"a failure before an expected one": {[]error{boom, behind}, boom},
		"a failure between nils":           {[]error{nil, boom, nil}, boom},
		"the first of two expected ones":   {[]error{conflict, behind}, conflict},
		"an expected one after nil":        {[]error{nil, behind}, behind},
	} {
		given := slices.Clone(test.errs)
		if got := reconcile.Worst(given...); got != test.want { //nolint:errorlint // it returns one of them as it is
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
		if !slices.Equal(given, test.errs) {
			t.Errorf("%s: the errors were changed to %v", name, given)
		}
	}
}
