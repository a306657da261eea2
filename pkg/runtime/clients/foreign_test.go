package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errForeign is the answer to another request, by which something has ended.
var errForeign = fmt.Errorf("%w: %w", errLost, apierrors.NewNotFound(corev1.Resource("leases"), "l"))

// Pins MGR-193.
func TestTheCauseOfAnEndIsNoAnswer(t *testing.T) {
	s := newServer(t)
	// With HTTP/2, net/http returns the cause of a context only while it connects.
	c := s.clients(func(o *Options) { o.Base.NextProtos = []string{"http/1.1"} })
	read := func(ctx context.Context, set *Set) error {
		_, err := set.Kubernetes.CoreV1().ConfigMaps("ns").Get(ctx, "x", metav1.GetOptions{})
		return err
	}
	remove := func(ctx context.Context, set *Set) error {
		return set.Kubernetes.CoreV1().ConfigMaps("ns").Delete(ctx, "x", metav1.DeleteOptions{})
	}
	endContext := func(cancel context.CancelCauseFunc, _ *ManualFence) { cancel(errForeign) }
	closeFence := func(_ context.CancelCauseFunc, fence *ManualFence) { fence.Close(errForeign) }
	for name, tc := range map[string]struct {
		request func(ctx context.Context, set *Set) error
		end     func(cancel context.CancelCauseFunc, fence *ManualFence)
		before  bool // the request
		want    error
	}{
		"the context of a read ends": {request: read, end: endContext},
		"a fence is closed":          {request: remove, end: closeFence, before: true, want: ErrFenced},
		"it closes":                  {request: remove, end: closeFence, want: ErrFenced},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			fence := NewFence()
			set, err := c.For(Identity{Name: "c"}, fence)
			if err != nil {
				t.Fatal(err)
			}
			over := make(chan struct{})
			defer close(over)
			s.answer(func(http.ResponseWriter, *http.Request) {
				tc.end(cancel, fence)
				<-over
			})
			if tc.before {
				tc.end(cancel, fence)
			}
			err = tc.request(ctx, set)
			if err == nil || apierrors.IsNotFound(err) {
				t.Errorf("the error is %v, of reason %q", err, apierrors.ReasonForError(err))
			}
			if tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("the error is %v, want %v", err, tc.want)
			}
		})
	}
}

// Pins MGR-193.
func TestTheCauseOfAnEndIsNoAnswerWhileABodyIsRead(t *testing.T) {
	rt := &foreignTransport{layer: layer{roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(errForeign)))}, nil
	})}}
	resp, err := rt.RoundTrip(&http.Request{Method: http.MethodGet})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if read, err := io.ReadAll(resp.Body); string(read) != "{" || !errors.Is(err, errLost) || apierrors.IsNotFound(err) {
		t.Errorf("read %q, and the error is %v, of reason %q", read, err, apierrors.ReasonForError(err))
	}
}

// What else an error says is kept.
func TestAForeignErrorIsEverythingButAnAnswer(t *testing.T) {
	if got := withoutAnswer(errLost); got != errLost { //nolint:errorlint // the same error
		t.Errorf("an error that contains no answer became %v", got)
	}
	if withoutAnswer(nil) != nil {
		t.Error("no error became one")
	}
	err := fmt.Errorf("writing: %w", withoutAnswer(fmt.Errorf("%w (%w)", errForeign, &unansweredError{context.Canceled})))
	var unanswered *unansweredError
	if !errors.Is(err, errLost) || !errors.Is(err, context.Canceled) || !errors.As(err, &unanswered) {
		t.Errorf("the error %v lost something", err)
	}
	var status *apierrors.StatusError
	if errors.As(err, &status) || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		t.Errorf("the error %v contains an answer", err)
	}
}
