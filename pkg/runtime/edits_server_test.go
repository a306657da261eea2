package runtime_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// leaseServer is as much of an API server as a process needs whose controllers read nothing:
// it serves leases, and accepts events.
type leaseServer struct {
	*httptest.Server

	mu      sync.Mutex
	leases  map[string]*coordinationv1.Lease
	version int
	events  []*corev1.Event
}

func newLeaseServer(t *testing.T) *leaseServer {
	s := &leaseServer{leases: map[string]*coordinationv1.Lease{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// ServeHTTP implements http.Handler.
func (s *leaseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const leases = "/apis/coordination.k8s.io/v1/"
	switch path := r.URL.Path; {
	case path == "/api":
		answer(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}})
	case path == "/api/v1":
		answer(w, http.StatusOK, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1"})
	case path == "/apis":
		answer(w, http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}})
	case r.URL.Query().Get("watch") != "":
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done() // nothing happens that its client did not do itself
	case strings.HasPrefix(path, leases):
		s.serveLeases(w, r, strings.TrimPrefix(path, leases))
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/events"):
		if e := decode[*corev1.Event](w, r); e != nil {
			s.mu.Lock()
			s.events = append(s.events, e)
			s.mu.Unlock()
			answer(w, http.StatusCreated, e)
		}
	case r.Method == http.MethodPatch && strings.Contains(path, "/events/"):
		s.repeatEvent(w, r, path[strings.LastIndex(path, "/")+1:])
	default:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}

// repeatEvent adds a stored event as often as a patch says that it has occurred.
func (s *leaseServer) repeatEvent(w http.ResponseWriter, r *http.Request, name string) {
	var patch corev1.Event
	if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReason(err.Error()))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var stored *corev1.Event
	occurred := int32(0)
	for _, e := range s.events {
		if e.Name == name {
			stored = e
			occurred++
		}
	}
	if stored == nil {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	for ; occurred < patch.Count; occurred++ {
		s.events = append(s.events, stored)
	}
	answer(w, http.StatusOK, stored)
}

func (s *leaseServer) serveLeases(w http.ResponseWriter, r *http.Request, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path = strings.TrimPrefix(path, "namespaces/")
	switch r.Method {
	case http.MethodGet:
		if path == "leases" || strings.HasSuffix(path, "/leases") {
			answer(w, http.StatusOK, s.list())
			return
		}
		if l := s.leases[path]; l != nil {
			answer(w, http.StatusOK, l)
			return
		}
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case http.MethodPost, http.MethodPut:
		l := decode[*coordinationv1.Lease](w, r)
		if l == nil {
			return
		}
		if r.Method == http.MethodPost {
			path += "/" + l.Name
		}
		if old := s.leases[path]; old != nil && old.ResourceVersion != l.ResourceVersion {
			refuse(w, http.StatusConflict, metav1.StatusReasonConflict)
			return
		}
		s.version++
		l.ResourceVersion = strconv.Itoa(s.version)
		l.TypeMeta = metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"}
		s.leases[path] = l
		answer(w, http.StatusOK, l)
	default:
		refuse(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed)
	}
}

// annotation returns the value that leases have for an annotation, by the names of the leases.
func (s *leaseServer) annotation(key string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := map[string]string{}
	for _, l := range s.leases {
		if value, ok := l.Annotations[key]; ok {
			values[l.Name] = value
		}
	}
	return values
}

// eventsOf returns the messages of the events with a reason, those that repeat another one
// included.
func (s *leaseServer) eventsOf(reason string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var messages []string
	for _, e := range s.events {
		if e.Reason == reason {
			messages = append(messages, e.Type+" "+e.Message)
		}
	}
	return messages
}

func (s *leaseServer) list() coordinationv1.LeaseList {
	list := coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{Kind: "LeaseList", APIVersion: "coordination.k8s.io/v1"}}
	list.ResourceVersion = strconv.Itoa(s.version)
	for _, l := range s.leases {
		list.Items = append(list.Items, *l)
	}
	return list
}

// decode reads an object of a type, in JSON or protobuf; nil if it is of another, which is
// refused.
func decode[T k8sruntime.Object](w http.ResponseWriter, r *http.Request) (object T) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		var decoded k8sruntime.Object
		decoded, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if typed, ok := decoded.(T); ok {
			return typed
		}
	}
	refuse(w, http.StatusBadRequest, metav1.StatusReason(fmt.Sprintf("%T is sent: %v", object, err)))
	return object
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	answer(w, code, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: metav1.StatusFailure, Reason: reason, Code: int32(code)})
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}
