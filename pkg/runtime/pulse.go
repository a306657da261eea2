package runtime

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// pulse shows whether the goroutine that carries out changes gets on. Everything it does
// is bounded in time, so that one that works on one thing for much longer is stuck for
// good: then only a new process helps.
type pulse struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	doing string
	since time.Time
}

// begin notes what is being done until the function it returns is called.
func (p *pulse) begin(what string) (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	doing, since := p.doing, p.since
	p.doing, p.since = what, p.clock.Now()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.doing, p.since = doing, since
	}
}

// check fails if one thing has been done for longer than the limit.
func (p *pulse) check(limit time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doing == "" {
		return nil
	}
	if took := p.clock.Since(p.since); took > limit {
		return fmt.Errorf("%s has not come to an end for %v", p.doing, took.Round(time.Second))
	}
	return nil
}
