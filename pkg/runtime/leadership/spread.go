package leadership

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/v1beta1"
)

// requestedBy is the annotation by which a process asks the holder of a lease for it.
const requestedBy = "config.kcmd.dev/requested-by"

const (
	// unfair is by how many leases two processes have to differ for one lease to move. With a
	// smaller difference they would only change places.
	unfair = 2
	// maxSteps bounds how long a loaded process leaves a free lease to others.
	maxSteps = 4
)

// delay returns how long to leave a free lease to processes that hold fewer. Electors call
// it.
func (l *Leadership) delay(k *Lock) time.Duration {
	if k.requested.Load() {
		return 0
	}
	return time.Duration(min(l.held.Load(), maxSteps) * l.step.Load())
}

// distribution is who holds which leases.
type distribution struct {
	self   string
	leases []holding
}

// holding is one lease in a distribution.
type holding struct {
	lock, holder string
	asked        bool // somebody has asked for it already
}

// count is the number of leases that a process holds.
func (d distribution) count(process string) int {
	n := 0
	for _, h := range d.leases {
		if h.holder == process {
			n++
		}
	}
	return n
}

// wish returns the lock to ask for: a group of the process that holds most, if that is too
// many more than this one holds; empty if there is none.
func (d distribution) wish() string {
	most, wish := d.count(d.self)+unfair-1, ""
	for _, h := range d.leases {
		movable := h.holder != "" && !h.asked && strings.HasPrefix(h.lock, locks.Group(""))
		if n := d.count(h.holder); movable && n > most {
			most, wish = n, h.lock
		}
	}
	return wish
}

// grants reports whether this process should give a lease to one that asks.
func (d distribution) grants(requester string) bool {
	return d.count(d.self) >= d.count(requester)+unfair
}

func (l *Leadership) balanced() bool {
	return l.election.Spread == v1beta1.SpreadBalanced && len(l.locks) > 1
}

// distribution returns the distribution that the electors have observed.
func (l *Leadership) distribution() distribution {
	d := distribution{}
	for _, k := range l.locks {
		if k.elector == nil || !k.begun {
			continue
		}
		self := l.identityOf(k)
		d.self = self
		s := k.elector.State()
		h := holding{lock: k.Name, holder: s.Holder, asked: s.Annotations[requestedBy] != ""}
		if k.term != nil {
			h.holder = self
		}
		d.leases = append(d.leases, h)
	}
	return d
}

// considerRequests decides about processes that ask for a group of this one. Requests are
// removed from the lease, whether or not they are granted.
func (l *Leadership) considerRequests(ctx context.Context, now time.Time) {
	for _, k := range l.locks {
		if k.elector == nil || k.term == nil || !strings.HasPrefix(k.Name, locks.Group("")) {
			continue
		}
		requester := k.elector.State().Annotations[requestedBy]
		switch {
		case requester == "":
			k.clearing = k.handingTo != ""
		case k.clearing:
		case requester == l.identityOf(k) || !l.balanced() || !l.distribution().grants(requester):
			k.clearing = true
		case now.Before(l.nextHandOver): // later
		default:
			l.nextHandOver = now.Add(l.election.LeaseDuration.Duration)
			k.handingTo, k.clearing = requester, true
			klog.FromContext(ctx).Info("Handing over a lease", "lock", k.Name, "to", requester)
			l.notify()
		}
	}
}

// handOver gives a lease back under which nothing runs any more, for another process to
// take it.
func (l *Leadership) handOver(ctx context.Context, k *Lock) {
	term, backoff := k.term, l.election.LeaseDuration.Duration
	l.options.Tasks.Do(func(background context.Context) func() {
		var err error
		if term != nil {
			k.connection.FlushEvents()          // those of controllers may only be written under the lease
			err = k.elector.Publish(background) // the request is removed from the lease
		} else {
			backoff = 0 // the API server chooses who is next, possibly this process again
		}
		if err == nil {
			err = k.elector.Yield(background, term, backoff)
		}
		return func() {
			k.returning, k.handingTo = false, ""
			if err != nil {
				klog.FromContext(ctx).Error(err, "A lease was not handed over", "lock", k.Name)
			}
			l.options.Runner.Synchronize(ctx)
		}
	})
}

// requestLease asks another process for a lease if that holds too many more than this one.
func (l *Leadership) requestLease(ctx context.Context, now time.Time) {
	if !l.balanced() || now.Before(l.nextRequest) {
		return
	}
	for _, k := range l.locks {
		k.requested.Store(false) // a request that was not granted by now will not be
	}
	seen := l.distribution()
	wish := seen.wish()
	n := slices.IndexFunc(l.locks, func(k *Lock) bool { return k.Name == wish })
	if n < 0 {
		return
	}
	k := l.locks[n]
	l.nextRequest = now.Add(l.election.LeaseDuration.Duration)
	k.requested.Store(true)
	holder := k.elector.State().Holder
	l.options.Tasks.Do(func(background context.Context) func() {
		err := k.request(background, holder, seen.self)
		return func() {
			if err != nil {
				k.requested.Store(false)
				klog.FromContext(ctx).Error(err, "Requesting a lease failed", "lock", k.Name, "holder", holder)
				return
			}
			klog.FromContext(ctx).Info("Requested a lease", "lock", k.Name, "holder", holder)
		}
	})
}

// request writes a request on the lease of a lock. The bootstrap role of
// kube-controller-manager permits no patch, so the lease is updated.
func (k *Lock) request(ctx context.Context, holder, self string) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	lease, err := k.leases.Leases(k.key.lease.Namespace).Get(ctx, k.key.lease.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading lease %s: %w", k.key.lease, err)
	}
	if !requestable(lease, holder) {
		return fmt.Errorf("lease %s has another holder or another request", k.key.lease)
	}
	lease.Annotations[requestedBy] = self
	if _, err := k.leases.Leases(k.key.lease.Namespace).Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing lease %s: %w", k.key.lease, err)
	}
	return nil
}

// requestable reports whether a lease is still held as expected, by a process that
// understands requests, and that nobody has asked for it.
func requestable(l *coordinationv1.Lease, holder string) bool {
	return l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == holder &&
		l.Annotations != nil && l.Annotations[requestedBy] == ""
}
