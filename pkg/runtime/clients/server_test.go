package clients

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

// request is what the server saw.
type request struct {
	method, path, userAgent, authorization, contentType, accept string
	body                                                        []byte
}

// server is an API server that notes requests and connections.
type server struct {
	*httptest.Server
	t           *testing.T
	connections atomic.Int32

	mu       sync.Mutex
	requests []request
	handle   func(w http.ResponseWriter, r *http.Request) // default: an empty object
}

func newServer(t *testing.T) *server {
	s := &server{t: t}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.EnableHTTP2 = true
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 100} // as an API server
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil && r.Context().Err() == nil {
		s.t.Errorf("reading a body: %v", err)
	}
	s.mu.Lock()
	s.requests = append(s.requests, request{
		method: r.Method, path: r.URL.Path, userAgent: r.UserAgent(), authorization: r.Header.Get("Authorization"),
		contentType: r.Header.Get("Content-Type"), accept: r.Header.Get("Accept"), body: body,
	})
	handle := s.handle
	s.mu.Unlock()
	if handle == nil {
		handle = emptyObject
	}
	handle(w, r)
}

func emptyObject(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}})
}

func reply(w http.ResponseWriter, code int, o any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(o) // the client may be gone
}

func (s *server) answer(handle func(w http.ResponseWriter, r *http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handle = handle
}

// seen returns and forgets what was requested.
func (s *server) seen() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.requests
	s.requests = nil
	return seen
}

func (s *server) config() *rest.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return &rest.Config{
		Host:            s.URL,
		BearerToken:     "own-token",
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
		ContentConfig:   rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"},
		WarningHandler:  rest.NoWarnings{},
	}
}

func (s *server) clients(change func(*Options)) *Clients {
	s.t.Helper()
	o := Options{Base: s.config(), ForbiddenManager: "kcmd.dev/shrunk"}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// prefixed returns clients that send a content type, to an API whose paths have a prefix.
func (s *server) prefixed(contentType string, recorder Recorder, id Identity) *Set {
	s.t.Helper()
	set, err := s.clients(func(o *Options) {
		o.Base.ContentType = contentType
		o.Base.Host += "/prefix"
		o.Recorder = recorder
	}).For(id, NewFence())
	if err != nil {
		s.t.Fatal(err)
	}
	return set
}

func (s *server) set(id Identity, fence Fence) *Set {
	s.t.Helper()
	set, err := s.clients(nil).For(id, fence)
	if err != nil {
		s.t.Fatal(err)
	}
	return set
}
