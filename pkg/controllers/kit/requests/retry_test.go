package requests

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

func TestRetryOnConflict(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", errors.New("x"))
	timeout := &url.Error{Op: "Put", URL: "https://server", Err: context.DeadlineExceeded}
	cutOff := &url.Error{Op: "Put", URL: "https://server", Err: context.Canceled}
	other := errors.New("other")
	for name, tc := range map[string]struct {
		answers []error
		want    error
		calls   int
	}{
		"a success":                    {answers: []error{nil}, calls: 1},
		"a conflict before":            {answers: []error{conflict, nil}, calls: 2},
		"conflicts only":               {answers: []error{conflict}, want: conflict, calls: 3},
		"another error":                {answers: []error{other}, want: other, calls: 1},
		"WL-119: a timeout":            {answers: []error{timeout}, want: timeout, calls: 1},
		"WL-119: a conflict before it": {answers: []error{conflict, timeout}, want: timeout, calls: 2},
		"WL-119: it is cut off":        {answers: []error{cutOff}, want: cutOff, calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := RetryOnConflict(wait.Backoff{Steps: 3, Duration: time.Nanosecond}, func() error {
				answer := tc.answers[min(calls, len(tc.answers)-1)]
				calls++
				return answer
			})
			if !errors.Is(err, tc.want) || tc.want == nil && err != nil || calls != tc.calls {
				t.Errorf("got %v after %d calls, want %v after %d", err, calls, tc.want, tc.calls)
			}
		})
	}
}
