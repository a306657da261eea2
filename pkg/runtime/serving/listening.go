package serving

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/klog/v2"
)

// Limits of one connection.
const (
	// readHeaderTimeout bounds the TLS handshake, and the header of a request.
	readHeaderTimeout = 10 * time.Second
	// idleTimeout closes a connection without requests. It is that of Go's clients.
	idleTimeout = 90 * time.Second
	// stalledTimeout closes a connection of HTTP/2 to which no byte could be sent for so long: its client does not read.
	stalledTimeout = time.Minute
	// maxHeaderBytes is the largest header, in bytes: tokens are a few thousand.
	maxHeaderBytes = 64 << 10
	// streamBuffer is what a connection of HTTP/2 may send before somebody reads it, in
	// bytes. Nothing that is served takes large bodies, so it is the smallest there is.
	streamBuffer = 64 << 10
	// frameSize is the largest frame of HTTP/2 that is read, in bytes; the smallest that
	// the protocol allows.
	frameSize = 16 << 10
)

// requestGrace is how long requests may go on after their listener was closed.
const requestGrace = 5 * time.Second

// listening is one open listener with its requests.
type listening struct {
	place  place
	socket *net.TCPListener
	server *http.Server
	infos  *infos
	served chan struct{} // closed when nothing is accepted any more
}

// newHTTPServer makes a server with the limits.
func newHTTPServer(handler http.Handler, in *server.SecureServingInfo) *http.Server {
	s := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       withConn,
		ErrorLog:          log.New(connectionErrors{}, "", 0),
		Protocols:         &http.Protocols{},
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          in.HTTP2MaxStreamsPerConnection,
			MaxReceiveBufferPerConnection: streamBuffer,
			MaxReceiveBufferPerStream:     streamBuffer,
			MaxReadFrameSize:              frameSize,
			SendPingTimeout:               idleTimeout,
			WriteByteTimeout:              stalledTimeout,
		},
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(!in.DisableHTTP2)
	return s
}

// serve accepts connections until the listener is closed.
func (l *listening) serve(ctx context.Context, from net.Listener) {
	defer close(l.served)
	err := l.server.ServeTLS(from, "", "")
	if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		klog.FromContext(ctx).Error(err, "The endpoint accepts no more connections", "address", l.socket.Addr().String())
	}
}

// stopListening returns when the socket is closed.
func (l *listening) stopListening() {
	_ = l.socket.Close()
	<-l.served
}

// drain gives requests time to end, then closes their connections.
func (l *listening) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), requestGrace)
	defer cancel()
	defer l.infos.close()
	if err := l.server.Shutdown(ctx); err != nil {
		_ = l.server.Close()
	}
}

// connectionErrors logs what goes wrong with single connections, such as failed handshakes.
// Strangers can cause them at will, so they are logged at a high verbosity only.
type connectionErrors struct{}

// connectionVerbosity is the log level of errors of connections.
const connectionVerbosity = 5

// Write implements io.Writer.
func (connectionErrors) Write(line []byte) (int, error) {
	klog.Background().V(connectionVerbosity).Info("Connection failed", "problem", strings.TrimSpace(string(line)))
	return len(line), nil
}
