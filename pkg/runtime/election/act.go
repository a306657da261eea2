package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

const (
	// maxConflicts is how many times in a row a write is retried immediately.
	maxConflicts = 2
	// maxRequests is how many requests follow each other without a wait, up to one that begins or extends a Term. The
	// longest useful sequence is three writes, each after a read. The rest is reserve.
	maxRequests = 8
)

var errUnsettled = fmt.Errorf("the holder of the lease is not known after %d requests", maxRequests)

// step decides and acts until it has to wait, and returns for how long. It ends when a write has begun or extended a
// Term, so that others learn of that before the next renewal, which is due already if the API server is slow.
func (e *Elector) step(ctx context.Context) time.Duration {
	e.turn <- struct{}{}
	defer func() { <-e.turn }()
	for sent := 0; ctx.Err() == nil && !e.isReleased(); sent++ {
		v, t := e.snapshot(ctx)
		if sent == maxRequests {
			e.failed(ctx, errUnsettled)
			return t.RetryPeriod
		}
		v.delay = e.delay(v)
		a := e.policy(v, e.opts.Clock.Now(), e.opts.Identity, t)
		klog.FromContext(ctx).V(5).Info("Decided on lease", "action", a)
		if a.verb == wait {
			e.conflicts = 0
			e.settled()
			return a.after
		}
		if e.do(ctx, a.verb, t) {
			return 0
		}
	}
	return 0
}

// settled forgets the last failure of a process that has nothing to attempt: what it knows was read since.
func (e *Elector) settled() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.opts.Clock.Now()
	if e.view.known && !e.released && !now.Before(e.view.retryAt) && !now.Before(e.view.holdOff) {
		e.lastErr = nil
	}
}

// snapshot returns the view to decide on, after ending a Term that has run out.
func (e *Elector) snapshot(ctx context.Context) (view, Timings) {
	e.mu.Lock()
	over := e.term != nil && !e.term.Valid()
	e.mu.Unlock()
	if over {
		e.loseTerm(ctx, ErrNotRenewed)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.view
	v.leading = e.term != nil
	v.holder = holderOf(e.lease)
	v.foreign = e.foreign(e.lease)
	v.preferred = preferredOf(e.lease)
	v.duration = durationOf(e.lease)
	return v, e.timings
}

// delay returns how long a lease that anybody may take is left to other candidates.
func (e *Elector) delay(v view) time.Duration {
	self := e.opts.Identity
	if e.opts.Delay == nil || e.lastHolder == self || !v.contestable(e.opts.Clock.Now(), self) {
		return 0
	}
	return e.opts.Delay()
}

// draft holds the data of a request that makes this process the holder.
type draft struct {
	start    time.Time
	timings  Timings
	metadata metadata
	spec     coordinationv1.LeaseSpec
	takes    bool // the record that it replaces does not make this process the holder
}

// on is a lease with what the request says about it.
func (d draft) on(l *coordinationv1.Lease) *coordinationv1.Lease {
	replaced := l.ResourceVersion
	l = d.metadata.putOn(withSpec(l, d.spec))
	if d.takes {
		take(l, replaced)
	}
	return l
}

func (e *Elector) draft(t Timings) draft {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, own := e.opts.Clock.Now(), e.own(e.lease)
	d := draft{start: now, timings: t, metadata: e.metadata, takes: e.view.exists && !own}
	d.spec = heldSpec(e.lease, e.view.exists, own, e.opts.Identity, now, t)
	d.spec.Strategy = e.strategy()
	e.written.add(d.spec)
	return d
}

// do sends one request and records the outcome. It reports whether this process leads by what it has written.
func (e *Elector) do(ctx context.Context, v verb, t Timings) (leads bool) {
	request, cancel := context.WithTimeout(ctx, t.requestTimeout())
	defer cancel()
	sent := e.opts.Clock.Now()
	switch v {
	case read:
		err := e.read(request)
		e.listen(ctx, sent, err, t)
		if err != nil {
			e.failed(ctx, err)
		}
	case create:
		d := e.draft(t)
		e.mayHold = true
		empty := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: e.opts.Namespace, Name: e.opts.Name}}
		lease, err := e.client.Create(request, d.on(empty), metav1.CreateOptions{})
		e.listen(ctx, sent, err, t)
		return e.wrote(ctx, d, lease, err)
	case acquire, renew:
		e.countSlowPath()
		d := e.draft(t)
		e.mayHold = true
		lease, err := e.client.Update(request, d.on(e.lease), metav1.UpdateOptions{})
		e.listen(ctx, sent, err, t)
		return e.wrote(ctx, d, lease, err)
	case resign:
		e.loseTerm(ctx, ErrNotChosen)
	}
	return false
}

// listen notes whether a request was answered, and calls OnSilence if none was for too long.
func (e *Elector) listen(ctx context.Context, sent time.Time, err error, t Timings) {
	var answer apierrors.APIStatus
	switch {
	case err == nil, errors.As(err, &answer), ctx.Err() != nil:
		e.silence = time.Time{}
		return
	case e.silence.IsZero():
		e.silence = sent
	}
	now := e.opts.Clock.Now()
	if e.opts.OnSilence == nil || now.Sub(e.silence) < t.RenewDeadline {
		return
	}
	klog.FromContext(ctx).Info("The API server answers nothing, opening other connections", "lease", klog.KRef(e.opts.Namespace, e.opts.Name), "since", e.silence)
	e.silence = now
	e.opts.OnSilence()
}

// read reads the lease.
func (e *Elector) read(ctx context.Context) error {
	lease, err := e.client.Get(ctx, e.opts.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		e.answered(ctx, lease)
	case apierrors.IsNotFound(err):
		e.seeNone()
	default:
		return fmt.Errorf("reading lease: %w", err)
	}
	e.refetched = e.term != nil
	return nil
}

// countSlowPath counts a renewal that follows a read.
func (e *Elector) countSlowPath() {
	if e.refetched && e.term != nil {
		e.opts.Metrics.SlowPath(e.opts.Name)
	}
	e.refetched = false
}

// wrote records the outcome of writing this process as the holder. It reports whether it leads by that.
func (e *Elector) wrote(ctx context.Context, d draft, lease *coordinationv1.Lease, err error) bool {
	if err == nil {
		return e.won(ctx, d, lease)
	}
	e.forget() // another version is stored, or it is unknown which
	e.conflicts++
	// The write may conflict with itself: client-go repeats a request that is answered with 5xx and Retry-After,
	// although it may have been carried out. So the record still counts as written.
	conflict := apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
	if !conflict || e.conflicts > maxConflicts {
		e.failed(ctx, fmt.Errorf("writing lease: %w", err))
	}
	return false
}

// forget makes the next decision start with reading the lease.
func (e *Elector) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.view.known = false
}

// failed delays the next attempt.
func (e *Elector) failed(ctx context.Context, err error) {
	e.conflicts = 0
	if errors.Is(err, context.Canceled) {
		return // Run ends
	}
	now := e.opts.Clock.Now()
	e.mu.Lock()
	leading := e.term != nil
	e.lastErr, e.lastErrAt = err, now
	e.view.retryAt = now.Add(e.timings.RetryPeriod)
	if !leading {
		e.view.retryAt = e.view.retryAt.Add(e.opts.Jitter(maxJitter))
	}
	e.mu.Unlock()
	klog.FromContext(ctx).Error(err, "Lease attempt failed", "lease", klog.KRef(e.opts.Namespace, e.opts.Name), "leading", leading)
}

// won records a lease that names this process as the holder, as it was stored. It reports whether the process leads by
// that.
func (e *Elector) won(ctx context.Context, d draft, lease *coordinationv1.Lease) bool {
	e.compare(ctx, lease)
	now := e.opts.Clock.Now()
	e.lastHolder = e.opts.Identity
	e.written.only(lease.Spec)
	e.mu.Lock()
	var before *coordinationv1.Lease
	if e.view.exists {
		before = e.lease
	}
	deadline := d.start.Add(min(d.timings.validFor(secondsOf(lease)), e.timings.validFor(secondsOf(lease))))
	e.lease = lease
	e.view = view{
		known: true, exists: true, changedAt: now, seenAt: now, renewedAt: d.start,
		holdOff: e.view.holdOff, watched: e.view.watched,
		renewNow: d.timings != e.timings || d.metadata.edition != e.metadata.edition,
	}
	e.setStored(d.metadata.edition)
	e.conflicts, e.lastErr = 0, nil
	extended := e.term != nil && e.term.extend(deadline)
	e.mu.Unlock()
	if extended {
		return true
	}
	e.loseTerm(ctx, ErrNotRenewed)
	return e.beginTerm(ctx, deadline, before, lease)
}

// beginTerm makes this process the leader until deadline, by having replaced one record of
// the lease by another. It reports whether it is the leader now.
func (e *Elector) beginTerm(ctx context.Context, deadline time.Time, before, acquired *coordinationv1.Lease) bool {
	now := e.opts.Clock.Now()
	e.mu.Lock()
	late := passed(deadline, now) // the response came too late
	if !now.Before(deadline) {
		// Not if only the wall clock has passed it, because it was set or the machine was suspended meanwhile: then the
		// lease is renewed at once.
		e.view.retryAt = now.Add(e.timings.RetryPeriod)
	}
	if late || e.released || now.Before(e.view.holdOff) {
		e.mu.Unlock()
		return false
	}
	e.termID++
	term := newTerm(e.termID, deadline, e.opts.Clock)
	term.Before, term.Acquired = before, acquired
	e.term = term
	e.mu.Unlock()
	e.terms.Go(term.guard)
	e.opts.Metrics.SetLeading(e.opts.Name, true)
	e.event("became leader")
	klog.FromContext(ctx).Info("Acquired lease", "lease", klog.KRef(e.opts.Namespace, e.opts.Name), "term", term.ID)
	return true
}

// loseTerm ends the current Term, if there is one.
func (e *Elector) loseTerm(ctx context.Context, cause error) {
	e.mu.Lock()
	term := e.term
	if term != nil {
		term.End(cause) // first: who sees that there is none asks it why
	}
	e.term = nil
	e.mu.Unlock()
	if term == nil {
		return
	}
	e.opts.Metrics.SetLeading(e.opts.Name, false)
	e.event("stopped leading")
	klog.FromContext(ctx).Info("No longer holding lease, standing by", "lease", klog.KRef(e.opts.Namespace, e.opts.Name), "term", term.ID, "reason", term.Err())
}

// event records an event about the lease, as upstream does.
func (e *Elector) event(what string) {
	e.mu.Lock()
	lease := e.lease
	e.mu.Unlock()
	if e.opts.Events == nil || lease == nil {
		return
	}
	ref := &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
		ObjectMeta: lease.ObjectMeta,
	}
	e.opts.Events.Eventf(ref, corev1.EventTypeNormal, "LeaderElection", "%s %s", e.opts.Identity, what)
}
