package endpoints

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/endpointslice/util"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// memory is what is known of each Service besides what the caches show. It outlives the
// instance.
type memory struct {
	// triggers keeps the next write from being annotated with the time the Service was
	// created, which would spoil the metrics of network programming latency.
	triggers *util.TriggerTimeTracker

	mu sync.Mutex
	// replaced has the resource version that our last update replaced. A cache that shows
	// it has not seen the update (kubernetes#125638).
	replaced map[string]replacement
	// created has the keys whose Endpoints we may have created without the cache having
	// shown any since.
	created map[string]bool
}

// replacement is what an update replaced, and when.
type replacement struct {
	version string
	at      time.Time
}

// outdatedFor is how long a cache is waited for that shows what was replaced. After that the
// API server may have been restored from a backup and have nothing newer. It is less than
// the retries of a key take.
const outdatedFor = 2 * time.Minute

// outdated notes that the cache shows Endpoints, and says whether they are those that our
// last update replaced.
func (m *memory) outdated(key, resourceVersion string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.created, key)
	last := m.replaced[key]
	return last.version == resourceVersion && now.Sub(last.at) < outdatedFor
}

// noteUpdate remembers what an update replaced. One that changed nothing replaced nothing:
// the cache will go on showing that version, rightly (kubernetes#127370).
func (m *memory) noteUpdate(key, sent, returned string, now time.Time) {
	if sent == returned {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replaced[key] = replacement{sent, now}
}

// noteCreate remembers a create, and says whether there was one before that the cache has
// not shown.
func (m *memory) noteCreate(key string) (again bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	again = m.created[key]
	m.created[key] = true
	return again
}

func (m *memory) forget(key, namespace, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.replaced, key)
	delete(m.created, key)
	m.triggers.DeleteService(namespace, name)
}

// remove deletes the Endpoints of a Service that is gone. The caches decide nothing here:
// one may not show yet a Service whose Endpoints are in use, the other Endpoints that another
// process created just before it lost the lease, which nobody would delete later.
func (c *endpointsController) remove(ctx context.Context, key, namespace, name string) error {
	_, err := c.client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		return nil // it is queued when the cache shows it
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading Service %s: %w", key, err)
	}
	err = c.client.CoreV1().Endpoints(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Endpoints %s: %w", key, err)
	}
	c.memory.forget(key, namespace, name)
	return nil
}

func (c *endpointsController) create(ctx context.Context, key string, service *corev1.Service, endpoints *corev1.Endpoints) error {
	// Before the request, because one without an answer may have been served.
	again := c.memory.noteCreate(key)
	_, err := c.client.CoreV1().Endpoints(service.Namespace).Create(ctx, endpoints, metav1.CreateOptions{})
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // and never will be
	case again && apierrors.IsAlreadyExists(err):
		return reconcile.Requeue(fmt.Errorf("endpoints informer cache does not show what was created: %w", err))
	}
	c.warnCreate(endpoints, err)
	return fmt.Errorf("creating Endpoints %s: %w", key, err)
}

func (c *endpointsController) update(ctx context.Context, key string, current, endpoints *corev1.Endpoints) error {
	updated, err := c.client.CoreV1().Endpoints(current.Namespace).Update(ctx, endpoints, metav1.UpdateOptions{})
	if err != nil {
		c.warnUpdate(endpoints, err)
		return fmt.Errorf("updating Endpoints %s: %w", key, err)
	}
	c.memory.noteUpdate(key, current.ResourceVersion, updated.ResourceVersion, c.clock.Now())
	return nil
}
