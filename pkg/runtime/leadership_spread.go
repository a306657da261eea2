package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/supervisor"
)

// requestedBy is the annotation by which a process asks the holder of a lease for it.
const requestedBy = "config.kcmd.dev/requested-by"

const (
	// unfair is by how many leases two processes have to differ for one to move: so many
	// that they have changed places neither before nor after.
	unfair = 2
	// maxSteps bounds how long a loaded process leaves a free lease to others.
	maxSteps = 4
)

// delay is how long to leave a free lease to processes that hold fewer. Electors ask.
func (l *leadership) delay(k *lock) time.Duration {
	if k.requested.Load() {
		return 0
	}
	return time.Duration(min(l.held.Load(), maxSteps) * l.step.Load())
}

// census is who holds which leases.
type census struct {
	self   string
	leases []holding
}

// holding is one lease in a census.
type holding struct {
	lock, holder string
	asked        bool // somebody has asked for it already
}

// count is the number of leases that a process holds.
func (c census) count(process string) int {
	n := 0
	for _, h := range c.leases {
		if h.holder == process {
			n++
		}
	}
	return n
}

// wish is the lock to ask for: a group of the process that holds most, if that is too many
// more than this one holds. Empty if there is none.
func (c census) wish() string {
	most, wish := c.count(c.self)+unfair-1, ""
	for _, h := range c.leases {
		movable := h.holder != "" && !h.asked && strings.HasPrefix(h.lock, config.GroupLock(""))
		if n := c.count(h.holder); movable && n > most {
			most, wish = n, h.lock
		}
	}
	return wish
}

// grants reports whether this process should give a lease to one that asks.
func (c census) grants(requester string) bool {
	return c.count(c.self) >= c.count(requester)+unfair
}

func (r *Runtime) balanced() bool {
	return r.document.Config.LeaderElection.Spread == v1beta1.SpreadBalanced && len(r.leadership.locks) > 1
}

// takeCensus counts by what the electors have seen.
func (l *leadership) takeCensus() census {
	c := census{}
	for _, k := range l.locks {
		if k.elector == nil || !k.begun {
			continue
		}
		self := l.identityOf(k)
		c.self = self
		s := k.elector.State()
		h := holding{lock: k.Name, holder: s.Holder, asked: s.Annotations[requestedBy] != ""}
		if k.term != nil {
			h.holder = self
		}
		c.leases = append(c.leases, h)
	}
	return c
}

// considerRequests decides about processes that ask for a group of this one. Requests that
// are not granted, and those that are, are taken off the lease.
func (r *Runtime) considerRequests(ctx context.Context) {
	l := r.leadership
	for _, k := range l.locks {
		if k.elector == nil || k.term == nil || !strings.HasPrefix(k.Name, config.GroupLock("")) {
			continue
		}
		requester := k.elector.State().Annotations[requestedBy]
		now := l.clock.Now()
		switch {
		case requester == "":
			k.clearing = k.handingTo != ""
		case k.clearing:
		case requester == l.identityOf(k) || !r.balanced() || !l.takeCensus().grants(requester):
			k.clearing = true
		case now.Before(l.nextHandOver): // later
		default:
			l.nextHandOver = now.Add(r.document.Config.LeaderElection.LeaseDuration.Duration)
			k.handingTo, k.clearing = requester, true
			klog.FromContext(ctx).Info("Handing a lease over", "lock", k.Name, "to", requester)
			l.notify()
		}
	}
}

// handOver gives a lease back under which nothing runs any more, for another process to
// take it.
func (r *Runtime) handOver(ctx context.Context, k *lock) {
	l := r.leadership
	requested, backoff := k.term != nil, r.document.Config.LeaderElection.LeaseDuration.Duration
	l.work(func(background context.Context) func() {
		var err error
		if requested {
			err = k.elector.Publish(background) // the request is off the lease
		} else {
			backoff = 0 // the API server knows who is next, be it this process again
		}
		if err == nil {
			err = k.elector.Yield(background, backoff)
		}
		return func() {
			k.returning, k.handingTo = false, ""
			if err != nil {
				klog.FromContext(ctx).Error(err, "A lease was not handed over", "lock", k.Name)
			}
			r.synchronize(ctx, supervisor.CauseLease)
		}
	})
}

// requestLease asks another process for a lease if that holds too many more than this one.
func (r *Runtime) requestLease(ctx context.Context) {
	l := r.leadership
	now := l.clock.Now()
	if !r.balanced() || now.Before(l.nextRequest) {
		return
	}
	for _, k := range l.locks {
		k.requested.Store(false) // what was not given in all this time will not be
	}
	census := l.takeCensus()
	wish := census.wish()
	n := slices.IndexFunc(l.locks, func(k *lock) bool { return k.Name == wish })
	if n < 0 {
		return
	}
	k := l.locks[n]
	l.nextRequest = now.Add(r.document.Config.LeaderElection.LeaseDuration.Duration)
	k.requested.Store(true)
	holder := k.elector.State().Holder
	l.work(func(background context.Context) func() {
		err := k.request(background, holder, census.self)
		return func() {
			if err != nil {
				k.requested.Store(false)
				klog.FromContext(ctx).Error(err, "Asking for a lease failed", "lock", k.Name, "holder", holder)
				return
			}
			klog.FromContext(ctx).Info("Asked for a lease", "lock", k.Name, "holder", holder)
		}
	})
}

// request writes a request on the lease of a lock. The bootstrap role of
// kube-controller-manager permits no patch, so the lease is updated.
func (k *lock) request(ctx context.Context, holder, self string) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	lease, err := k.leases.Leases(k.key.lease.Namespace).Get(ctx, k.key.lease.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading lease %s: %w", k.key.lease, err)
	}
	if !requestable(lease, holder) {
		return fmt.Errorf("lease %s has changed hands or is asked for", k.key.lease)
	}
	lease.Annotations[requestedBy] = self
	if _, err := k.leases.Leases(k.key.lease.Namespace).Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing lease %s: %w", k.key.lease, err)
	}
	return nil
}

// requestable reports that a lease is still held as expected, by a process that understands
// requests, and that nobody has asked for it.
func requestable(l *coordinationv1.Lease, holder string) bool {
	return l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == holder &&
		l.Annotations != nil && l.Annotations[requestedBy] == ""
}
