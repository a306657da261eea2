package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/klog/v2"
)

const (
	// minWatchAge is how old a watch is at least when it is moved to other connections. A
	// reflector takes one that ends within its first second for a failure, and lists again.
	minWatchAge = 1500 * time.Millisecond

	dialTimeout   = 30 * time.Second
	dialKeepAlive = 30 * time.Second
)

// link is a transport whose connections can be replaced by others, made with other
// credentials, while it is in use. It implements http.RoundTripper.
type link struct {
	mu      sync.RWMutex
	current *lane

	retiring sync.Map // *lane to true: those with requests in flight that another one has replaced
}

var _ utilnet.RoundTripperWrapper = &link{}

func newLink(base *rest.Config, p *pace) (*link, error) {
	first, err := newLane(base, p)
	if err != nil {
		return nil, err
	}
	return &link{current: first}, nil
}

// replace sends further requests over next. Requests in flight finish on the connections they
// were sent on; watches are ended there as the API server ends them, so that they are opened
// again over next from where they were.
func (l *link) replace(next *lane) {
	l.mu.Lock()
	old := l.current
	l.current = next
	old.ended = func() { l.retiring.Delete(old) }
	l.retiring.Store(old, true)
	l.mu.Unlock()
	old.retire()
}

// WrappedRoundTripper implements utilnet.RoundTripperWrapper.
func (l *link) WrappedRoundTripper() http.RoundTripper {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.current.next
}

// enter counts a request, under the lock: retiring a lane waits for counted requests.
func (l *link) enter() *lane {
	l.mu.RLock()
	defer l.mu.RUnlock()
	l.current.requests.Add(1)
	return l.current
}

// RoundTrip implements http.RoundTripper.
func (l *link) RoundTrip(req *http.Request) (*http.Response, error) {
	on := l.enter()
	if on.closed.Load() {
		// A transport that has not noticed yet would send on a connection that is closed.
		on.leave()
		if req.Body != nil {
			_ = req.Body.Close() // nothing was read from it
		}
		return nil, errLaneClosed
	}
	if isWatch(req) {
		return on.watch(req)
	}
	resp, err := on.next.RoundTrip(req)
	if err != nil {
		on.leave()
		return nil, err
	}
	resp.Body = &countedBody{ReadCloser: resp.Body, done: sync.OnceFunc(on.leave)}
	return resp, nil
}

// cut breaks all connections, those with earlier credentials included. What was written to
// them and is not sent yet is discarded; later requests open others.
func (l *link) cut() {
	l.mu.RLock()
	defer l.mu.RUnlock()
	l.current.cut()
	l.retiring.Range(func(old, _ any) bool {
		old.(*lane).cut()
		return true
	})
}

// close closes all connections permanently.
func (l *link) close() {
	l.mu.RLock()
	defer l.mu.RUnlock()
	l.current.close()
}

func isWatch(req *http.Request) bool {
	if !strings.Contains(req.URL.RawQuery, "watch=") {
		return false
	}
	value := req.URL.Query().Get("watch")
	return value == "true" || value == "1"
}

// lane is a set of connections made with one set of credentials.
type lane struct {
	next     http.RoundTripper
	paced    map[*rhythm]http.RoundTripper // for watches that have a rhythm; nil if none is paced
	dialer   *connrotation.Dialer
	requests atomic.Int64 // begun and not finished, and 1 for the link
	closed   atomic.Bool  // no connection may be dialled any more
	ended    func()       // called when the last request of a retired lane has ended; set before it retires
	open     sync.Map     // net.Conn, as dialled, to true

	// inUse ends, through retired, when another lane has replaced this one.
	inUse   context.Context
	retired context.CancelFunc
}

var errLaneClosed = errors.New("connections with these credentials have been closed")

// newLane prepares connections. It opens none. Without a pace no watch has a paced connection.
func newLane(base *rest.Config, p *pace) (*lane, error) {
	l := &lane{}
	l.inUse, l.retired = context.WithCancel(context.Background())
	l.requests.Store(1)
	dial := base.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialKeepAlive}).DialContext
	}
	l.dialer = connrotation.NewDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		if l.closed.Load() {
			return nil, errLaneClosed
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l.open.Store(conn, true)
		return &laneConn{Conn: conn, lane: l}, nil
	})
	var err error
	if l.next, err = transportFor(base, l.dial); err != nil {
		return nil, err
	}
	if p == nil {
		return l, nil
	}
	l.paced = map[*rhythm]http.RoundTripper{}
	for _, r := range []*rhythm{renewals, pods} {
		if l.paced[r], err = transportFor(base, dialPaced(l.dial, r, p)); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// dial opens a connection. net/http does not interrupt that when nobody waits for it any more, so that the lane may
// have been closed in the meantime.
func (l *lane) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := l.dialer.DialContext(ctx, network, address)
	if err == nil && l.closed.Load() {
		return nil, errors.Join(errLaneClosed, conn.Close())
	}
	return conn, err
}

// transportFor makes a transport with connections of its own.
func transportFor(base *rest.Config, dial func(ctx context.Context, network, address string) (net.Conn, error)) (http.RoundTripper, error) {
	config := rest.CopyConfig(base)
	config.UserAgent = ""   // differs by Set
	config.BearerToken = "" // see bearer
	config.Dial = permitted(dial)
	if config.Proxy == nil {
		// It equals the default, but setting it keeps the transport out of client-go's
		// process-wide cache, which would keep the transport, through its dialer, and the
		// credentials of a replaced lane forever.
		config.Proxy = http.ProxyFromEnvironment
	}
	plain, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating the transport to the API server: %w", err)
	}
	var next http.RoundTripper = newOpener(plain)
	if !klog.V(6).Enabled() { // otherwise client-go has it logged already
		// The verbosity can be raised later.
		next = transport.NewDebuggingRoundTripper(next, transport.DebugByContext)
	}
	return next, nil
}

// retire ends the lane once the last request on it has ended.
func (l *lane) retire() {
	l.retired()
	l.leave()
}

// leave uncounts a request. The last one of a retired lane closes its connections, which
// would otherwise stay idle for 90 seconds.
func (l *lane) leave() {
	if l.requests.Add(-1) == 0 {
		l.close()
		l.ended()
	}
}

func (l *lane) close() {
	l.closed.Store(true)
	utilnet.CloseIdleConnectionsFor(l.next)
	for _, paced := range l.paced {
		utilnet.CloseIdleConnectionsFor(paced)
	}
	l.dialer.CloseAll()
}

// cut breaks all connections, as link.cut says. Closed in the ordinary way, the kernel would
// try for minutes to deliver what was written.
func (l *lane) cut() {
	l.open.Range(func(key, _ any) bool {
		conn := key.(net.Conn)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // fails for a connection that is closed already
		}
		_ = conn.Close() // its user notices at the next read or write
		return true
	})
}

// laneConn is a connection that its lane knows of while it is open.
type laneConn struct {
	net.Conn
	lane *lane
}

// Close implements net.Conn.
func (c *laneConn) Close() error {
	c.lane.open.Delete(c.Conn)
	return c.Conn.Close()
}

// watch opens a watch that ends, without an error, when the lane is retired.
func (l *lane) watch(req *http.Request) (*http.Response, error) {
	began := time.Now()
	ctx, cancel := context.WithCancel(req.Context())
	next := l.next
	if paced := l.paced[rhythmOf(req)]; paced != nil {
		next = paced
	}
	resp, err := next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel()
		l.leave()
		return nil, err
	}
	body := &watchBody{ReadCloser: &batchedBody{ReadCloser: resp.Body}}
	stay := context.AfterFunc(l.inUse, func() { body.move(ctx, cancel, began) })
	body.done = sync.OnceFunc(func() {
		stay()
		cancel()
		l.leave()
	})
	resp.Body = body
	return resp, nil
}

// countedBody reports when the response has been read or dropped.
type countedBody struct {
	io.ReadCloser
	done func()
}

// Close implements io.Closer.
func (b *countedBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

// watchBody ends like one that the API server ends, if the watch is to be opened elsewhere.
type watchBody struct {
	io.ReadCloser
	moved atomic.Bool
	done  func()
}

// move ends the watch, once it is old enough.
func (b *watchBody) move(ctx context.Context, cancel context.CancelFunc, began time.Time) {
	timer := time.NewTimer(minWatchAge - time.Since(began))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		b.moved.Store(true)
		cancel()
	}
}

// Read implements io.Reader.
func (b *watchBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && b.moved.Load() {
		err = io.EOF
	}
	return n, err
}

// Close implements io.Closer.
func (b *watchBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

// bearer adds the token of the process to requests that have none. The token changes
// without any effect on connections.
type bearer struct {
	layer
	token *atomic.Pointer[string]
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	token := *b.token.Load()
	if token == "" || req.Header.Get("Authorization") != "" {
		return b.next.RoundTrip(req)
	}
	return b.next.RoundTrip(withToken(req, token))
}

// withToken returns a copy of a request: a RoundTripper must not change its own.
func withToken(req *http.Request, token string) *http.Request {
	req = utilnet.CloneRequest(req)
	req.Header.Set("Authorization", "Bearer "+token)
	return req
}
