package clients

import (
	"errors"
	"sync"
	"time"
)

// ErrFenced is the error of a write whose fence is closed. It wraps the cause.
var ErrFenced = errors.New("write refused: the controller may no longer write")

// ErrClosed is the cause of a fence that was closed without one.
var ErrClosed = errors.New("fence closed")

// Fence permits writes until it is closed. Once closed, it stays closed. A context.Context is
// a Fence.
type Fence interface {
	// Err returns nil while writes are permitted, and afterwards why they are not.
	Err() error
	// Done is closed when the fence closes.
	Done() <-chan struct{}
	// Deadline returns when the fence closes unless the permission is renewed; false if there
	// is no such time. It can move.
	Deadline() (time.Time, bool)
}

// ManualFence is a Fence that is closed by a call. Use NewFence.
type ManualFence struct {
	done chan struct{}
	mu   sync.Mutex
	err  error
}

// NewFence returns a fence that permits writes until Close.
func NewFence() *ManualFence { return &ManualFence{done: make(chan struct{})} }

// Close closes the fence. Only the first call has an effect. A nil cause means ErrClosed.
func (f *ManualFence) Close(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return
	}
	if cause == nil {
		cause = ErrClosed
	}
	f.err = cause
	close(f.done)
}

// Err implements Fence.
func (f *ManualFence) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Done implements Fence.
func (f *ManualFence) Done() <-chan struct{} { return f.done }

// Deadline implements Fence: there is none.
func (f *ManualFence) Deadline() (time.Time, bool) { return time.Time{}, false }

// Fences returns a Fence that is closed if any of the fences is. Nil fences are left out.
//
// The first call of Done starts a goroutine that ends when the first of the fences closes:
// one of them has to be closed when the result is no longer needed.
func Fences(fences ...Fence) Fence {
	c := &combined{}
	for _, f := range fences {
		if f != nil {
			c.fences = append(c.fences, f)
		}
	}
	return c
}

type combined struct {
	fences []Fence
	once   sync.Once
	done   chan struct{}
}

func (c *combined) Err() error {
	for _, f := range c.fences {
		if err := f.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (c *combined) Deadline() (first time.Time, ok bool) {
	for _, f := range c.fences {
		if d, limited := f.Deadline(); limited && (!ok || d.Before(first)) {
			first, ok = d, true
		}
	}
	return first, ok
}

func (c *combined) Done() <-chan struct{} {
	c.once.Do(func() {
		c.done = make(chan struct{})
		closeOnce := sync.OnceFunc(func() { close(c.done) })
		for _, f := range c.fences {
			go func() {
				select {
				case <-f.Done():
					closeOnce()
				case <-c.done:
				}
			}()
		}
	})
	return c.done
}

// leaves returns the fences that f consists of, so that waiting for f needs no goroutine
// that outlives the wait.
func leaves(f Fence) []Fence {
	c, ok := f.(*combined)
	if !ok {
		return []Fence{f}
	}
	var all []Fence
	for _, part := range c.fences {
		all = append(all, leaves(part)...)
	}
	return all
}
