package garbagecollector

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// worklist is a queue of nodes that records which are not done, to hand them over.
type worklist struct {
	loop  *reconcile.Loop[*node]
	queue reconcile.Queue[*node] // the loop, except in tests
	work  reconcile.Func[*node]

	mu sync.Mutex
	// open counts how often a node was added, for each that is not done.
	open map[*node]uint64
}

func newWorklist(env controller.Env, options reconcile.Options[*node], work reconcile.Func[*node]) *worklist {
	w := &worklist{work: work, open: map[*node]uint64{}}
	options.Namespace = func(n *node) string { return n.namespace }
	w.loop = reconcile.New(env, options, w.do)
	w.queue = w.loop
	return w
}

func (w *worklist) do(ctx context.Context, n *node) error {
	begun := w.count(n)
	err := w.work(ctx, n)
	if err == nil {
		w.close(n, begun)
	}
	return err
}

func (w *worklist) add(lane reconcile.Lane, n *node) {
	w.reopen(n)
	w.queue.Enqueue(lane, n)
}

// addAfter adds a node after a delay.
func (w *worklist) addAfter(n *node, delay time.Duration) {
	w.reopen(n)
	w.queue.AddAfter(n, delay)
}

func (w *worklist) reopen(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[n]++
}

func (w *worklist) count(n *node) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open[n]
}

// close records that a node is done unless it was added again in the meantime.
func (w *worklist) close(n *node, begun uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[n] == begun {
		delete(w.open, n)
	}
}

// hurry retries all nodes that wait for the backoff of a failure at once.
func (w *worklist) hurry() {
	for _, n := range w.left() {
		w.queue.Enqueue(reconcile.Backlog, n)
	}
}

// left returns the nodes that are not done.
func (w *worklist) left() []*node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.open))
}
