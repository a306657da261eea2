package election

import (
	"context"
	"errors"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/clock"
)

// Causes of the end of a Term.
var (
	// ErrNotRenewed means that the lease was not renewed within RenewDeadline.
	ErrNotRenewed = errors.New("the lease was not renewed in time")
	// ErrTaken means that another candidate holds the lease.
	ErrTaken = errors.New("another candidate holds the lease")
	// ErrForeignRecord means that the lease names this process by a record of which it knows
	// nothing. Another process has the same identity, or what this one has written is lost.
	ErrForeignRecord = errors.New("the lease names this process, but another process wrote it, or it was restored")
	// ErrNotChosen means that the lease is to go to another candidate, which the API server
	// prefers, or that the API server was made to choose again. See Coordination.
	ErrNotChosen = errors.New("the API server assigned the lease to another candidate")
	// ErrReleased means that the lease was given back.
	ErrReleased = errors.New("the lease was released")
	// ErrStopped means that nobody renews the lease any more.
	ErrStopped = errors.New("the election was stopped")
)

// Term is one period of holding the lease. It is valid from its creation until it ends,
// once. It can guard writes: see the interface Fence of package clients.
type Term struct {
	// ID counts the Terms of an Elector, from 1. It is 0 for Always.
	ID uint64
	// Before is the lease that this process replaced when the Term began, nil if there was
	// none, and Acquired what it stored then. Both are nil for Always. Read only.
	Before, Acquired *coordinationv1.Lease
	// Began is when the answer to that write had come: no other process leads from here on. It is zero for
	// Always.
	Began time.Time

	clock clock.Clock
	done  chan struct{}
	moved chan struct{}

	mu       sync.Mutex
	deadline time.Time
	err      error
}

// Always returns a Term that never ends, for processes without leader election.
func Always() *Term { return &Term{done: make(chan struct{})} }

func newTerm(id uint64, deadline time.Time, c clock.Clock) *Term {
	return &Term{ID: id, Began: c.Now(), clock: c, done: make(chan struct{}), moved: make(chan struct{}, 1), deadline: deadline}
}

// Valid reports whether the lease is held now.
func (t *Term) Valid() bool { return t.Err() == nil }

// Err returns nil while the Term is valid, and afterwards why it ended.
func (t *Term) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.errLocked()
}

func (t *Term) errLocked() error {
	if t.err == nil && !t.deadline.IsZero() && passed(t.deadline, t.clock.Now()) {
		t.endLocked(ErrNotRenewed)
	}
	return t.err
}

// passed reports whether a deadline has passed, by the monotonic or by the wall clock. While a machine is suspended the
// first one stands still, and other candidates do not wait for it. The second one can be set: forwards, by more than
// what remains of a Term, that ends it early, which is safe, and the next begins with a renewal at once; backwards, the
// first one decides.
func passed(deadline, now time.Time) bool {
	return !now.Before(deadline) || !now.Round(0).Before(deadline)
}

// Done is closed when the Term ends.
func (t *Term) Done() <-chan struct{} { return t.done }

// Deadline returns when the Term ends unless the lease is renewed; false if it never ends.
// Renewals move it.
func (t *Term) Deadline() (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deadline, !t.deadline.IsZero()
}

// End ends the Term for a reason, if it has not ended before. The lease stays with this
// process: unless it was lost meanwhile, the next Term begins with a renewal, at once.
func (t *Term) End(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLocked(cause)
}

func (t *Term) endLocked(cause error) {
	if t.err == nil {
		t.err = cause
		close(t.done)
	}
}

// extend moves the deadline of a valid Term. It returns false if the Term has ended.
func (t *Term) extend(deadline time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.errLocked() != nil {
		return false
	}
	t.move(deadline)
	return true
}

// limit moves the deadline forward in time only if that shortens the Term.
func (t *Term) limit(deadline time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if deadline.Before(t.deadline) {
		t.move(deadline)
	}
}

func (t *Term) move(deadline time.Time) {
	t.deadline = deadline
	select {
	case t.moved <- struct{}{}:
	default:
	}
}

// guard closes Done when the deadline passes by the monotonic clock, whatever else goes on. If
// it has passed by the wall clock, Err closes Done. It returns when the Term has ended.
func (t *Term) guard() {
	for t.Err() == nil {
		deadline, _ := t.Deadline()
		timer := t.clock.NewTimer(deadline.Sub(t.clock.Now()))
		select {
		case <-t.done:
		case <-t.moved:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// Context returns a copy of parent that is cancelled, with the cause, when the Term ends.
// The caller must call cancel to free its resources.
func (t *Term) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancelCause := context.WithCancelCause(parent)
	go func() {
		select {
		case <-t.done:
			cancelCause(t.Err())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancelCause(context.Canceled) }
}
