package serving

import (
	"fmt"
	"net"
	"testing"

	"k8s.io/component-base/metrics"
)

// pipe is a connection from an address that tells whether it was closed.
type pipe struct {
	net.Conn
	from   string
	closed bool
}

func (p *pipe) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(p.from), Port: 1} }
func (p *pipe) Close() error         { p.closed = true; return nil }

// count is the number of open connections.
func (s *connections) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

func TestAFloodReplacesItsOwnConnections(t *testing.T) {
	s := newConnections(4, NewMetrics(metrics.NewKubeRegistry()))
	kubelet, first, second := &pipe{from: "10.0.0.1"}, &pipe{from: "10.0.0.9"}, &pipe{from: "10.0.0.9"}
	for _, p := range []*pipe{kubelet, first, second, {from: "10.0.0.9"}, {from: "10.0.0.9"}} {
		if s.add(p) == nil {
			t.Fatal("a connection was refused")
		}
	}
	if kubelet.closed || !first.closed || second.closed {
		t.Errorf("closed: kubelet %v, oldest of the flood %v, second %v; want only the oldest", kubelet.closed, first.closed, second.closed)
	}
	s.add(&pipe{from: "10.0.0.2"})
	if kubelet.closed || !second.closed {
		t.Errorf("a newcomer: kubelet closed %v, next of the flood %v", kubelet.closed, second.closed)
	}
	if s.count() != 4 || turnedAway(t, s.metrics, tooManyConnections) != 2 {
		t.Errorf("%d connections, %v turned away, want 4 and 2", s.count(), turnedAway(t, s.metrics, tooManyConnections))
	}
}

// A client may have every address of its network.
func TestAFloodFromANetworkReplacesItsOwnConnections(t *testing.T) {
	for what, flood := range map[string]func(n int) string{
		"IPv6":                   func(n int) string { return fmt.Sprintf("2001:db8::%x", n+1) },
		"older than the kubelet": func(n int) string { return fmt.Sprintf("10.1.0.%d", n+1) },
	} {
		s := newConnections(8, NewMetrics(metrics.NewKubeRegistry()))
		for n := range 8 {
			s.add(&pipe{from: flood(n)})
		}
		kubelet := &pipe{from: "2001:db8:0:1::1"}
		s.add(kubelet)
		for n := range 7 {
			s.add(&pipe{from: flood(8 + n)})
		}
		if kubelet.closed {
			t.Errorf("%s: the connection of the kubelet was closed", what)
		}
	}
}

func TestWhoIsAuthorizedKeepsHisConnection(t *testing.T) {
	s := newConnections(2, NewMetrics(metrics.NewKubeRegistry()))
	monitor := &pipe{from: "10.0.0.1"}
	c := s.add(monitor)
	c.trust()
	c.trust()
	other := &pipe{from: "10.0.0.2"}
	s.add(other).trust()
	if late := s.add(&pipe{from: "10.0.0.3"}); late != nil || monitor.closed || other.closed {
		t.Errorf("with only authorized connections: newcomer %v, closed %v, %v", late, monitor.closed, other.closed)
	}
	if err := c.Close(); err != nil || s.count() != 1 {
		t.Errorf("after closing: %d connections, %v", s.count(), err)
	}
	_ = c.Close()
	if s.count() != 1 || len(s.strangers) != 0 {
		t.Errorf("closing twice counts twice: %d connections, %d addresses", s.count(), len(s.strangers))
	}
	if s.add(&pipe{from: "10.0.0.3"}) == nil {
		t.Error("there was room and it was refused")
	}
}
