package faultproxy

import (
	"errors"
	"net"
	"sync"
)

// connections are the open connections on one side of the proxy.
type connections struct {
	mu     sync.Mutex
	open   map[*conn]bool
	closed bool
}

// conn is one of them. With a gate, bytes pass only while it is open.
type conn struct {
	net.Conn
	owner *connections
	gate  func(closed <-chan struct{}) error // nil: always open
	once  sync.Once
	gone  chan struct{}
}

// keep has a connection closed with the others, at once if they are.
func (c *connections) keep(one *conn) (*conn, error) {
	one.owner, one.gone = c, make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.Join(net.ErrClosed, one.Conn.Close())
	}
	if c.open == nil {
		c.open = map[*conn]bool{}
	}
	c.open[one] = true
	return one, nil
}

// cut closes the connections there are.
func (c *connections) cut() {
	c.mu.Lock()
	var open []*conn
	for one := range c.open {
		open = append(open, one)
	}
	c.mu.Unlock()
	for _, one := range open {
		_ = one.Close() // the other side may have
	}
}

// close closes all connections, also those to come.
func (c *connections) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cut()
}

// Close closes the connection. Nobody waits for the gate of a closed connection.
func (c *conn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		close(c.gone)
		c.owner.mu.Lock()
		delete(c.owner.open, c)
		c.owner.mu.Unlock()
		err = c.Conn.Close()
	})
	return err
}

// Read hands on what came when the gate is open.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.gate != nil {
		if closed := c.gate(c.gone); closed != nil {
			return 0, closed
		}
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	if c.gate != nil {
		if closed := c.gate(c.gone); closed != nil {
			return 0, closed
		}
	}
	return c.Conn.Write(b)
}

// listener accepts connections of clients.
type listener struct {
	net.Listener
	proxy *Proxy
}

func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.proxy.isSevered() {
		_ = raw.Close() // the server notices at its first read
	}
	return l.proxy.clients.keep(&conn{Conn: raw, gate: l.proxy.passable})
}
