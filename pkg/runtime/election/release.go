package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// Release gives the lease back, so that another candidate takes it at once, and ends Run.
// It must be called after everything that relies on the Term has stopped, before or after
// Run has returned. It does nothing if this process does not hold the lease. It ends the
// Term in any case. The request that gives the lease back carries the annotations.
func (e *Elector) Release(ctx context.Context) error {
	e.mu.Lock()
	e.released = true
	if e.term != nil {
		e.term.End(ErrReleased)
	}
	e.mu.Unlock()
	if err := e.withdraw(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "The API server may choose this process again")
	}
	return e.end(ctx)
}

// errOtherTerm is why a lease is not given back: what relies on that Term has not stopped.
var errOtherTerm = errors.New("another term has begun")

// Yield gives the lease back like Release, for another candidate to take it, and keeps
// contending: this process takes the lease again only when backoff has passed and nobody else
// holds it then. of is the Term under which everything has stopped; nil if there is none. If
// another one has begun, its lease is kept, which is an error. If Yield fails otherwise, the
// lease may still name this process; it is still left alone for backoff, and others take it
// when it expires.
func (e *Elector) Yield(ctx context.Context, of *Term, backoff time.Duration) error {
	e.mu.Lock()
	if !e.receded { // then it is that of the Caution
		e.view.holdOff = e.opts.Clock.Now().Add(backoff)
	}
	if of != nil {
		of.End(ErrReleased)
	}
	e.mu.Unlock()
	return e.end(ctx)
}

// end gives the lease back when it holds turn, unless there is a Term that has not ended.
func (e *Elector) end(ctx context.Context) error {
	defer e.signal()
	defer e.publish()
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("releasing lease %s: %w", klog.KRef(e.opts.Namespace, e.opts.Name), context.Cause(ctx))
	}
	defer func() { <-e.turn }()
	e.mu.Lock()
	again := e.term != nil && e.term.Valid()
	if again {
		e.view.holdOff = time.Time{}
	}
	e.mu.Unlock()
	if again {
		return fmt.Errorf("releasing lease %s: %w", klog.KRef(e.opts.Namespace, e.opts.Name), errOtherTerm)
	}
	e.loseTerm(ctx, ErrReleased)
	return e.giveBack(ctx)
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
	return fmt.Errorf("releasing lease %s: %w", klog.KRef(e.opts.Namespace, e.opts.Name), err)
}

func (e *Elector) tryGiveBack(ctx context.Context) error {
	e.mu.Lock()
	timeout, known, ours := e.timings.requestTimeout(), e.view.known, e.metadata
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if !known && e.mayHold {
		if err := e.read(ctx); err != nil {
			return err
		}
	}
	if !e.mayHold {
		return nil
	}
	spec := releasedSpec(e.lease, e.opts.Clock.Now())
	spec.Strategy = e.strategy()
	released := ours.putOn(withSpec(e.lease, spec))
	if e.opts.Farewell != nil {
		released.Annotations = merged(released.Annotations, e.opts.Farewell(released))
	}
	lease, err := e.client.Update(ctx, released, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	e.see(ctx, lease)
	return nil
}
