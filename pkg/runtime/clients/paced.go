package clients

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/connrotation"
)

const (
	// paceAfter is the age from which a connection is paced. Before that, caches are filled.
	paceAfter = 10 * time.Second
	// hurryTime is how long connections are read without pauses after pace.hurry.
	hurryTime = 10 * time.Second
)

// rhythm is how often a connection is read that carries watches of one kind. Read one by one, each event wakes up the
// process: the connection, the decoder, the cache and its handlers.
type rhythm struct {
	// perSecond is how often it is read when much arrives, burst how often beyond that after a time without.
	perSecond rate.Limit
	burst     int
}

var (
	// renewals are the watches of all Leases. Every node renews one every ten seconds, and nobody acts on a renewal; a
	// cluster of 1,000 nodes sends 100 of them per second.
	renewals = &rhythm{perSecond: 4, burst: 1}
	// pods are the watches of pods. What a few of them do is read at once, and what thousands do in a rollout fifty
	// times per second.
	pods = &rhythm{perSecond: 50, burst: 25}
)

// rhythmOf returns the rhythm of a watch, nil if it is read at once. Most watches are read at once: a controller with
// several of them then sees events nearly always in the order in which they happened. So are watches of a single
// object, because somebody acts on its events immediately: a standby takes over a lease that was released.
func rhythmOf(req *http.Request) *rhythm {
	path := req.URL.Path
	switch {
	case strings.Contains(req.URL.Query().Get("fieldSelector"), metav1.ObjectNameField):
		return nil
	case strings.HasPrefix(path, "/apis/coordination.k8s.io/") && strings.HasSuffix(path, "/leases"):
		return renewals
	case strings.HasPrefix(path, "/api/v1/") && strings.HasSuffix(path, "/pods"):
		return pods
	}
	return nil
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

// pause waits until the next read is due, or until connections are to be read without pauses.
func (p *pace) pause(reads *rate.Limiter) {
	p.mu.Lock()
	if time.Now().Before(p.until) {
		p.mu.Unlock()
		return
	}
	wait := reads.Reserve().Delay()
	if wait == 0 {
		p.mu.Unlock()
		return
	}
	if p.hurried == nil {
		p.hurried = make(chan struct{})
	}
	hurried := p.hurried
	p.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hurried:
	}
}

// dialPaced makes connections that are read in a rhythm.
func dialPaced(dial connrotation.DialFunc, r *rhythm, p *pace) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return newPacedConn(conn, r, p), nil
	}
}

// pacedConn pauses before it is read again when everything that had arrived has been read. What
// arrives during the pause is read at once after it.
type pacedConn struct {
	net.Conn
	pace    *pace
	began   time.Time
	reads   *rate.Limiter
	drained bool // the last read returned less than it could have
}

func newPacedConn(conn net.Conn, r *rhythm, p *pace) *pacedConn {
	return &pacedConn{Conn: conn, pace: p, began: time.Now(), reads: rate.NewLimiter(r.perSecond, r.burst)}
}

// Read implements net.Conn.
func (c *pacedConn) Read(p []byte) (int, error) {
	if c.drained && time.Since(c.began) > paceAfter {
		c.pace.pause(c.reads)
	}
	n, err := c.Conn.Read(p)
	c.drained = n < len(p)
	return n, err
}
