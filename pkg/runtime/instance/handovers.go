package instance

import "sync"

// handOvers remembers the controllers of which an instance has begun, and what it has handed over: nothing if it
// panicked, hangs, or was abandoned. Then only the ledger of the connection knows what it wrote last. The zero
// value remembers none.
type handOvers struct {
	mu   sync.Mutex
	last map[string]handOver // by controller
}

// handOver is that of the last instance of a controller.
type handOver struct {
	connection uint64 // its generation
	// done is set if the instance has handed over, and something if that was more than nothing.
	done, something bool
}

// begin records that an instance begins on a connection. It reports whether it lacks what the one before it, on the
// same connection, knew: that has handed nothing over, or what it has was dropped, so that this one got nothing.
func (h *handOvers) begin(controller string, connection uint64, got bool) (lacks bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last == nil {
		h.last = map[string]handOver{}
	}
	before, begun := h.last[controller]
	h.last[controller] = handOver{connection: connection}
	return begun && before.connection == connection && (!before.done || before.something && !got)
}

// end records that the instance has handed over what its successor needs, if anything.
func (h *handOvers) end(controller string, something bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.last[controller]
	last.done, last.something = true, something
	h.last[controller] = last
}
