package garbagecollector

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// gate blocks until it is opened, once.
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

// openAfter opens the gate after a time limit unless it is open already.
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

// atOnce is the gate that is always open.
func atOnce(ctx context.Context) bool { return ctx.Err() == nil }

// wait waits until the gate is open. It returns false if ctx ended first.
func (g *gate) wait(ctx context.Context) bool {
	select {
	case <-g.opened:
		return true
	case <-ctx.Done():
		return false
	}
}
