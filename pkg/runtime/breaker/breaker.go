package breaker

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
)

// Caches are those of informers.
type Caches interface {
	// Undeleted counts objects of a resource that are not being deleted, see
	// informers.Informers.
	Undeleted(of schema.GroupResource, namespace, name string) (n int, cached, filled bool)
	// UIDOf returns the UID of an object, empty if no cache shows it.
	UIDOf(of schema.GroupResource, namespace, name string) types.UID
}

// Options are what a Breaker works with.
type Options struct {
	// Caches are those in use, nil if there is no connection.
	Caches func() Caches
	// Announce is called when deletions of a kind are stopped or, in Warn mode, would be. It must not block.
	Announce func(ctx context.Context, s Stop, stopped bool)
	Metrics  *Metrics
	Clock    clock.PassiveClock
}

// Breaker implements controller.Breaker. Use New.
type Breaker struct {
	options  Options
	settings atomic.Pointer[settings] // nil while it is off; written under mu

	mu        sync.Mutex
	kinds     map[schema.GroupResource]*kind
	counted   Caches // those of the connection that the kinds were counted over
	followers map[*func()]bool
}

// kind is what is known about the deletions of a kind.
type kind struct {
	tally tally
	// objects is how many there were at the time counted.
	objects int
	counted time.Time
	// stop is set while it is stopped; in the mode Warn, since it was reported.
	stop    *Stop
	unclear unclear
}

// New returns a breaker that is off.
func New(o Options) *Breaker {
	return &Breaker{options: o, kinds: map[schema.GroupResource]*kind{}, followers: map[*func()]bool{}}
}

// On implements controller.Breaker.
func (b *Breaker) On() bool {
	s := b.settings.Load()
	return s != nil && !s.allowed(b.options.Clock.Now())
}

// Ask implements controller.Breaker.
func (b *Breaker) Ask(ctx context.Context, by string, of schema.GroupResource, namespace, name string) (int, error) {
	s, caches := b.settings.Load(), b.options.Caches()
	if s == nil || s.exempt[of] || caches == nil {
		return 0, nil
	}
	n, cached, filled := caches.Undeleted(of, namespace, name)
	if cached && !filled {
		return 0, s.uncounted(of)
	}
	if n == 0 {
		return 0, nil
	}
	// After Undeleted: if another object takes its place in between, that is counted.
	n, announced, err := b.count(by, of, objectIn(caches, of, namespace, name), n, caches)
	if announced != nil {
		b.options.Metrics.reported(of, announced.Since)
		b.options.Announce(ctx, *announced, err != nil)
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}

// count counts a deletion of n objects, or refuses it. It returns how many were counted, and what is to be announced,
// nil for nothing.
func (b *Breaker) count(by string, of schema.GroupResource, what object, n int, caches Caches) (int, *Stop, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.connectedLocked(caches)
	s, now := b.settings.Load(), b.options.Clock.Now()
	if s == nil || s.exempt[of] || s.allowed(now) { // since an edit
		return 0, nil, nil
	}
	k := b.kinds[of]
	if k == nil {
		k = &kind{}
		b.kinds[of] = k
	}
	if k.stop != nil && s.stops {
		return 0, nil, refusal(of, *k.stop)
	}
	if n = max(0, n-k.unclear.of(what, s.window, now)); n == 0 {
		return 0, nil, nil
	}
	sofar := k.tally.within(s.window, now)
	if sofar+n > s.minimum && k.isOutdated(sofar+n, s, now) {
		all, _, filled := caches.Undeleted(of, "", "")
		if !filled { // since Ask
			return 0, nil, s.uncounted(of)
		}
		k.objects, k.counted = all+sofar, now
	}
	if sofar+n <= s.minimum || sofar+n <= s.limit(k.objects) {
		k.tally.add(n, s.window, now)
		return n, nil, nil
	}
	exceeded := &Stop{Resource: of.String(), Since: now, Controller: by, Next: n, Deleted: sofar, Objects: k.objects, Limit: s.limit(k.objects), Window: v1beta1.FormatDuration(s.window)}
	if s.stops {
		k.stop = exceeded
		b.options.Metrics.stopped(of, now)
		return 0, exceeded, refusal(of, *exceeded)
	}
	k.tally.add(n, s.window, now)
	if k.stop != nil && now.Sub(k.stop.Since) < s.window {
		return n, nil, nil
	}
	k.stop = exceeded
	return n, exceeded, nil
}

func objectIn(caches Caches, of schema.GroupResource, namespace, name string) object {
	what := object{place: place{namespace, name}}
	if name != "" {
		what.uid = caches.UIDOf(of, namespace, name)
	}
	return what
}

// connectedLocked forgets what was counted over another connection. The API server that this one leads to has other
// objects, and so has the same one after a restore of etcd.
func (b *Breaker) connectedLocked(caches Caches) {
	if b.counted == caches {
		return
	}
	b.counted = caches
	s := b.settings.Load()
	for of, k := range b.kinds {
		if k.stop == nil || s == nil || !s.stops {
			delete(b.kinds, of)
			continue
		}
		*k = kind{stop: k.stop}
	}
}

// isOutdated reports whether the objects have to be counted again before it is decided about so many deletions.
func (k *kind) isOutdated(deletions int, s *settings, now time.Time) bool {
	age := now.Sub(k.counted)
	return age >= s.window || age >= s.window/steps && deletions > s.limit(k.objects)
}

// uncounted is what becomes of a deletion while nobody knows how many objects there are: it is refused and tried again,
// or in the mode Warn not counted.
func (s *settings) uncounted(of schema.GroupResource) error {
	if !s.stops {
		return nil
	}
	return fmt.Errorf("deletion of %s refused: their cache is not filled yet, and so it is not known what share of them is deleted", of)
}

func refusal(of schema.GroupResource, stop Stop) error {
	return &controller.StoppedError{Resource: of, Why: stop.Reason()}
}

// GiveBack implements controller.Breaker.
func (b *Breaker) GiveBack(of schema.GroupResource, counted int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.kinds[of]; k != nil {
		k.tally.giveBack(counted)
	}
}

// Unclear records a counted deletion whose outcome is unknown, with the time at which Ask was called for it.
// A retry does not count the remaining objects again. It implements clients.UnclearDeletion.
func (b *Breaker) Unclear(of schema.GroupResource, namespace, name string, asked time.Time) {
	s, caches := b.settings.Load(), b.options.Caches()
	if s == nil || caches == nil {
		return
	}
	what := objectIn(caches, of, namespace, name) // first: if another object takes its place in between, that is not known
	left, _, _ := caches.Undeleted(of, namespace, name)
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.kinds[of]; k != nil && left > 0 && what.isShown() {
		k.unclear.add(what, left, asked, k.tally.since(asked, s.window), s.window, b.options.Clock.Now())
	}
}

// Stopped implements controller.Breaker.
func (b *Breaker) Stopped(of schema.GroupResource) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.settings.Load()
	return s != nil && s.stops && b.kinds[of] != nil && b.kinds[of].stop != nil
}

// Follow implements controller.Breaker.
func (b *Breaker) Follow(resumed func()) (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.followers[&resumed] = true
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.followers, &resumed)
	}
}

// Apply takes over the settings of a configuration, and returns the kinds whose deletions go on by
// it, sorted. When it returns, its followers have been notified.
func (b *Breaker) Apply(cfg *v1beta1.KubeControllerManagerConfiguration) []Stop {
	resumed, followers := b.apply(settingsOf(cfg.DeletionBreaker, b.settings.Load(), b.options.Clock.Now()))
	if len(resumed) > 0 {
		for _, told := range followers {
			told()
		}
	}
	return resumed
}

func (b *Breaker) apply(s *settings) (resumed []Stop, followers []func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, now := b.settings.Load(), b.options.Clock.Now()
	if before != nil && reflect.DeepEqual(before, s) {
		return nil, nil // an edit of something else: what was reported is not reported again
	}
	for of, k := range b.kinds {
		stopped := before != nil && before.stops && k.stop != nil
		if stopped && s.keeps(of, *k.stop, now) {
			continue
		}
		if stopped {
			resumed = append(resumed, *k.stop)
			b.options.Metrics.resumed(of)
		}
		if stopped || s == nil || s.allowed(now) || s.exempt[of] {
			delete(b.kinds, of)
			continue
		}
		k.stop = nil // of the mode Warn
		k.counted = time.Time{}
	}
	b.settings.Store(s)
	sortStops(resumed)
	for told := range b.followers {
		followers = append(followers, *told)
	}
	return resumed, followers
}

// Status is what the breaker does, nil while it is off.
func (b *Breaker) Status() *Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.settings.Load()
	if s == nil {
		return nil
	}
	status := &Status{Mode: v1beta1.DeletionsWarn}
	if s.allowed(b.options.Clock.Now()) {
		status.AllowedUntil = s.allowUntil
	}
	if !s.stops {
		return status
	}
	status.Mode = v1beta1.DeletionsStop
	for _, k := range b.kinds {
		if k.stop != nil {
			status.Stops = append(status.Stops, *k.stop)
		}
	}
	sortStops(status.Stops)
	return status
}

func sortStops(all []Stop) {
	slices.SortFunc(all, func(a, b Stop) int { return cmp.Compare(a.Resource, b.Resource) })
}
