package clients

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
)

// deletingTransport asks before each deletion, and refuses those that are stopped.
type deletingTransport struct {
	layer
	deletions *controller.Deletions
	unclear   UnclearDeletion // may be nil
	clock     clock.PassiveClock
	base      string // path before /api and /apis, without trailing slash
}

// UnclearDeletion is called after a deletion has failed in a way that leaves open whether the API server carried it out.
// The name is empty for the deletion of a collection; asked is the time at which the deletion was counted.
type UnclearDeletion func(of schema.GroupResource, namespace, name string, asked time.Time)

// RoundTrip implements http.RoundTripper.
func (t *deletingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodDelete && req.Method != http.MethodPost || !t.deletions.On() {
		return t.next.RoundTrip(req)
	}
	of, deletes := deletedBy(req.Method, strings.TrimPrefix(req.URL.Path, t.base))
	if !deletes {
		return t.next.RoundTrip(req)
	}
	asked := t.clock.Now()
	_, deletion, err := t.deletions.Ask(req.Context(), of.Resource, of.Namespace, of.Name)
	if err != nil {
		closeBody(req)
		return nil, fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, err)
	}
	defer deletion.End()
	resp, err := t.next.RoundTrip(req)
	switch open := err != nil && !unsent(err) || err == nil && leavesOpen(resp.StatusCode, of.Name == ""); {
	case open:
		deletion.Keep()
		if t.unclear != nil {
			t.unclear(of.Resource, of.Namespace, of.Name, asked)
		}
	case err == nil && resp.StatusCode < http.StatusMultipleChoices:
		deletion.Keep()
	}
	return resp, err
}

// deletedBy returns what a request deletes, and whether it deletes anything. The name is empty for
// everything in a namespace.
func deletedBy(method, path string) (of Target, deletes bool) {
	w, ok := writeOf(method, path)
	switch {
	case !ok:
		return Target{}, false
	case w.Verb == verbCreate:
		return w.Target, w.Subresource == "eviction" && w.Resource == corev1.Resource("pods")
	}
	return w.Target, w.Subresource == ""
}
