package election

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
)

// never is longer than any wait.
const never = time.Duration(math.MaxInt64)

var errWatchEnded = errors.New("the watch ended")

// watcher watches the lease while the elector stands by. Its methods are called by Run.
type watcher struct {
	elector   *Elector
	running   sync.WaitGroup
	cancel    context.CancelFunc // nil while there is no watch
	sightings chan sighting
	startedAt time.Time
	endedAt   time.Time // the lease is read before the next one
	notBefore time.Time // no watch before, after a failure
}

// sighting is what a watch reports: that it is open, a version of the lease, which may be the
// last one, or its own end.
type sighting struct {
	open  bool
	lease *coordinationv1.Lease
	gone  bool
	err   error
}

// ensure starts or stops watching, and returns when it has to be called again.
func (w *watcher) ensure(ctx context.Context) time.Duration {
	e := w.elector
	e.mu.Lock()
	wanted := e.term == nil && e.view.known && !e.released
	from := ""
	if e.view.exists {
		from = e.lease.ResourceVersion
	}
	seenAt, unwatchedUntil := e.view.seenAt, e.unwatchedUntil
	e.mu.Unlock()
	now := e.opts.Clock.Now()
	switch {
	case !wanted:
		w.stop()
		return never
	case now.Before(unwatchedUntil):
		w.stop()
		return unwatchedUntil.Sub(now)
	case w.cancel != nil, seenAt.Before(w.endedAt):
		return never
	case now.Before(w.notBefore):
		return w.notBefore.Sub(now)
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.sightings = make(chan sighting)
	w.startedAt = now
	out := w.sightings
	w.running.Go(func() { e.watch(ctx, from, out) })
	return never
}

// stop ends the watch. Pending sightings are dropped.
func (w *watcher) stop() {
	if w.cancel == nil {
		return
	}
	w.cancel()
	w.cancel, w.sightings = nil, nil
	w.setWatched(false)
}

func (w *watcher) setWatched(watched bool) {
	w.elector.mu.Lock()
	w.elector.view.watched = watched
	w.elector.mu.Unlock()
}

// handle records a sighting.
func (w *watcher) handle(ctx context.Context, s sighting) {
	e := w.elector
	switch {
	case s.open:
		w.setWatched(true)
	case s.lease != nil:
		e.told(ctx, s.lease, s.gone)
	default:
		w.ended(ctx, s.err)
	}
}

// ended prepares the next watch: at once after one that lasted, else after RetryPeriod. It
// starts where a read finds the lease, as versions may have gone back meanwhile.
func (w *watcher) ended(ctx context.Context, err error) {
	e, now := w.elector, w.elector.opts.Clock.Now()
	w.stop()
	w.endedAt = now
	klog.FromContext(ctx).V(2).Info("Lease watch ended", "lease", klog.KRef(e.opts.Namespace, e.opts.Name), "reason", err)
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(w.startedAt) < e.timings.RetryPeriod {
		w.notBefore = now.Add(e.timings.RetryPeriod)
		return
	}
	e.view.known = false // otherwise it is read anyway within RetryPeriod, see orPoll
}

// watch reports changes of the lease after a resource version until ctx ends or the watch
// fails.
func (e *Elector) watch(ctx context.Context, from string, out chan<- sighting) {
	tell := func(s sighting) {
		select {
		case out <- s:
		case <-ctx.Done():
		}
	}
	w, err := e.client.Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, e.opts.Name).String(),
		ResourceVersion: from,
	})
	if err != nil {
		tell(sighting{err: fmt.Errorf("watching lease: %w", err)})
		return
	}
	defer w.Stop()
	tell(sighting{open: true})
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-w.ResultChan():
			s := e.sightingOf(event, ok)
			tell(s)
			if s.err != nil {
				return
			}
		}
	}
}

func (e *Elector) sightingOf(event watch.Event, ok bool) sighting {
	if !ok {
		return sighting{err: errWatchEnded}
	}
	lease, isLease := event.Object.(*coordinationv1.Lease)
	switch {
	case event.Type == watch.Error:
		return sighting{err: apierrors.FromObject(event.Object)}
	case !isLease:
		return sighting{err: fmt.Errorf("unexpected %s of %T in the watch of a lease", event.Type, event.Object)}
	case lease.Name != e.opts.Name || event.Type == watch.Bookmark:
		return sighting{open: true}
	case event.Type == watch.Deleted:
		return sighting{lease: lease, gone: true}
	}
	return sighting{lease: lease}
}
