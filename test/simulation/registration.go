package simulation

import (
	"k8s.io/client-go/tools/cache"
)

// registration is that of a handler.
type registration struct {
	i        *informer
	expects  bool
	isSynced bool
	done     chan struct{}
}

// expect marks the handler as synced once it was told all that the cache shows now.
func (r *registration) expect() {
	if r.i.unlisted || r.expects {
		return
	}
	r.expects = true
	synced := func() {
		r.isSynced = true
		close(r.done)
	}
	if len(r.i.pending) == 0 {
		synced()
		return
	}
	last := &r.i.pending[len(r.i.pending)-1]
	before := *last
	*last = func() {
		before()
		synced()
	}
}

// listed is called after a list: registrations are synced once handlers were told of it.
func (i *informer) listed() {
	for _, r := range i.registrations {
		r.expect()
	}
}

func (r *registration) HasSynced() bool                     { return r.isSynced }
func (r *registration) HasSyncedChecker() cache.DoneChecker { return r }
func (r *registration) Name() string                        { return r.i.resource.String() }
func (r *registration) Done() <-chan struct{}               { return r.done }
