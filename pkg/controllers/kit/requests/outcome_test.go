package requests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/controller"
)

var pods = schema.GroupResource{Resource: "pods"}

// unsent is an error that says itself whether the request was sent, such as a TokenError of pkg/runtime/clients.
type unsent struct{ is bool }

func (u unsent) Error() string { return "no token" }

func (u unsent) NotSent() bool { return u.is }

// Pins CRON-70 and EP-80.
func TestLateWithin(t *testing.T) {
	if LateWithin != 65*time.Second {
		t.Errorf("it is %s", LateWithin)
	}
}

// Pins WL-97.
func TestRefusals(t *testing.T) {
	answer := func(code int) error {
		return fmt.Errorf("deleting: %w", apierrors.NewGenericServerResponse(code, "delete", pods, "p", "", 0, false))
	}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"forbidden":                 {answer(http.StatusForbidden), true},
		"a conflict":                {answer(http.StatusConflict), true},
		"too many requests":         {answer(http.StatusTooManyRequests), true},
		"a namespace at rest":       {fmt.Errorf("deleting: %w", &controller.PausedError{}), true},
		"too many deletions":        {fmt.Errorf("deleting: %w", &controller.StoppedError{}), true},
		"the request timed out":     {answer(http.StatusRequestTimeout), false},
		"the server timed out":      {answer(http.StatusGatewayTimeout), false},
		"WL-122: a proxy gave up":   {answer(499), false},
		"the server failed":         {answer(http.StatusInternalServerError), false},
		"a bad request":             {answer(http.StatusBadRequest), true},
		"an answer without a code":  {&apierrors.StatusError{ErrStatus: metav1.Status{Message: "failed"}}, false},
		"there was no token":        {fmt.Errorf("deleting: %w", unsent{true}), true},
		"it says that it was sent":  {fmt.Errorf("deleting: %w", unsent{false}), false},
		"nobody listens":            {fmt.Errorf("deleting: %w", syscall.ECONNREFUSED), true},
		"there was no connection":   {&url.Error{Op: "Delete", Err: &net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}}, true},
		"the connection broke":      {&url.Error{Op: "Delete", Err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}}, false},
		"the connection was closed": {io.ErrUnexpectedEOF, false},
		"the instance has ended":    {context.Canceled, false},
	} {
		if got := IsRefusal(test.err); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Pins WL-115.
func TestCreatesThatMayHaveBeenExecuted(t *testing.T) {
	storage := apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	storage.ErrStatus.Reason = metav1.StatusReasonUnknown
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{
		Code: http.StatusInternalServerError, Message: `admission webhook "pods.example.com" denied the request: lookup failed`,
	}}
	quotes := func(message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInternalServerError, Message: message}}
	}
	answer := func(code int) error {
		return apierrors.NewGenericServerResponse(code, "create", pods, "p", "", 0, true)
	}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"forbidden":                 {answer(http.StatusForbidden), false},
		"too many requests":         {answer(http.StatusTooManyRequests), false},
		"a namespace at rest":       {&controller.PausedError{}, false},
		"nobody listens":            {syscall.ECONNREFUSED, false},
		"a webhook failed":          {apierrors.NewInternalError(errors.New("failed calling webhook")), false},
		"a webhook denied it":       {denied, false},
		"a webhook is quoted":       {quotes(`admission webhook "pods.example.com" allowed it, then: etcdserver: request timed out`), true},
		"a denial is quoted":        {quotes(`etcdserver: a peer denied the request`), true},
		"the code is not a failure": {&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonInternalError}}, true},
		"the storage timed out":     {storage, true},
		"the storage is away":       {apierrors.NewServerTimeout(pods, "create", 2), true},
		"the request timed out":     {apierrors.NewTimeoutError("request did not complete", 0), true},
		"a page of an error":        {answer(http.StatusInternalServerError), true},
		"the gateway failed":        {answer(http.StatusBadGateway), true},
		"the gateway timed out":     {answer(http.StatusGatewayTimeout), true},
		"the connection was closed": {io.ErrUnexpectedEOF, true},
		"WL-122: a proxy gave up":   {answer(499), true},
	} {
		if got := MayHaveCreated(test.err); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
