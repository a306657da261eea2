// Package requests says what the outcome of a request proves: whether a write was executed whose answer was an error,
// and whether it is worth another try.
package requests

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"kcmd.dev/pkg/controller"
)

// LateWithin is how long after it was sent a write that had no answer may still be executed: an API server gives up on
// a request after a minute. A precondition makes that harmless, but there is none for a create, nor for the namespace in
// which a collection is deleted: what would be harmed waits.
const LateWithin = time.Minute + 5*time.Second

// statusClientClosedRequest is what some proxies answer when a connection ends before there is a response.
const statusClientClosedRequest = 499

// IsRefusal reports whether an error of a write says that it has not been executed. A timeout and an
// error inside the API server do not say so, nor does a proxy that gives up, nor an error of the connection, except if
// there was none.
// It judges the last attempt: client-go itself repeats requests that were answered with 5xx and Retry-After,
// for example while etcd cannot be reached.
func IsRefusal(err error) bool {
	var paused *controller.PausedError
	var stopped *controller.StoppedError
	if errors.As(err, &paused) || errors.As(err, &stopped) || utilnet.IsConnectionRefused(err) {
		return true
	}
	var unsent interface{ NotSent() bool } // clients.TokenError
	if errors.As(err, &unsent) && unsent.NotSent() {
		return true
	}
	var connection *net.OpError
	if errors.As(err, &connection) && connection.Op == "dial" {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError &&
		code != http.StatusRequestTimeout && code != statusClientClosedRequest
}

// MayHaveCreated reports whether a create that returned an error may have been executed nevertheless. Unlike
// IsRefusal it counts an error with the reason InternalError as a refusal: that is the answer if an admission
// webhook cannot be called, before anything is stored. An error of the storage, which may come after the object was
// stored, has another reason, or none. The answer of a proxy, or of a handler that panicked, contains no Status. The same
// holds of updates and deletions.
func MayHaveCreated(err error) bool {
	if IsRefusal(err) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	answer := status.Status()
	if strings.HasPrefix(answer.Message, "admission webhook ") && strings.Contains(answer.Message, " denied the request") {
		return false // whatever the code
	}
	return answer.Code != http.StatusInternalServerError || answer.Reason != metav1.StatusReasonInternalError ||
		apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
