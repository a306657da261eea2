package serving

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
)

// maxConnections is how many connections are open at once. With what one connection may make
// the process keep (maxHeaderBytes, streamBuffer) it bounds the memory that strangers can
// use.
const maxConnections = 500

// connections are the open connections of a server, over all of its listeners.
//
//  1. There are never more than a limit.
//  2. When one more comes, another one has to go: the oldest of the address that has the
//     most, and of several such addresses the oldest of all. A client that floods the
//     endpoint loses its own connections, and probes of a kubelet are still served. The
//     addresses of an IPv6 network of 64 bits count as one: a client may have all of them.
//  3. A connection on which somebody was served what only some may read is not closed that
//     way (see strangers.trusting). If there are only such connections, the new one is refused.
type connections struct {
	limit   int
	metrics *Metrics

	mu        sync.Mutex
	open      int
	accepted  uint64             // so far
	strangers map[string][]*conn // by address, oldest first
}

// conn is an open connection.
type conn struct {
	net.Conn
	of      *connections
	address string
	number  uint64 // in the order of arrival

	trusted atomic.Bool
	gone    sync.Once
	// answering is the number of its requests whose responses have not been sent, see strangers.parallel.
	answering atomic.Int32
}

// beginAnswer counts a request, unless there are too many.
func (c *conn) beginAnswer() bool {
	for {
		now := c.answering.Load()
		if now >= maxParallel {
			return false
		}
		if c.answering.CompareAndSwap(now, now+1) {
			return true
		}
	}
}

func newConnections(limit int, m *Metrics) *connections {
	return &connections{limit: limit, metrics: m, strangers: map[string][]*conn{}}
}

// listener counts the connections that it accepts.
type listener struct {
	net.Listener
	connections *connections
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		probe(accepted)
		if c := l.connections.add(accepted); c != nil {
			return c, nil
		}
	}
}

// keepAlive is how long a TCP connection is idle before it is probed.
const keepAlive = 3 * time.Minute

// probe has idle connections probed. A listener that was made of an open socket does not have the settings of that one.
func probe(accepted net.Conn) {
	if tcp, ok := accepted.(*net.TCPConn); ok {
		_ = tcp.SetKeepAlivePeriod(keepAlive) // an error means that the connection is gone
	}
}

// add registers a connection, or closes it and returns nil.
func (s *connections) add(accepted net.Conn) *conn {
	c := &conn{Conn: accepted, of: s, address: host(accepted.RemoteAddr())}
	victim, ok := s.makeRoom(c)
	if victim != nil {
		_ = victim.Close()
	}
	if !ok {
		_ = accepted.Close()
		return nil
	}
	return c
}

// makeRoom registers a connection. It returns the one that has to be closed for it, and false
// if there is no room.
func (s *connections) makeRoom(c *conn) (victim *conn, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= s.limit {
		s.metrics.turnedAway.WithLabelValues(tooManyConnections).Inc()
		if victim = s.heaviestLocked(); victim == nil {
			return nil, false
		}
		s.forgetLocked(victim)
	}
	s.open++
	s.accepted++
	c.number = s.accepted
	s.metrics.connections.Inc()
	s.strangers[c.address] = append(s.strangers[c.address], c)
	return victim, true
}

// heaviestLocked is the oldest stranger of the address with the most of them.
func (s *connections) heaviestLocked() *conn {
	var most []*conn
	for _, all := range s.strangers {
		if len(all) > len(most) || len(all) == len(most) && all[0].number < most[0].number {
			most = all
		}
	}
	if len(most) == 0 {
		return nil
	}
	return most[0]
}

// forgetLocked unregisters a connection, once.
func (s *connections) forgetLocked(c *conn) {
	c.gone.Do(func() {
		s.open--
		s.metrics.connections.Dec()
		s.removeStrangerLocked(c)
	})
}

func (s *connections) removeStrangerLocked(c *conn) {
	all := slices.DeleteFunc(s.strangers[c.address], func(other *conn) bool { return other == c })
	if len(all) == 0 {
		delete(s.strangers, c.address)
		return
	}
	s.strangers[c.address] = all
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.of.mu.Lock()
	c.of.forgetLocked(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// trust records that the connection is one of somebody whom the API server has authorized.
func (c *conn) trust() {
	if c.trusted.Swap(true) {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.removeStrangerLocked(c)
}

// connKey is the key of the *conn in the context of a request.
type connKey struct{}

// withConn is the ConnContext of the server.
func withConn(ctx context.Context, accepted net.Conn) context.Context {
	if encrypted, ok := accepted.(*tls.Conn); ok {
		accepted = encrypted.NetConn()
	}
	c, ok := accepted.(*conn)
	if !ok {
		klog.FromContext(ctx).Info("A connection is not counted", "type", fmt.Sprintf("%T", accepted))
		return ctx
	}
	return context.WithValue(ctx, connKey{}, c)
}

// connOf is the connection that a request came by, nil in tests without one.
func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}

// networkBits is the length of the prefix of IPv6 addresses that one client may have all of.
const networkBits = 64

// host is the address without the port, or its network if it is one of IPv6.
func host(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return a.String()
	}
	if address := tcp.AddrPort().Addr().Unmap(); address.Is6() && !address.IsLoopback() {
		return netip.PrefixFrom(address.WithZone(""), networkBits).Masked().String()
	}
	return tcp.IP.String()
}
