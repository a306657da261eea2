package instance

import "sync"

// handOvers remembers the controllers of which an instance has begun and not handed over: it
// panicked, hangs, or was abandoned. Only the ledger of the connection knows what it wrote
// last. The zero value remembers none.
type handOvers struct {
	mu    sync.Mutex
	begun map[string]uint64 // generations of connections, by controller
}

// begin records that an instance begins on a connection, and reports whether the one before
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

// end records that the instance has handed over what its successor needs.
func (h *handOvers) end(controller string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.begun, controller)
}
