package faultproxy

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Requests selects requests. A field with its zero value matches everything.
type Requests struct {
	// Client is a part of the User-Agent.
	Client string
	// User is the authenticated user: that of the client certificate, else the one a
	// bearer token names.
	User string
	// Verbs are Kubernetes verbs: get, list, watch, create, update, patch, delete,
	// deletecollection; for other paths than those of resources, the HTTP method in lower
	// case. A streaming list is a watch.
	Verbs []string
	// Resource is the resource; its subresources belong to it.
	Resource schema.GroupResource
	// Whole leaves only requests for objects as a whole, not those for subresources.
	Whole bool
	// Except are resources that are not selected.
	Except []schema.GroupResource
	// Subresource is one of them, like status.
	Subresource string
	// Namespace and Name are those in the URL; the name of a create is that of the object
	// sent. For faults on events they are those of the event's object, whatever was asked
	// to be watched.
	Namespace, Name string
	// ClusterScoped selects requests for objects without a namespace besides those in Namespace.
	ClusterScoped bool
	// ExceptNames are the names of objects that are not selected, by resource.
	ExceptNames map[schema.GroupResource][]string
	// Path is the whole path of the URL. It is how to match what is not for resources:
	// /apis, /version.
	Path string
	// FromCache leaves only reads that a server may answer from a cache that is behind:
	// those with a resource version.
	FromCache bool
	// Nth leaves only one of the requests: the how-manieth, from 1, that comes to the fault. Only Refuse,
	// LoseAnswers and Sever have it.
	Nth int
}

// attributes are what is matched of a request. They are comparable, so that requests are
// counted by them.
type attributes struct {
	client, user, verb string
	resource           schema.GroupResource
	subresource        string
	namespace, name    string
	path               string
	fromCache          bool
}

var requestInfos = &request.RequestInfoFactory{
	APIPrefixes:          sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api"),
}

// attributesOf describes a request of a user. body is what was sent with it.
func attributesOf(r *http.Request, user string, body []byte) attributes {
	// With an error the rest is as good as it gets: the API server will refuse it.
	info, _ := requestInfos.NewRequestInfo(r)
	a := attributes{
		client:      r.UserAgent(),
		user:        user,
		verb:        info.Verb,
		resource:    schema.GroupResource{Group: info.APIGroup, Resource: info.Resource},
		subresource: info.Subresource,
		namespace:   info.Namespace,
		name:        info.Name,
		path:        r.URL.Path,
		fromCache:   r.Method == http.MethodGet && r.URL.Query().Get("resourceVersion") != "",
	}
	if a.verb == "create" && a.name == "" {
		a.name = nameOf(body, r.Header.Get("Content-Type"))
	}
	return a
}

// match reports whether a request is among the selected ones.
func (s *Requests) match(a attributes) bool {
	return s.matchWatch(a) &&
		(s.Namespace == "" || s.Namespace == a.namespace || s.ClusterScoped && a.namespace == "") &&
		(s.Name == "" || s.Name == a.name) &&
		!slices.Contains(s.ExceptNames[a.resource], a.name)
}

// matchWatch is match without what selects events rather than their watch.
func (s *Requests) matchWatch(a attributes) bool {
	return (s.Client == "" || strings.Contains(a.client, s.Client)) &&
		(s.User == "" || s.User == a.user) &&
		(len(s.Verbs) == 0 || slices.Contains(s.Verbs, a.verb)) &&
		(s.Resource == schema.GroupResource{} || s.Resource == a.resource) &&
		!slices.Contains(s.Except, a.resource) &&
		s.matchPart(a) &&
		(s.Path == "" || s.Path == a.path) &&
		(!s.FromCache || a.fromCache)
}

// matchPart reports whether a request is for the part of an object that is selected.
func (s *Requests) matchPart(a attributes) bool {
	return (s.Subresource == "" || s.Subresource == a.subresource) && (!s.Whole || a.subresource == "")
}

// isStreamingList reports whether a watch begins with what exists.
func isStreamingList(r *http.Request) bool {
	wanted, err := strconv.ParseBool(r.URL.Query().Get("sendInitialEvents"))
	return err == nil && wanted
}
