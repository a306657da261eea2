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
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// memory is what is known of each Service besides what the caches show. It outlives the
// instance.
type memory struct {
	clock clock.PassiveClock
	// triggers keeps the next write from being annotated with the time the Service was
	// created, which would spoil the metrics of network programming latency.
	triggers *util.TriggerTimeTracker

	mu sync.Mutex
	// replaced has the resource version that our last update replaced. A cache that shows
	// it has not seen the update (kubernetes#125638), unless that was long ago: then the
	// cluster was restored from a backup.
	replaced map[string]replacement
	// created has the keys whose Endpoints we may have created without the cache having
	// shown any since.
	created map[string]bool
}

// replacement is a resource version that an update replaced.
type replacement struct {
	version string
	at      time.Time
}

// replacedTime is how long a cache may take to show an update.
const replacedTime = 5 * time.Minute

// outdated notes that the cache shows Endpoints, and says whether they are those that our
// last update replaced.
func (m *memory) outdated(key, resourceVersion string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.created, key)
	last, ok := m.replaced[key]
	if ok && m.clock.Since(last.at) >= replacedTime {
		delete(m.replaced, key)
		return false
	}
	return ok && last.version == resourceVersion
}

// noteUpdate remembers what an update replaced. One that changed nothing replaced nothing:
// the cache will go on showing that version, rightly (kubernetes#127370).
func (m *memory) noteUpdate(key, sent, returned string) {
	if sent == returned {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replaced[key] = replacement{version: sent, at: m.clock.Now()}
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

func (m *memory) unseenCreate(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.created[key]
}

func (m *memory) forget(key, namespace, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.replaced, key)
	delete(m.created, key)
	m.triggers.DeleteService(namespace, name)
}

// remove deletes the Endpoints of a Service that is gone. There is nothing to delete if the
// cache has none and will not come to show one that we created.
func (c *endpointsController) remove(ctx context.Context, key, namespace, name string) error {
	_, err := c.endpoints.Endpoints(namespace).Get(name)
	if err == nil || c.memory.unseenCreate(key) {
		err = c.client.CoreV1().Endpoints(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
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
	c.memory.noteUpdate(key, current.ResourceVersion, updated.ResourceVersion)
	return nil
}
