package garbagecollector

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/controller"
)

// gate holds work back until it is opened, once.
type gate struct {
	once   sync.Once
	opened chan struct{}
}

func newGate() *gate { return &gate{opened: make(chan struct{})} }

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }

func (g *gate) isOpen() bool {
	select {
	case <-g.opened:
		return true
	default:
		return false
	}
}

// openAfter opens the gate after a time if it is still closed then.
func (g *gate) openAfter(ctx context.Context, c clock.WithTicker, limit time.Duration) {
	timer := c.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-timer.C():
		g.open()
	case <-g.opened:
	case <-ctx.Done():
	}
}

// gatedScope is a scope whose work loops wait for a gate instead of all handlers.
type gatedScope struct {
	controller.Scope
	gate *gate
}

func (s gatedScope) WaitUntilReady(ctx context.Context) bool {
	select {
	case <-s.gate.opened:
		return true
	case <-ctx.Done():
		return false
	}
}
