package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"
)

// maxConflicts is how often in a row a write is tried again at once.
const maxConflicts = 2

// step decides and acts until there is nothing to do but wait. It returns for how long.
func (e *Elector) step(ctx context.Context) time.Duration {
	e.turn.Lock()
	defer e.turn.Unlock()
	for ctx.Err() == nil && !e.isReleased() {
		v, t := e.snapshot(ctx)
		a := decide(v, e.opts.Clock.Now(), e.opts.Identity, t)
		klog.FromContext(ctx).V(5).Info("decided on lease", "action", a)
		if a.verb == wait {
			return a.after
		}
		e.do(ctx, a.verb, t)
	}
	return 0
}

// snapshot returns what to decide on, after taking note of a Term that has run out.
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
	v.duration = time.Duration(secondsOf(e.lease)) * time.Second
	return v, e.timings
}

// do sends one request and takes note of the outcome.
func (e *Elector) do(ctx context.Context, v verb, t Timings) {
	start := e.opts.Clock.Now()
	request, cancel := context.WithTimeout(ctx, t.requestTimeout())
	defer cancel()
	switch v {
	case read:
		if err := e.read(request); err != nil {
			e.failed(ctx, err)
		}
	case create:
		e.mayHold = true
		lease, err := e.client.Create(request, newLease(e.opts.Namespace, e.opts.Name, e.heldSpec(start, t)), metav1.CreateOptions{})
		e.wrote(ctx, start, t, lease, err)
	case acquire, renew:
		e.countSlowPath()
		e.mayHold = true
		lease, err := e.client.Update(request, withSpec(e.lease, e.heldSpec(start, t)), metav1.UpdateOptions{})
		e.wrote(ctx, start, t, lease, err)
	}
}

// read reads the lease.
func (e *Elector) read(ctx context.Context) error {
	lease, err := e.client.Get(ctx, e.opts.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		e.see(ctx, lease)
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

// wrote takes note of the outcome of writing this process as the holder.
func (e *Elector) wrote(ctx context.Context, start time.Time, t Timings, lease *coordinationv1.Lease, err error) {
	if err == nil {
		e.won(ctx, start, t, lease)
		return
	}
	e.forget() // another version is stored, or it is unclear which
	e.conflicts++
	conflict := apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
	if !conflict || e.conflicts > maxConflicts {
		e.failed(ctx, fmt.Errorf("writing lease: %w", err))
	}
}

// forget makes the next decision start with reading the lease.
func (e *Elector) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.view.known = false
}

// failed puts the next attempt off.
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
	klog.FromContext(ctx).Error(err, "lease attempt failed", "lease", klog.KRef(e.opts.Namespace, e.opts.Name), "leading", leading)
}

// won takes note of a lease that names this process as the holder, written by a request
// that was sent at start under the timings t.
func (e *Elector) won(ctx context.Context, start time.Time, t Timings, lease *coordinationv1.Lease) {
	now := e.opts.Clock.Now()
	e.mu.Lock()
	deadline := start.Add(min(t.validFor(secondsOf(lease)), e.timings.validFor(secondsOf(lease))))
	e.lease = lease
	e.view = view{
		known: true, exists: true, changedAt: now, seenAt: now,
		renewedAt: start, renewNow: t != e.timings, watched: e.view.watched,
	}
	e.conflicts, e.lastErr = 0, nil
	extended := e.term != nil && e.term.extend(deadline)
	e.mu.Unlock()
	if extended {
		return
	}
	e.loseTerm(ctx, ErrNotRenewed)
	e.beginTerm(ctx, deadline)
}

// beginTerm makes this process the leader until deadline.
func (e *Elector) beginTerm(ctx context.Context, deadline time.Time) {
	now := e.opts.Clock.Now()
	e.mu.Lock()
	if !now.Before(deadline) {
		e.view.retryAt = now.Add(e.timings.RetryPeriod) // the answer came too late to be of use
		e.mu.Unlock()
		return
	}
	e.termID++
	term := newTerm(e.termID, deadline, e.opts.Clock)
	e.term = term
	e.mu.Unlock()
	e.terms.Go(term.guard)
	e.opts.Metrics.SetLeading(e.opts.Name, true)
	e.event("became leader")
	klog.FromContext(ctx).Info("acquired lease", "lease", klog.KRef(e.opts.Namespace, e.opts.Name), "term", term.ID)
}

// loseTerm ends the current Term, if there is one.
func (e *Elector) loseTerm(ctx context.Context, cause error) {
	e.mu.Lock()
	term := e.term
	e.term = nil
	e.mu.Unlock()
	if term == nil {
		return
	}
	term.end(cause)
	e.opts.Metrics.SetLeading(e.opts.Name, false)
	e.event("stopped leading")
	klog.FromContext(ctx).Info("no longer holding lease, standing by", "lease", klog.KRef(e.opts.Namespace, e.opts.Name), "term", term.ID, "reason", term.Err())
}

// see takes note of the lease as the API server has it.
func (e *Elector) see(ctx context.Context, lease *coordinationv1.Lease) {
	now := e.opts.Clock.Now()
	e.mu.Lock()
	if e.view.exists && e.lease != nil && older(lease, e.lease) {
		e.mu.Unlock()
		return
	}
	if holderOf(lease) != holderOf(e.lease) {
		e.view.retryAt = time.Time{}
	}
	if !e.view.exists || e.lease == nil || !equality.Semantic.DeepEqual(e.lease.Spec, lease.Spec) {
		e.view.changedAt = now
		e.view.jitter = e.opts.Jitter(maxJitter)
	}
	e.lease = lease
	e.view.known, e.view.exists, e.view.seenAt = true, true, now
	e.mu.Unlock()
	e.mayHold = holderOf(lease) == e.opts.Identity
	if !e.mayHold {
		e.loseTerm(ctx, ErrTaken)
	}
}

// seeNone takes note that there is no lease.
func (e *Elector) seeNone() {
	e.mayHold = false
	e.mu.Lock()
	defer e.mu.Unlock()
	e.view.known, e.view.exists, e.view.seenAt = true, false, e.opts.Clock.Now()
}

// older reports that a was stored before b.
func older(a, b *coordinationv1.Lease) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order < 0
}

// giveBack writes an empty holder if this process is the holder.
func (e *Elector) giveBack(ctx context.Context) error {
	var err error
	for range maxConflicts {
		if err = e.tryGiveBack(ctx); err == nil {
			return nil
		}
		e.forget()
	}
	return fmt.Errorf("releasing lease %s/%s: %w", e.opts.Namespace, e.opts.Name, err)
}

func (e *Elector) tryGiveBack(ctx context.Context) error {
	_, t := e.snapshot(ctx)
	ctx, cancel := context.WithTimeout(ctx, t.requestTimeout())
	defer cancel()
	if !e.view.known && e.mayHold {
		if err := e.read(ctx); err != nil {
			return err
		}
	}
	if !e.mayHold {
		return nil
	}
	lease, err := e.client.Update(ctx, withSpec(e.lease, releasedSpec(e.lease, e.opts.Clock.Now())), metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	e.see(ctx, lease)
	return nil
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
