package satoken

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// ledger holds the token Secrets that were seen and whose end has not been dealt with.
type ledger struct {
	mu      sync.Mutex
	secrets map[types.UID]key
}

func newLedger() *ledger { return &ledger{secrets: map[types.UID]key{}} }

func (l *ledger) add(k key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.secrets[k.uid] = k
}

// inherit is add for a key that may be older than the one in the ledger.
func (l *ledger) inherit(k key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.secrets[k.uid]; !ok {
		l.secrets[k.uid] = k
	}
}

func (l *ledger) remove(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.secrets, uid)
}

func (l *ledger) keys() []key {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.secrets))
}

// estate is what an instance leaves to the next: the token Secrets it knew.
type estate struct{ secrets []key }

// HandOver implements controller.HandsOver.
func (c *tokenController) HandOver() any { return estate{secrets: c.known.keys()} }

// takeOver looks at every Secret the predecessor knew. Those that still exist are in the
// queue already, because they were replayed; those that are gone would be missed.
func (c *tokenController) takeOver() {
	if c.predecessor == nil {
		return
	}
	left, ok := c.predecessor().(estate)
	if !ok {
		return
	}
	for _, k := range left.secrets {
		c.known.inherit(k)
		c.loop.Enqueue(reconcile.Backlog, k)
	}
}
