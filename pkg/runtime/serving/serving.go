// Package serving is the HTTPS endpoint of the process: health, metrics, status and
// profiling, with delegated authentication and authorization.
//
//  1. The endpoint is served from the start, on a standby too.
//  2. A change has two phases. Prepare does everything that can fail, without a visible
//     effect: certificates are loaded and the new socket is bound, but not served. Commit
//     cannot fail: the new listener is opened before the old one is closed, on the same
//     socket if the address stays, and requests in flight get time to finish.
//  3. A configuration that cannot be served is rejected in Prepare, and the endpoint is
//     served as before without interruption.
//  4. Certificates are reloaded: replaced files are used for the next handshake, and a pair
//     that does not match leaves the previous one in use.
//  5. Unauthorized clients can use only a bounded amount of memory, time and requests to
//     the API server, and cannot prevent health from being read. See connections and
//     strangers.
package serving

import (
	"context"
	"net"
	"net/http"
	goruntime "runtime"
	"sync"

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

// leaveLocked stops a listener, if there is one. Its requests may still finish.
func (s *Server) leaveLocked(old *listening) {
	if old == nil {
		return
	}
	old.stopListening()
	s.draining.Go(old.drain)
}

func (s *Server) listen(ctx context.Context, socket *net.TCPListener, c v1beta1.Serving, in *infos) *listening {
	l := &listening{place: placeOf(c), socket: socket, infos: in, served: make(chan struct{})}
	l.server = newHTTPServer(in.protect(s.handler(c), c, s.clock, s.metrics), in.serving)
	l.server.TLSConfig = in.tls
	go l.serve(context.WithoutCancel(ctx), listener{Listener: socket, connections: s.connections})
	klog.FromContext(ctx).Info("Serving securely", "address", socket.Addr().String())
	return l
}

// Shutdown closes the listener and waits for requests under way, for a short time.
func (s *Server) Shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveLocked(s.current)
	s.current = nil
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
