// Package concurrent runs functions of a controller concurrently.
//
// The model, in rules:
//
//  1. A panic ends the process unless it is recovered in the goroutine it happens in, and the
//     supervisor and the work loops guard one goroutine each. So every goroutine of a
//     controller is started here. test/rules enforces it.
//  2. The starter of a goroutine waits for it. That is when its panic is raised once more, with the
//     stack it had: in the goroutine of a reconcile it fails the key, in that of Run it fails the
//     instance.
//  3. A panic does not interrupt anything else: it is raised when all that was started with
//     it has returned. If several panic, the first is raised.
//  4. Goroutines carry the profiler labels of the one that starts them, by which the stacks
//     of a controller are found.
package concurrent

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// PanicError is a panic that was recovered.
type PanicError struct {
	Value any
	// Stack is that of the goroutine the panic happened in.
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Unwrap returns what the panic was raised with, if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Catch calls f and returns its panic, nil if there was none. A panic that was raised once
// more is returned as it was caught first.
func Catch(f func()) (caught *PanicError) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *PanicError:
			caught = r
		default:
			caught = &PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	f()
	return nil
}

// raise panics with what was caught, if anything.
func (e *PanicError) raise() {
	if e != nil {
		panic(e)
	}
}

// Start calls f beside the caller, who has to call wait: it returns when f has, and raises
// the panic of f.
func Start(f func()) (wait func()) {
	var caught *PanicError
	done := make(chan struct{})
	go func() {
		defer close(done)
		caught = Catch(f)
	}()
	return func() {
		<-done
		caught.raise()
	}
}

// Each calls f with the numbers from 0 up to, not including, n, begun with in order, at most
// limit of them at a time; 0 means no limit. It returns when all calls have.
func Each(n, limit int, f func(i int)) {
	if limit <= 0 {
		limit = max(n, 0)
	}
	slots := make(chan struct{}, limit)
	var first atomic.Pointer[PanicError]
	var calls sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		calls.Go(func() {
			defer func() { <-slots }()
			if caught := Catch(func() { f(i) }); caught != nil {
				first.CompareAndSwap(nil, caught)
			}
		})
	}
	calls.Wait()
	first.Load().raise()
}

// Run calls the parts of something that works until ctx ends, side by side. When one fails
// or panics, the context of the others ends. It returns when all have returned, and returns
// the first error.
func Run(ctx context.Context, parts ...func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var once sync.Once
	var first error
	Each(len(parts), 0, func(i int) {
		err := errPanicked
		defer func() {
			if err == nil {
				return
			}
			once.Do(func() { first = err })
			cancel(err)
		}()
		err = parts[i](ctx)
	})
	return first
}

// errPanicked is why the other parts end. The caller of Run gets the panic instead.
var errPanicked = errors.New("a part that ran beside it panicked")
