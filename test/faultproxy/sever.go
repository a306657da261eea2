package faultproxy

import "net/http"

// Moment is before or after a request is carried out.
type Moment bool

// The moments.
const (
	Before Moment = false
	After  Moment = true
)

func (m Moment) String() string {
	if m == After {
		return "after"
	}
	return "before"
}

// Sever cuts the clients off right before, or right after, a request is carried out that r selects:
// all connections break, and nothing passes until the fault is lifted. To the API server this is what
// kill -9 looks like. What has been passed on by then is carried out.
func (p *Proxy) Sever(r Requests, m Moment) *Fault {
	return p.add(&Fault{kind: severs, requests: r, moment: m, hit: make(chan struct{})})
}

// Hit is closed when a fault of Sever has cut the clients off.
func (f *Fault) Hit() <-chan struct{} { return f.hit }

// sever breaks the connections of all clients until the fault is lifted.
func (p *Proxy) sever(f *Fault) {
	f.severing.Do(func() {
		f.hits.Add(1)
		f.severed.Store(true)
		p.clients.cut()
		close(f.hit)
	})
}

// isSevered reports whether nothing passes.
func (p *Proxy) isSevered() bool {
	for _, f := range p.inForce() {
		if f.severed.Load() {
			return true
		}
	}
	return false
}

// pass ends a request that does not pass any more. One that is the last to be carried out remembers
// that.
func (p *Proxy) pass(q *clientRequest) {
	if p.isSevered() {
		panic(http.ErrAbortHandler)
	}
	f := p.faultOf(severs, q.attributes)
	if f == nil {
		return
	}
	if f.moment == Before {
		p.sever(f)
		panic(http.ErrAbortHandler)
	}
	q.last = f
}
