package satoken

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// ledger holds the token Secrets that were seen and whose deletion has not been processed.
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

// handover is what an instance hands over: the token Secrets it knew.
type handover struct{ secrets []key }

// HandOver implements controller.HandsOver.
func (c *tokenController) HandOver() handover { return handover{secrets: c.known.keys()} }

// takeOver enqueues every Secret that the predecessor knew. Those that still exist are queued
// already, because they were replayed; those deleted in between would be missed.
func (c *tokenController) takeOver() {
	left, ok := controller.TakeOver(c.Env, c)
	if !ok {
		return
	}
	for _, k := range left.secrets {
		c.known.inherit(k)
		c.loop.Enqueue(reconcile.Backlog, k)
	}
}
