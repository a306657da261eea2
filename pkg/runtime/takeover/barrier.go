package takeover

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
)

const (
	// pollEvery is how often the version of a cache is checked. An informer does not report
	// its resource version.
	pollEvery = 2 * time.Millisecond
	// patience is how long to wait for a version before the objects are read instead: after a
	// restore of etcd it may never come.
	patience = time.Second
	// rereadAfter is how long a cache may lack what a read has shown before the objects are
	// read again. It is also the longest time after which a read that failed is repeated.
	rereadAfter = 10 * time.Second
	// repeatErrorAfter is how often the error of a read is logged while it stays the same.
	repeatErrorAfter = 10 * time.Minute
	// maxReads is how many consistent reads are under way at the same time.
	maxReads = 16
)

// Cache is the cache of one informer.
type Cache struct {
	// Resource and Filter say which objects it holds.
	Resource schema.GroupVersionResource
	Filter   controller.Filter
	// Store holds them.
	Store cache.Indexer
	// Halted is closed when the informer has been told to stop; nil if it never is.
	Halted <-chan struct{}
	// Started is when the informer began to fill it, by a consistent read.
	Started time.Time
}

func (c Cache) String() string { return c.Resource.GroupResource().String() }

// identity tells caches apart. It does not keep the objects of an informer that can stop.
func (c Cache) identity() any {
	if c.Halted == nil {
		return c.Store
	}
	return c.Halted
}

// Options configure a Barrier.
type Options struct {
	// Left is what the predecessor left, see LeftOn.
	Left Versions
	// Began is when the term began. Zero means now.
	Began time.Time
	// Ledger records what was found out.
	Ledger *Ledger
	// Read reads objects consistently.
	Read  Reader
	Clock clock.WithTicker
}

// Barrier delays a controller until its caches contain the last writes of its predecessor. It
// is safe for concurrent use.
type Barrier struct {
	options Options
	began   time.Time
	ctx     context.Context
	end     context.CancelFunc
	reads   chan struct{}
	running sync.WaitGroup

	mu     sync.Mutex
	checks map[any]*check // by the identity of the cache
}

// check is what is known about one cache. It outlives the informer, so it does not refer to the cache.
type check struct {
	passed chan struct{}

	mu      sync.Mutex
	lacking string // guarded by mu; what is waited for
}

// New makes the barrier of a term. ctx carries the logger and ends it.
func New(ctx context.Context, o Options) *Barrier {
	b := &Barrier{options: o, began: o.Began, reads: make(chan struct{}, maxReads), checks: map[any]*check{}}
	if b.began.IsZero() {
		b.began = o.Clock.Now()
	}
	b.ctx, b.end = context.WithCancel(ctx)
	return b
}

// End cancels the checks of the barrier and returns when they have ended. What has not passed
// by then never will.
func (b *Barrier) End() {
	b.end()
	b.mu.Lock()   // no check begins from here on
	b.mu.Unlock() //nolint:staticcheck // the point is to have waited
	b.running.Wait()
}

// Begin checks caches before anybody waits for them: those of controllers that are about to start. The largest come
// first, since they take longest.
func (b *Barrier) Begin(caches []Cache) {
	for _, c := range largestFirst(caches) {
		b.Passed(c)
	}
}

func largestFirst(caches []Cache) []Cache {
	size := map[cache.Indexer]int{}
	for _, c := range caches {
		size[c.Store] = len(c.Store.ListKeys())
	}
	return slices.SortedFunc(slices.Values(caches), func(a, b Cache) int { return cmp.Compare(size[b.Store], size[a.Store]) })
}

// Passed returns a channel that is closed once the cache, which must be complete, contains
// everything that the predecessor wrote. It never is if the barrier ends or the informer stops first.
func (b *Barrier) Passed(c Cache) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	k, known := b.checks[c.identity()]
	if !known {
		k = &check{passed: make(chan struct{}), lacking: "not yet compared with earlier writes"}
		b.checks[c.identity()] = k
		if b.passesAtOnce(c) {
			close(k.passed)
		} else if b.ctx.Err() == nil {
			b.running.Go(func() { b.await(k, c) })
		}
	}
	return k.passed
}

// Lacking describes what a cache lacks, empty if it has passed.
func (b *Barrier) Lacking(c Cache) string {
	b.mu.Lock()
	k := b.checks[c.identity()]
	b.mu.Unlock()
	if k == nil {
		return ""
	}
	select {
	case <-k.passed:
		return ""
	default:
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lacking
}

func (k *check) lacks(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lacking = what
}

// passesAtOnce decides without waiting, which is the usual case.
func (b *Barrier) passesAtOnce(c Cache) bool {
	resource := c.Resource.GroupResource()
	if c.Started.After(b.began) {
		b.options.Ledger.verified(resource, c.Store.LastStoreSyncResourceVersion(), b.began)
		return true
	}
	version, known := b.options.Left.of(resource)
	return known && reached(c, version)
}

// reached reports whether a cache is known to be as new as a version: versions may not be
// comparable.
func reached(c Cache, version string) bool {
	order, err := resourceversion.CompareResourceVersion(c.Store.LastStoreSyncResourceVersion(), version)
	return version == none || err == nil && order >= 0
}

// await closes check.passed when the cache has passed.
func (b *Barrier) await(k *check, c Cache) {
	ctx, cancel := b.untilHalted(c)
	defer cancel()
	if b.awaitVersion(ctx, k, c) || b.awaitObjects(ctx, k, c) {
		close(k.passed)
	}
}

// untilHalted derives a context from that of the barrier that also ends when the informer stops: its cache changes no
// more then, and the resource may not be served.
func (b *Barrier) untilHalted(c Cache) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(b.ctx)
	b.running.Go(func() {
		select {
		case <-c.Halted:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

// awaitVersion waits for a limited time until the cache has the version it needs.
func (b *Barrier) awaitVersion(ctx context.Context, k *check, c Cache) bool {
	version, known := b.options.Left.of(c.Resource.GroupResource())
	if !known {
		return false
	}
	k.lacks(fmt.Sprintf("older than resource version %s, which was written before", version))
	return b.poll(ctx, patience, func() bool { return reached(c, version) })
}

// awaitObjects waits until the cache shows what a consistent read has shown. It returns
// false if ctx ended first.
func (b *Barrier) awaitObjects(ctx context.Context, k *check, c Cache) bool {
	logger := klog.FromContext(ctx).WithValues("cache", c.String())
	var refused refusal
	for ctx.Err() == nil {
		s, err := b.read(ctx, c)
		if ctx.Err() != nil {
			return false
		}
		if err != nil {
			k.lacks(fmt.Sprintf("not yet compared with earlier writes: %v", err))
			if refused.again(err, b.options.Clock.Now()) {
				logger.Error(err, "Cache cannot be compared with the API server, controllers wait for it")
			}
			b.pause(ctx, refused.delay)
			continue
		}
		refused = refusal{}
		missing := s.missingFrom(c.Store)
		passed := b.poll(ctx, rereadAfter, func() bool {
			if reached(c, s.version) {
				return true
			}
			missing = slices.DeleteFunc(missing, func(d difference) bool { return d.shownBy(c.Store) })
			k.lacks(describe(missing))
			return len(missing) == 0
		})
		if passed {
			b.options.Ledger.verified(c.Resource.GroupResource(), s.version, b.began)
			return true
		}
		if ctx.Err() == nil {
			logger.Info("Cache is behind the API server, controllers wait for it", "lacks", describe(missing))
		}
	}
	return false
}

// refusal is a read that failed, several times in a row perhaps.
type refusal struct {
	delay  time.Duration // until it is repeated
	text   string
	logged time.Time
}

// again counts a failure, and reports whether it is to be logged.
func (r *refusal) again(err error, now time.Time) (news bool) {
	r.delay = min(max(patience, 2*r.delay), rereadAfter)
	news = err.Error() != r.text || now.Sub(r.logged) >= repeatErrorAfter
	if news {
		r.text, r.logged = err.Error(), now
	}
	return news
}

func (b *Barrier) pause(ctx context.Context, limit time.Duration) {
	select {
	case <-b.options.Clock.After(limit):
	case <-ctx.Done():
	}
}

func (b *Barrier) read(ctx context.Context, c Cache) (snapshot, error) {
	select {
	case b.reads <- struct{}{}:
	case <-ctx.Done():
		return snapshot{}, context.Cause(ctx)
	}
	defer func() { <-b.reads }()
	return b.options.Read.read(ctx, c)
}

// poll asks until the answer is yes, the time is up, or ctx ends.
func (b *Barrier) poll(ctx context.Context, limit time.Duration, done func() bool) bool {
	deadline := b.options.Clock.NewTimer(limit)
	defer deadline.Stop()
	tick := b.options.Clock.NewTicker(pollEvery)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C():
		case <-deadline.C():
			return done()
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// maxNamed is the number of missing objects that are named.
const maxNamed = 3

func describe(missing []difference) string {
	if len(missing) == 0 {
		return ""
	}
	var names []string
	for _, d := range missing[:min(len(missing), maxNamed)] {
		names = append(names, d.String())
	}
	if more := len(missing) - maxNamed; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
