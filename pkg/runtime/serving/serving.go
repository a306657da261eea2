// Package serving is the HTTPS endpoint of the process: health, metrics, status and
// profiling, with delegated authentication and authorization.
//
//  1. The endpoint is there from the start, on a standby too.
//  2. A changed configuration takes effect at once: a new listener is opened, then the
//     old one is closed and its requests get time to end. If the address stays the
//     same, the old one is closed first.
//  3. If the new configuration cannot be served, the old one is served again and the
//     change is refused.
package serving

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"

	"k8s.io/controller-manager/app"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config/v1beta1"
)

// requestGrace is how long requests may go on after their listener was closed.
const requestGrace = 5 * time.Second

// Server serves one handler under a configuration that may change.
type Server struct {
	handler func(profiling bool) http.Handler

	mu      sync.Mutex
	applied *v1beta1.Serving
	current *listening
}

// listening is one open listener with its requests.
type listening struct {
	address string
	stop    chan struct{}
	stopped <-chan struct{}
	closed  <-chan struct{}
}

// New makes a server that does not listen yet. handler makes the handler of what is
// served behind authentication and authorization.
func New(handler func(profiling bool) http.Handler) *Server {
	return &Server{handler: handler}
}

// Apply serves under a configuration. If that fails, what was served before still is.
func (s *Server) Apply(ctx context.Context, c v1beta1.Serving) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.applied != nil && reflect.DeepEqual(*s.applied, c) {
		return nil
	}
	sameAddress := s.current != nil && s.applied.BindAddress == c.BindAddress && *s.applied.Port == *c.Port
	if sameAddress {
		s.current.closeListener()
	}
	next, err := s.listen(ctx, c)
	if err != nil {
		if sameAddress {
			if restored, again := s.listen(ctx, *s.applied); again != nil {
				klog.FromContext(ctx).Error(again, "The endpoint cannot be restored")
			} else {
				s.current = restored
			}
		}
		return fmt.Errorf("serving on %s port %d: %w", c.BindAddress, *c.Port, err)
	}
	if s.current != nil && !sameAddress {
		s.current.closeListener()
	}
	s.current, s.applied = next, &c
	return nil
}

// Address is where the server listens, empty if it does not.
func (s *Server) Address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return ""
	}
	return s.current.address
}

// Shutdown closes the listener and waits for requests under way, for a short time.
func (s *Server) Shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return
	}
	s.current.closeListener()
	<-s.current.stopped
	s.current = nil
}

func (s *Server) listen(ctx context.Context, c v1beta1.Serving) (*listening, error) {
	if *c.Port == 0 {
		return nil, nil
	}
	in, err := build(c)
	if err != nil {
		return nil, err
	}
	handler := app.BuildHandlerChain(s.handler(*c.Profiling), &in.authorization, &in.authentication)
	l := &listening{address: in.serving.Listener.Addr().String(), stop: make(chan struct{})}
	l.stopped, l.closed, err = in.serving.Serve(handler, requestGrace, l.stop)
	if err != nil {
		return nil, in.closed(err)
	}
	return l, nil
}

func (l *listening) closeListener() {
	if l == nil {
		return
	}
	close(l.stop)
	<-l.closed
}
