package controlplane

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Proxy is a network between one client and the API server that a test can cut. It hands
// on bytes, not requests: TLS is between the client and the API server.
//
//   - While it is cut, nothing arrives on either side and nothing is refused: connections
//     stay open, and new ones are accepted but lead nowhere. After Cut, what was on its way
//     arrives with Heal, also if its sender has closed the connection: no real network keeps
//     anything for seconds. After Lose it does not arrive.
//   - Its connections to the API server come from a loopback address of their own,
//     which the audit log names: that tells clients with the same user apart.
type Proxy struct {
	plane    *ControlPlane
	listener net.Listener
	source   net.IP
	running  sync.WaitGroup
	done     chan struct{}

	mu     sync.Mutex
	closed bool
	loses  bool          // see Lose
	open   chan struct{} // closed while the network works
	conns  map[net.Conn]bool
}

// NewProxy starts a proxy that works, until Close.
func (c *ControlPlane) NewProxy() (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a proxy: %w", err)
	}
	p := &Proxy{
		plane:    c,
		listener: listener,
		source:   c.NewSource(),
		done:     make(chan struct{}),
		open:     make(chan struct{}),
		conns:    map[net.Conn]bool{},
	}
	close(p.open)
	p.running.Go(p.accept)
	return p, nil
}

// NewSource returns a loopback address for the connections of one proxy to the API
// server. No other proxy has it, and 127.0.0.1 is everybody else.
func (c *ControlPlane) NewSource() net.IP {
	number := c.proxies.Add(1)
	return net.IPv4(127, 1, byte(number>>8), byte(number))
}

// Kubeconfig is ControlPlane.Kubeconfig for a client that goes through the proxy.
func (p *Proxy) Kubeconfig(name, user string, groups ...string) (path string, err error) {
	return p.plane.KubeconfigVia("https://"+p.listener.Addr().String(), name, user, groups...)
}

// SourceIP is the address the audit log names for requests that came through the proxy.
func (p *Proxy) SourceIP() string { return p.source.String() }

// BySourceIP passes requests from an address.
func BySourceIP(ip string) Filter {
	return func(e *auditv1.Event) bool { return slices.Contains(e.SourceIPs, ip) }
}

// Cut stops all bytes until Heal, on their way. It does nothing to a proxy that is cut.
func (p *Proxy) Cut() { p.cut(false) }

// Lose is Cut of a network that loses what is sent. The system of a client sends that
// again until the client breaks the connection with a reset: then nothing more arrives.
func (p *Proxy) Lose() { p.cut(true) }

func (p *Proxy) cut(loses bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isOpen() {
		p.open, p.loses = make(chan struct{}), loses
	}
}

// Heal lets bytes pass again. It does nothing to a proxy that is not cut.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isOpen() {
		close(p.open)
	}
}

func (p *Proxy) isOpen() bool {
	select {
	case <-p.open:
		return true
	default:
		return false
	}
}

// Close breaks all connections and returns when nothing of the proxy is left.
func (p *Proxy) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	close(p.done)
	err := p.listener.Close()
	for c := range p.conns {
		err = errors.Join(err, c.Close())
	}
	p.mu.Unlock()
	p.running.Wait()
	if err != nil {
		return fmt.Errorf("closing a proxy: %w", err)
	}
	return nil
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed: nothing else makes a loopback listener fail
		}
		if p.keep(client) {
			p.running.Go(func() { p.serve(client) })
		}
	}
}

// keep has a connection closed with the proxy, at once if it is closed already.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close() // nobody has used it yet
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns[c] {
		delete(p.conns, c)
		_ = c.Close() // the other side may have closed it
	}
}

// serve connects a client to the API server and returns when that is over.
func (p *Proxy) serve(client net.Conn) {
	defer p.drop(client)
	if !p.passable() {
		return
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: p.source}}
	server, err := dialer.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.plane.ports.apiServer))
	if err != nil || !p.keep(server) {
		return // the client sees its connection closed, as if the API server had
	}
	defer p.drop(server)
	var answers sync.WaitGroup
	answers.Go(func() { p.pump(client, server) })
	p.pump(server, client)
	answers.Wait()
}

// pump hands on what comes from one side until that side ends. Then it closes both: no
// client of the API server closes half a connection.
func (p *Proxy) pump(to, from net.Conn) {
	defer p.drop(to)
	defer p.drop(from)
	buffer := make([]byte, 32<<10)
	for {
		n, readErr := from.Read(buffer)
		if !p.passable() || p.lost(from) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if readErr != nil {
			return
		}
	}
}

// lost reports that what came from a connection is not sent again, since its sender has reset it, see Lose. An error
// of the socket would tell that only to the first who asks.
func (p *Proxy) lost(from net.Conn) bool {
	p.mu.Lock()
	loses := p.loses
	p.mu.Unlock()
	tcp, ok := from.(*net.TCPConn)
	if !loses || !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return true // closed
	}
	var info *unix.TCPInfo
	var failure error
	err = raw.Control(func(fd uintptr) {
		info, failure = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	return err != nil || failure != nil || info.State == unix.BPF_TCP_CLOSE
}

// passable returns once the network works; false if the proxy is closed.
func (p *Proxy) passable() bool {
	p.mu.Lock()
	open := p.open
	p.mu.Unlock()
	select {
	case <-p.done:
		return false
	case <-open:
		return true
	}
}

var _ io.Closer = (*Proxy)(nil)
