package faultproxy

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// AnswerFromPast has lists answered with what they would answer now. Streaming lists are
// refused as by a server that does not know them, so that a reflector lists instead. Watches
// pass, from the version a list told too. Reads of one object pass unless Verbs has get.
//
// With Requests.FromCache it does only what a server may whose cache is behind: a live read
// passes, and so does one that asks for a later version.
func (p *Proxy) AnswerFromPast(ctx context.Context, r Requests) *Fault {
	// All resources have their versions from one etcd, so any consistent list tells the
	// version of everything that is stored.
	list, err := p.plane.AdminClient().CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		p.fail(fmt.Errorf("asking for the resource version to answer from: %w", err))
	}
	return p.add(&Fault{kind: answersFromPast, requests: r, then: list.ResourceVersion})
}

// pastOf returns the fault that has a request answered from the past.
func (p *Proxy) pastOf(r *http.Request, a attributes) *Fault {
	if r.Method != http.MethodGet || a.resource.Resource == "" || a.subresource != "" {
		return nil
	}
	for _, f := range p.inForce() {
		if f.kind == answersFromPast && f.concernsRead(r, a) {
			return f
		}
	}
	return nil
}

// concernsRead reports whether the fault changes the answer to a read.
func (f *Fault) concernsRead(r *http.Request, a attributes) bool {
	requests, query := f.requests, r.URL.Query()
	switch {
	case a.verb == "get":
		return slices.Contains(requests.Verbs, "get") && requests.match(a) && f.mayAnswer(query)
	case a.verb == "watch" && isStreamingList(r):
		// It asks for a list. The list that follows it says what may be old.
		a.verb, requests.FromCache = "list", false
		return requests.match(a)
	case a.verb == "list" && query.Get("continue") == "" &&
		query.Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchExact):
		return requests.match(a) && f.mayAnswer(query)
	}
	return false
}

// mayAnswer reports whether an answer of then is not older than a read allows, where that
// matters.
func (f *Fault) mayAnswer(query url.Values) bool {
	if !f.requests.FromCache {
		return true
	}
	then, thenErr := strconv.ParseUint(f.then, 10, 64)
	atLeast, err := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
	return thenErr == nil && err == nil && atLeast <= then
}

// askPast turns a read into one of the past.
func (f *Fault) askPast(r *http.Request, q *clientRequest) (*http.Request, *metav1.Status) {
	switch q.verb {
	case "watch":
		return nil, streamingListsUnknown(q.resource)
	case "get":
		q.edit = func(answer *http.Response) error { return onlyItem(answer, q.attributes) }
		r = acceptJSON(r, formOfList)
		// The collection the object is in.
		r.URL.Path = strings.TrimSuffix(r.URL.Path, "/"+q.name)
		r.URL.RawPath = ""
		return atVersion(r, f.then, url.Values{"fieldSelector": {"metadata.name=" + q.name}}), nil
	}
	return atVersion(r, f.then, r.URL.Query()), nil
}

// formOfList returns the form of a list for the form of an object. A table is none.
func formOfList(form string) string {
	if strings.Contains(form, "as=Table") {
		return ""
	}
	return strings.Replace(form, "as=PartialObjectMetadata", "as=PartialObjectMetadataList", 1)
}

// atVersion asks for what a list answered at a resource version.
func atVersion(r *http.Request, version string, query url.Values) *http.Request {
	query.Set("resourceVersion", version)
	query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	asked := *r.URL
	asked.RawQuery = query.Encode()
	r = r.WithContext(r.Context())
	r.URL = &asked
	return r
}

// streamingListsUnknown is what an API server answers that has no streaming lists.
func streamingListsUnknown(resource schema.GroupResource) *metav1.Status {
	forbidden := field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
	status := apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, resource.String(), field.ErrorList{forbidden})
	return &status.ErrStatus
}

// onlyItem answers the read of an object from a list of only that object.
func onlyItem(answer *http.Response, a attributes) error {
	if answer.StatusCode != http.StatusOK {
		return nil
	}
	list, err := readObject(answer)
	if err != nil {
		return err
	}
	items, _ := list["items"].([]any)
	if len(items) == 0 {
		return replaceWithStatus(answer, &apierrors.NewNotFound(a.resource, a.name).ErrStatus)
	}
	item, ok := items[0].(map[string]any)
	if !ok {
		return fmt.Errorf("an item of a list is %T", items[0])
	}
	item["apiVersion"], item["kind"] = list["apiVersion"], strings.TrimSuffix(fmt.Sprint(list["kind"]), "List")
	return replaceBody(answer, item)
}
