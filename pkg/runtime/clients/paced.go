package clients

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/connrotation"
)

const (
	// paceInterval is the time between two reads from a paced connection.
	paceInterval = 250 * time.Millisecond
	// paceAfter is the age from which a connection is paced. Before that, caches are filled.
	paceAfter = 10 * time.Second
	// hurryTime is how long connections are read without pauses after pace.hurry.
	hurryTime = 10 * time.Second
)

// isPaced reports whether a watch belongs on a paced connection. Every node renews a Lease every ten
// seconds, and nobody acts on a renewal; a cluster of 1,000 nodes sends 100 of them per second. Read
// one by one, each wakes up the process: the connection, the decoder, the cache and its handlers.
//
// Who watches one Lease acts on it: a standby takes over what was released.
func isPaced(req *http.Request) bool {
	return strings.HasPrefix(req.URL.Path, "/apis/coordination.k8s.io/") && strings.HasSuffix(req.URL.Path, "/leases") &&
		!strings.Contains(req.URL.Query().Get("fieldSelector"), metav1.ObjectNameField)
}

// pace suspends the pauses of paced connections for a time. The zero value suspends nothing.
type pace struct {
	mu      sync.Mutex
	until   time.Time
	hurried chan struct{} // closed by hurry; nil if nobody waits
}

// hurry ends the pauses of all connections and has them read without pauses for hurryTime.
func (p *pace) hurry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(hurryTime)
	if p.hurried != nil {
		close(p.hurried)
		p.hurried = nil
	}
}

// pause waits for a time, or until connections are to be read without pauses.
func (p *pace) pause(d time.Duration) {
	p.mu.Lock()
	if d <= 0 || time.Now().Before(p.until) {
		p.mu.Unlock()
		return
	}
	if p.hurried == nil {
		p.hurried = make(chan struct{})
	}
	hurried := p.hurried
	p.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hurried:
	}
}

// dialPaced makes connections that are read in batches.
func dialPaced(dial connrotation.DialFunc, p *pace) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &pacedConn{Conn: conn, pace: p, began: time.Now()}, nil
	}
}

// pacedConn pauses before it is read again when everything that had arrived has been read. What
// arrives during the pause is read at once after it.
type pacedConn struct {
	net.Conn
	pace  *pace
	began time.Time
	// drained is when the last read returned less than it could have; zero if it did not.
	drained time.Time
}

// Read implements net.Conn.
func (c *pacedConn) Read(p []byte) (int, error) {
	if !c.drained.IsZero() && c.drained.Sub(c.began) > paceAfter {
		c.pace.pause(time.Until(c.drained.Add(paceInterval)))
	}
	n, err := c.Conn.Read(p)
	c.drained = time.Time{}
	if n < len(p) {
		c.drained = time.Now()
	}
	return n, err
}
