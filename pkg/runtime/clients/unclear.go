package clients

import (
	"errors"
	"net"
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// statusClientClosedRequest is what some proxies answer when a connection ends before there is a response.
const statusClientClosedRequest = 499

// leavesOpen reports whether a write that was answered with a status code has failed and may have been carried out all
// the same, as a whole or in part. What the API server answers with 4xx it has not carried out, unless it is the
// deletion of a collection: the objects are deleted one by one, until one of them must not be. 408 and 499 are answers
// of proxies, which say nothing about what the API server did.
func leavesOpen(code int, collection bool) bool {
	switch {
	case code == http.StatusRequestTimeout, code == statusClientClosedRequest, code >= http.StatusInternalServerError:
		return true
	case code == http.StatusUnauthorized, code == http.StatusNotFound, code == http.StatusMethodNotAllowed:
		return false // there is no such collection, or nobody may delete it
	}
	return collection && code >= http.StatusBadRequest
}

// unsent reports whether the error of a write says that it was not sent.
func unsent(err error) bool {
	if errors.Is(err, ErrFenced) {
		var unanswered *unansweredError
		return !errors.As(err, &unanswered)
	}
	var connection *net.OpError
	return utilnet.IsConnectionRefused(err) || errors.As(err, &connection) && connection.Op == "dial"
}
