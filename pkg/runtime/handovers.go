package runtime

import (
	"context"
	"sync"

	"k8s.io/utils/clock"

	"kcmd.dev/pkg/runtime/takeover"
)

// handOvers remembers of which controllers an instance has begun that has not handed over
// since: it panicked, hangs, or was left behind. What it wrote last, only the ledger of the
// connection knows. The zero value knows of none.
type handOvers struct {
	mu    sync.Mutex
	begun map[string]uint64 // generations of connections, by controller
}

// begin notes that an instance begins on a connection, and reports whether the one before
// it, on the same connection, has handed nothing over.
func (h *handOvers) begin(controller string, connection uint64) (lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begun == nil {
		h.begun = map[string]uint64{}
	}
	before, begun := h.begun[controller]
	h.begun[controller] = connection
	return begun && before == connection
}

// end notes that the instance has handed over what its successor needs.
func (h *handOvers) end(controller string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.begun, controller)
}

// catchUp lets an instance wait for everything that this process has written so far.
func (c *connection) catchUp(ctx context.Context, clk clock.WithTicker) *takeover.Barrier {
	return takeover.New(context.WithoutCancel(ctx), takeover.Options{
		Left:   c.ledger.Versions(),
		Ledger: c.ledger,
		Read:   takeover.Reader{Metadata: c.metadata},
		Clock:  clk,
	})
}
