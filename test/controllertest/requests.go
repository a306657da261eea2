package controllertest

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// A request is printed as "verb resource[/subresource] [name]", such as "update jobs/status
// pi" or "list pods". What is created under a generated name has the part that was asked for:
// "create pods pi-". A request without a name in what a test wants, refuses or intercepts
// stands for those with any name.

// Requests returns the requests since it was called last, in order, reads included. One that is sent during the call
// may be lost: while a controller is at work, look at the Writes, which stay.
func (e *Env) Requests() []string {
	actions := e.Fake.Actions()
	e.Fake.ClearActions()
	var all []string
	for _, action := range actions {
		all = append(all, printed(action))
	}
	return all
}

// WantRequests takes the requests since the last time, which have to be these, in order.
func (e *Env) WantRequests(t testing.TB, want ...string) {
	t.Helper()
	if got := e.Requests(); !slices.EqualFunc(want, got, stands) {
		t.Errorf("requests are %q, want %q", got, want)
	}
}

// WantRequestsInAnyOrder is WantRequests where order is of no matter.
func (e *Env) WantRequestsInAnyOrder(t testing.TB, want ...string) {
	t.Helper()
	if got := e.Requests(); !sameInAnyOrder(want, got) {
		t.Errorf("requests are %q, want %q in any order", got, want)
	}
}

// Refuse makes the requests that are meant fail, until allow is called.
func (e *Env) Refuse(request string, err error) (allow func()) {
	return e.RefuseIf(request, err, func(int) bool { return true })
}

// RefuseIf makes those of the requests that are meant fail whose number, counted from 1, is
// one to be refused, until allow is called.
func (e *Env) RefuseIf(request string, err error, refused func(n int) bool) (allow func()) {
	n, allowed := 0, false
	e.Intercept(request, func(clienttesting.Action) error {
		n++
		if allowed || !refused(n) {
			return nil
		}
		return err
	})
	return func() {
		// Requests are answered one at a time, under the lock of the fake server.
		e.Fake.Lock()
		defer e.Fake.Unlock()
		allowed = true
	}
}

// Intercept calls before each of the requests that are meant, before the API server acts on
// it. An error of before is the answer to the request. Before must send no request itself, and intercept none.
func (e *Env) Intercept(request string, before func(clienttesting.Action) error) {
	e.react("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if !stands(request, printed(action)) {
			return false, nil, nil
		}
		err := before(action)
		return err != nil, nil, err
	})
}

// react prepends a reactor, also while requests are sent: the fake reads its reactors under its lock, and takes none to
// change them.
func (e *Env) react(verb, resource string, reaction clienttesting.ReactionFunc) {
	e.Fake.Lock()
	defer e.Fake.Unlock()
	e.Fake.PrependReactor(verb, resource, reaction)
}

// printed is how a request is printed.
func printed(action clienttesting.Action) string {
	request := action.GetVerb() + " " + action.GetResource().Resource
	if action.GetSubresource() != "" {
		request += "/" + action.GetSubresource()
	}
	if name := nameIn(action); name != "" {
		request += " " + name
	}
	return request
}

func nameIn(action clienttesting.Action) string {
	if named, ok := action.(interface{ GetName() string }); ok {
		return named.GetName()
	}
	sent, ok := action.(interface{ GetObject() runtime.Object })
	if !ok {
		return ""
	}
	object, err := meta.Accessor(sent.GetObject())
	if err != nil {
		return ""
	}
	if object.GetName() != "" {
		return object.GetName()
	}
	return object.GetGenerateName()
}

// stands reports whether a wanted request stands for one that was sent.
func stands(want, sent string) bool {
	return sent == want || strings.Count(want, " ") == 1 && strings.HasPrefix(sent, want+" ")
}

// sameInAnyOrder pairs wanted requests with those that were sent, those with names first,
// which stand for one request only.
func sameInAnyOrder(want, sent []string) bool {
	if len(want) != len(sent) {
		return false
	}
	want, sent = slices.Clone(want), slices.Clone(sent)
	slices.SortFunc(want, func(a, b string) int { return strings.Count(b, " ") - strings.Count(a, " ") })
	for _, w := range want {
		i := slices.IndexFunc(sent, func(s string) bool { return stands(w, s) })
		if i < 0 {
			return false
		}
		sent = slices.Delete(sent, i, i+1)
	}
	return true
}
