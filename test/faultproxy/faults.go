package faultproxy

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Fault is what is wrong until it is lifted.
type Fault struct {
	kind     kind
	requests Requests
	hits     atomic.Int64
	proxy    *Proxy
	once     sync.Once
	lifted   chan struct{}

	// What only some kinds have.
	delay  time.Duration // forever: until the fault is lifted
	status *metav1.Status
	drop   func(Event) bool
	then   string // the resource version of the past
	hidden schema.GroupVersion
	moment Moment

	// What only those of Sever have.
	severing sync.Once
	severed  atomic.Bool
	hit      chan struct{}

	matched atomic.Int64 // requests selected so far, if Requests.Nth counts them
}

type kind int

const (
	delaysRequests kind = iota
	refuses
	losesAnswers
	delaysEvents
	dropsEvents
	answersFromPast
	hides
	pauses
	severs
)

const forever time.Duration = -1

// Lift ends the fault. What waited for it goes on; it does nothing to a fault that is lifted.
func (f *Fault) Lift() {
	f.once.Do(func() {
		f.proxy.changeFaults(func(faults []*Fault) []*Fault {
			return slices.DeleteFunc(faults, func(other *Fault) bool { return other == f })
		})
		close(f.lifted)
	})
}

// Hits is how many requests or events the fault has concerned so far, those that still
// wait for it included. Of a Pause it is 0.
func (f *Fault) Hits() int { return int(f.hits.Load()) }

// HoldRequests keeps requests, also those that open a watch, until the fault is lifted.
func (p *Proxy) HoldRequests(r Requests) *Fault { return p.DelayRequests(r, forever) }

// DelayRequests passes requests on d later.
func (p *Proxy) DelayRequests(r Requests, d time.Duration) *Fault {
	return p.add(&Fault{kind: delaysRequests, requests: r, delay: d})
}

// Refuse answers requests with a status instead of passing them on; apierrors makes such,
// see ErrStatus of a StatusError. Without a code it is 500.
func (p *Proxy) Refuse(r Requests, s *metav1.Status) *Fault {
	return p.add(&Fault{kind: refuses, requests: r, status: s.DeepCopy()})
}

// LoseAnswers has requests carried out and breaks the connection instead of answering. Of
// an HTTP/2 connection, which many requests share, it breaks the stream of this request.
func (p *Proxy) LoseAnswers(r Requests) *Fault {
	return p.add(&Fault{kind: losesAnswers, requests: r})
}

// DelayEvents hands on events of watches d after they came from the API server, and what
// follows them in the watch no earlier.
func (p *Proxy) DelayEvents(r Requests, d time.Duration) *Fault {
	return p.add(&Fault{kind: delaysEvents, requests: r, delay: d})
}

// HoldEvents keeps events of watches, and what follows them in the watch, until the fault is
// lifted.
func (p *Proxy) HoldEvents(r Requests) *Fault { return p.DelayEvents(r, forever) }

// DropEvents hands on no event for which drop returns true. Bookmarks and errors, which are
// not about an object, always pass. drop may be called from several goroutines.
func (p *Proxy) DropEvents(r Requests, drop func(Event) bool) *Fault {
	return p.add(&Fault{kind: dropsEvents, requests: r, drop: drop})
}

// HideGroup has discovery answer without an API group.
func (p *Proxy) HideGroup(group string) *Fault {
	return p.HideGroupVersion(schema.GroupVersion{Group: group})
}

// HideGroupVersion has discovery answer without one version of an API group, and without
// the group if that was all.
func (p *Proxy) HideGroupVersion(gv schema.GroupVersion) *Fault {
	return p.add(&Fault{kind: hides, hidden: gv})
}

// Pause stops the proxy: connections stay open, nothing is read from clients and nothing
// sent to them. What has been passed on to the API server is carried out.
func (p *Proxy) Pause() *Fault { return p.add(&Fault{kind: pauses}) }

// add puts a fault into force.
func (p *Proxy) add(f *Fault) *Fault {
	if f.requests.Nth > 0 && !slices.Contains([]kind{refuses, losesAnswers, severs}, f.kind) {
		p.fail(errors.New("a fault that delays requests, or concerns reads or events, cannot concern only one of them"))
	}
	f.proxy, f.lifted = p, make(chan struct{})
	p.changeFaults(func(faults []*Fault) []*Fault { return append(faults, f) })
	return f
}

// changeFaults replaces the faults in force with a changed copy, so that they are read
// without a lock.
func (p *Proxy) changeFaults(change func([]*Fault) []*Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	faults := change(slices.Clone(p.inForce()))
	p.faults.Store(&faults)
}

// inForce returns the faults in force, the oldest first.
func (p *Proxy) inForce() []*Fault {
	if faults := p.faults.Load(); faults != nil {
		return *faults
	}
	return nil
}

// faultOf returns the oldest fault in force of a kind that concerns a request and is none of
// those excepted.
func (p *Proxy) faultOf(k kind, a attributes, except ...*Fault) *Fault {
	for _, f := range p.inForce() {
		if f.kind == k && f.selects(a) && !slices.Contains(except, f) {
			return f
		}
	}
	return nil
}

// selects reports whether a fault is about a request. With Requests.Nth it is called once for each.
func (f *Fault) selects(a attributes) bool {
	return f.requests.match(a) && (f.requests.Nth == 0 || f.matched.Add(1) == int64(f.requests.Nth))
}

// wait returns when the fault delays what came at a time no longer, or with an error when
// ctx ends.
func (f *Fault) wait(ctx context.Context, came time.Time) error {
	var over <-chan time.Time
	if f.delay != forever {
		timer := time.NewTimer(time.Until(came.Add(f.delay)))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.lifted:
	case <-over:
	}
	return nil
}
