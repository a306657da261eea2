// Package serving is the HTTPS endpoint of the process: health, metrics, status and
// profiling, with delegated authentication and authorization.
//
//  1. The endpoint is there from the start, on a standby too.
//  2. A changed configuration takes effect at once. Everything that can fail is done
//     first; then the new listener is there before the old one goes, on the same socket
//     if the address stays, and requests under way get time to end.
//  3. If the new configuration cannot be served, the old one still is and the change is
//     refused.
//  4. Certificates are followed: files that are replaced are used for the next handshake,
//     and a pair that does not fit leaves the one before in use.
//  5. Strangers can take a bounded amount of memory, of time and of the API server's
//     attention, and never keep health from being read. See connections and strangers.
package serving

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	goruntime "runtime"
	"sync"
	"syscall"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config/v1beta1"
)

// component is the name of the process on its pages and of its generated certificate.
const component = "kube-controller-manager"

// Server serves one handler under a configuration that may change.
type Server struct {
	handler     func(v1beta1.Serving) http.Handler
	clock       clock.PassiveClock
	metrics     *Metrics
	connections *connections

	mu        sync.Mutex
	applied   *v1beta1.Serving
	generated *generated
	current   *listening // nil while nothing is served
	draining  sync.WaitGroup
}

// New makes a server that does not listen yet. handler makes the handler of what is
// served behind authentication and authorization.
func New(handler func(v1beta1.Serving) http.Handler, m *Metrics) *Server {
	return &Server{handler: handler, clock: clock.RealClock{}, metrics: m, connections: newConnections(maxConnections, m)}
}

// Apply serves under a configuration. If that fails, what was served before still is.
func (s *Server) Apply(ctx context.Context, c v1beta1.Serving) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.applied != nil && reflect.DeepEqual(*s.applied, c) {
		return nil
	}
	if err := s.replaceLocked(ctx, c); err != nil {
		return fmt.Errorf("serving on %s port %d: %w", c.BindAddress, *c.Port, err)
	}
	s.applied = &c
	profileContention(*c.Profiling && *c.ContentionProfiling)
	return nil
}

// Renew reads again what the configuration names: certificates, and the kubeconfigs of who
// is asked about requests. If that fails, what was served before still is.
func (s *Server) Renew(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.applied == nil {
		return nil
	}
	return s.replaceLocked(ctx, *s.applied)
}

func (s *Server) replaceLocked(ctx context.Context, c v1beta1.Serving) error {
	if *c.Port == 0 {
		s.leaveLocked()
		return nil
	}
	in, pair, err := prepare(c, s.generated)
	if err != nil {
		return err
	}
	socket, err := s.socketLocked(ctx, placeOf(c))
	if err != nil {
		return err
	}
	next := s.listen(ctx, socket, c, in)
	s.leaveLocked()
	s.current, s.generated = next, pair
	return nil
}

// socketLocked returns the socket of a place: that of the current listener if it is there
// already.
func (s *Server) socketLocked(ctx context.Context, at place) (*net.TCPListener, error) {
	if s.current == nil {
		return at.bind(ctx)
	}
	if s.current.place == at {
		return again(s.current.socket)
	}
	socket, err := at.bind(ctx)
	if !errors.Is(err, syscall.EADDRINUSE) || s.current.place.port != at.port {
		return socket, err
	}
	// What is in the way may be the current listener.
	return s.swapLocked(ctx, at)
}

// swapLocked frees the port of the current listener for another place with that port. If
// the port cannot be had there either, the current configuration is served again.
func (s *Server) swapLocked(ctx context.Context, at place) (*net.TCPListener, error) {
	old := s.current
	s.leaveLocked()
	socket, err := at.bind(ctx)
	if err == nil {
		return socket, nil
	}
	former, restored := old.place.bind(ctx)
	if restored != nil {
		s.applied = nil // so that it is tried again
		return nil, errors.Join(err, fmt.Errorf("serving as before: %w", restored))
	}
	s.current = s.listen(ctx, former, old.config, old.infos)
	return nil, err
}

// leaveLocked stops the current listener. Its requests may still end.
func (s *Server) leaveLocked() {
	if s.current == nil {
		return
	}
	old := s.current
	s.current = nil
	old.stopListening()
	s.draining.Go(old.drain)
}

func (s *Server) listen(ctx context.Context, socket *net.TCPListener, c v1beta1.Serving, in *infos) *listening {
	l := &listening{place: placeOf(c), config: c, infos: in, socket: socket, served: make(chan struct{})}
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.server = newHTTPServer(in.protect(s.handler(c), c, s.clock, s.metrics), in.serving)
	l.server.TLSConfig = negotiate(ctx, in.serving)
	go l.serve(ctx, listener{Listener: socket, connections: s.connections})
	klog.FromContext(ctx).Info("Serving securely", "address", socket.Addr().String())
	return l
}

// Shutdown closes the listener and waits for requests under way, for a short time.
func (s *Server) Shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveLocked()
	s.draining.Wait()
}

// profileContention switches the profile of blocking on locks and channels.
func profileContention(on bool) {
	rate := 0
	if on {
		rate = 1
	}
	goruntime.SetBlockProfileRate(rate)
}
