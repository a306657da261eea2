package cloud

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
)

// calls are the calls of the provider, as the status of the controller shows them.
type calls struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	last     uint64
	inFlight map[uint64]controller.InFlight
	status   controller.LoopStatus
}

func newCalls(clk clock.PassiveClock) *calls {
	return &calls{
		clock:    clk,
		inFlight: map[uint64]controller.InFlight{},
		status:   controller.LoopStatus{Queue: "cloud provider", Waiting: "for the caches and the cloud provider"},
	}
}

// began records that the controller has begun to work.
func (c *calls) began() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Began, c.status.Waiting = c.clock.Now(), ""
}

// idle records why there is nothing to do.
func (c *calls) idle(why error) {
	c.began()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.LastError, c.status.LastErrorTime = why.Error(), c.status.Began
}

func (c *calls) begin(what string) (number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if c.last++; c.last == 1 {
		c.status.FirstReconcile = now
	}
	c.inFlight[c.last] = controller.InFlight{Key: what, Since: now}
	return c.last
}

func (c *calls) end(number uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.inFlight, number)
	c.status.Reconciled++
	if err != nil {
		c.status.Failed++
		c.status.LastError, c.status.LastErrorTime = err.Error(), c.clock.Now()
	}
}

// Inspect implements controller.Inspectable.
func (c *calls) Inspect() controller.LoopStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	status := c.status
	for _, call := range c.inFlight {
		status.InFlight = append(status.InFlight, call)
	}
	slices.SortFunc(status.InFlight, func(a, b controller.InFlight) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Key, b.Key))
	})
	return status
}

var _ controller.Inspectable = &calls{}
