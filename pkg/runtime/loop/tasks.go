package loop

import (
	"context"
	"sync"
)

// Tasks are what is done beside a loop. Use NewTasks.
type Tasks struct {
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	done    chan func()
}

// NewTasks makes an empty set.
func NewTasks() *Tasks {
	t := &Tasks{done: make(chan func())}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// Context ends with the tasks.
func (t *Tasks) Context() context.Context { return t.ctx }

// Go does something whose outcome does not concern the loop.
func (t *Tasks) Go(do func()) { t.running.Go(do) }

// Do does something, and has the loop call what it returns.
func (t *Tasks) Do(do func(context.Context) func()) {
	t.running.Go(func() {
		then := do(t.ctx)
		select {
		case t.done <- then:
		case <-t.ctx.Done():
		}
	})
}

// Done is where the loop receives what it is to call.
func (t *Tasks) Done() <-chan func() { return t.done }

// End cancels the tasks and returns when they have ended. No task may be started afterwards.
func (t *Tasks) End() {
	t.cancel()
	t.running.Wait()
}
