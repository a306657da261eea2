package endpoints

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/endpointslice/util"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/requests"
)

// memory is what is known of each Service besides what the caches show. It outlives the
// instance.
type memory struct {
	// triggers keeps the next write from being annotated with the time the Service was
	// created, which would spoil the metrics of network programming latency.
	triggers *util.TriggerTimeTracker

	mu sync.Mutex
	// pending has the trigger time of each Service whose last reconcile failed.
	pending map[types.NamespacedName]time.Time
	// replaced has the resource version that our last update replaced, or may have replaced. A
	// cache that shows it has not seen the update (kubernetes#125638).
	replaced map[types.NamespacedName]replacement
	// created has the keys whose Endpoints we may have created without the cache having
	// shown any since.
	created map[types.NamespacedName]bool
	// late has the time until which a write without an answer may be executed.
	late map[types.NamespacedName]time.Time
}

// replacement is what an update replaced.
type replacement struct {
	version string
	at      time.Time // of the answer
	// unanswered says that the update failed, although it may have been executed.
	unanswered bool
}

// outdatedFor is how long to wait while a cache shows what was replaced. After that the API
// server is asked, by an update: it may have been restored from a backup and have nothing newer.
const outdatedFor = 2 * time.Minute

// noteLate remembers that a write had no answer.
func (m *memory) noteLate(key types.NamespacedName, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late[key] = now.Add(requests.LateWithin)
}

// lateRest returns for how long a write without an answer may still be executed, zero if there is none.
func (m *memory) lateRest(key types.NamespacedName, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	rest := m.late[key].Sub(now)
	if rest <= 0 {
		delete(m.late, key)
		return 0
	}
	return min(rest, requests.LateWithin) // a clock that was set back does not make it longer
}

// triggerTime is the time of the change that the next write of a Service is due to, zero if
// there was none. The tracker reports a change once only, so it is kept until it is written.
func (m *memory) triggerTime(key types.NamespacedName, service *corev1.Service, pods []*corev1.Pod) time.Time {
	t := m.triggers.ComputeEndpointLastChangeTriggerTime(service.Namespace, service, pods)
	m.mu.Lock()
	defer m.mu.Unlock()
	if kept, ok := m.pending[key]; ok && (t.IsZero() || kept.Before(t)) {
		return kept
	}
	if !t.IsZero() {
		m.pending[key] = t
	}
	return t
}

// written notes that a Service was reconciled to the end.
func (m *memory) written(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pending, key)
}

// outdated notes that the cache shows Endpoints, and reports whether they are those that our
// last update replaced.
func (m *memory) outdated(key types.NamespacedName, resourceVersion string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.created, key)
	last := m.replaced[key]
	return last.shownBy(resourceVersion, now) && !last.unanswered
}

// shownBy reports whether a cache with this version shows what was replaced, and is waited for.
func (r replacement) shownBy(resourceVersion string, now time.Time) bool {
	return r.version == resourceVersion && now.Sub(r.at) < outdatedFor
}

// doubtful reports whether the Endpoints that the cache shows, and that are not outdated, may nevertheless be those
// that an update replaced: it had no answer, or the cache was waited for in vain. Then an update must be sent even if
// the content looks right. If that is a conflict, the cache is behind; if it changes nothing, nothing was replaced.
func (m *memory) doubtful(key types.NamespacedName, resourceVersion string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, ok := m.replaced[key]
	return ok && last.version == resourceVersion
}

// noteUpdate remembers what an update replaced. One that changed nothing replaced nothing, nor
// did one before it: the cache rightly continues to show that version (kubernetes#127370).
func (m *memory) noteUpdate(key types.NamespacedName, sent, returned string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if sent == returned {
		delete(m.replaced, key)
		return
	}
	m.replaced[key] = replacement{version: sent, at: now}
}

// noteUnanswered remembers what an update may have replaced.
func (m *memory) noteUnanswered(key types.NamespacedName, sent string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replaced[key] = replacement{version: sent, unanswered: true}
}

// noteCreate remembers a create, and reports whether there was one before that the cache has
// not shown.
func (m *memory) noteCreate(key types.NamespacedName) (again bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	again = m.created[key]
	m.created[key] = true
	return again
}

// keys returns the Services that something is known of.
func (m *memory) keys() sets.Set[types.NamespacedName] {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := sets.KeySet(m.replaced).Union(sets.KeySet(m.created)).Union(sets.KeySet(m.pending)).Union(sets.KeySet(m.late))
	for key := range m.triggers.ServiceStates {
		keys.Insert(types.NamespacedName(key))
	}
	return keys
}

func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.replaced, key)
	delete(m.created, key)
	delete(m.pending, key)
	m.triggers.DeleteService(key.Namespace, key.Name)
}

// remove deletes the Endpoints of a Service that is gone. The caches decide nothing here: that of
// Services may lack one whose Endpoints are in use, that of Endpoints may lack some that another
// process created just before it lost the lease, which nobody would delete later. Endpoints are
// deleted only in the version that was seen: a Service that was created since may have made them
// its own.
func (c *endpointsController) remove(ctx context.Context, key types.NamespacedName) error {
	seen, err := c.existing(ctx, key) // before the Service is read, so that no later Endpoints are deleted
	if err != nil {
		return err
	}
	_, err = c.Client.CoreV1().Services(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if err == nil {
		c.serviceQueue.AddAfter(key, reconcile.RecheckAfter) // sooner if the cache shows it
		return nil
	}
	if !controller.Absent(err) {
		return fmt.Errorf("reading Service %s: %w", key, err)
	}
	if seen != nil {
		if err := c.delete(ctx, seen); err != nil {
			return err
		}
	}
	c.memory.forget(key)
	return nil
}

// existing returns the Endpoints of a Service as the cache shows them, or as the API server does if the cache shows
// none; nil if there are none.
func (c *endpointsController) existing(ctx context.Context, key types.NamespacedName) (*corev1.Endpoints, error) {
	cached, found, err := reconcile.Found(c.endpoints.Endpoints(key.Namespace).Get(key.Name))
	if found || err != nil {
		return cached, err
	}
	live, err := c.Client.CoreV1().Endpoints(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case controller.Absent(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Endpoints %s: %w", key, err)
	}
	return live, nil
}

func (c *endpointsController) delete(ctx context.Context, seen *corev1.Endpoints) error {
	err := c.Client.CoreV1().Endpoints(seen.Namespace).Delete(ctx, seen.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &seen.UID, ResourceVersion: &seen.ResourceVersion},
	})
	switch {
	case controller.Absent(err):
		c.serviceQueue.AddAfter(reconcile.KeyOf(seen), reconcile.RecheckAfter) // an admission webhook may say so, too
	case apierrors.IsConflict(err):
		return reconcile.AwaitCache(fmt.Errorf("the cache of Endpoints %s/%s is behind: %w", seen.Namespace, seen.Name, err))
	case err != nil:
		return fmt.Errorf("deleting Endpoints %s/%s: %w", seen.Namespace, seen.Name, err)
	}
	return nil
}

// errNamespaceTerminating means that Endpoints cannot be created because their namespace is being deleted, or because
// the API server still knows only an earlier one of that name.
var errNamespaceTerminating = errors.New("the namespace is being deleted")

func (c *endpointsController) create(ctx context.Context, key types.NamespacedName, endpoints *corev1.Endpoints) error {
	// Before the request, because one without an answer may have been served.
	again := c.memory.noteCreate(key)
	_, err := c.Client.CoreV1().Endpoints(key.Namespace).Create(controller.OnlyMetadata(ctx), endpoints,
		metav1.CreateOptions{})
	switch {
	case err == nil:
		// If somebody deletes them before the cache has shown them, and the watch breaks in between, no event shows either.
		c.serviceQueue.AddAfter(key, reconcile.RecheckAfter)
		return nil
	case apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return errNamespaceTerminating
	case again && apierrors.IsAlreadyExists(err):
		return reconcile.AwaitCache(fmt.Errorf("endpoints informer cache does not show what was created: %w", err))
	case requests.MayHaveCreated(err):
		c.memory.noteLate(key, c.Clock.Now())
	}
	c.RecordFailure(ctx, failedCreate(endpoints, err))
	return fmt.Errorf("creating Endpoints %s: %w", key, err)
}

func (c *endpointsController) update(
	ctx context.Context, key types.NamespacedName, current, endpoints *corev1.Endpoints,
) error {
	updated, err := c.Client.CoreV1().Endpoints(current.Namespace).Update(controller.OnlyMetadata(ctx), endpoints,
		metav1.UpdateOptions{})
	if err != nil {
		if !requests.IsRefusal(err) {
			c.memory.noteUnanswered(key, current.ResourceVersion)
		}
		if requests.MayHaveCreated(err) {
			c.memory.noteLate(key, c.Clock.Now())
		}
		if apierrors.IsConflict(err) && c.memory.doubtful(key, current.ResourceVersion) {
			return reconcile.AwaitCache(fmt.Errorf("endpoints informer cache does not show what was updated: %w", err))
		}
		c.RecordFailure(ctx, failedUpdate(endpoints, err))
		return fmt.Errorf("updating Endpoints %s: %w", key, err)
	}
	c.memory.noteUpdate(key, current.ResourceVersion, updated.ResourceVersion, c.Clock.Now())
	return nil
}

func newMemory() *memory {
	return &memory{
		triggers: util.NewTriggerTimeTracker(),
		pending:  map[types.NamespacedName]time.Time{},
		replaced: map[types.NamespacedName]replacement{},
		created:  map[types.NamespacedName]bool{},
		late:     map[types.NamespacedName]time.Time{},
	}
}
