package resourcequota

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// evaluator knows what the objects of one resource use.
type evaluator interface {
	// limitedBy reports whether a quota of a name limits the objects.
	limitedBy(name corev1.ResourceName) bool
	// usage returns what the selected objects of a namespace use. It fails while not all
	// objects are known.
	usage(namespace string, s selected) (corev1.ResourceList, error)
	// forget drops what was computed for a namespace, which has no quota any more.
	forget(namespace string)
}

// evaluators are those of all resources.
type evaluators struct {
	// special are those of resources of which more is limited than their number.
	special map[schema.GroupResource]evaluator

	mu sync.RWMutex
	// counters are those of all other resources. They come and go.
	counters map[schema.GroupResource]*counter
	// byName has a counter under each of its names.
	byName map[corev1.ResourceName]*counter
}

func newEvaluators(special map[schema.GroupResource]evaluator) *evaluators {
	return &evaluators{
		special:  special,
		counters: map[schema.GroupResource]*counter{},
		byName:   map[corev1.ResourceName]*counter{},
	}
}

// add adds the counter of a resource in place of an earlier one.
func (e *evaluators) add(c *counter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counters[c.resource.GroupResource()] = c
	for _, name := range c.names {
		e.byName[name] = c
	}
}

// remove removes a counter, unless it was replaced.
func (e *evaluators) remove(c *counter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counters[c.resource.GroupResource()] != c {
		return
	}
	delete(e.counters, c.resource.GroupResource())
	for _, name := range c.names {
		delete(e.byName, name)
	}
}

// of returns the evaluator of a resource, nil if there is none.
func (e *evaluators) of(resource schema.GroupResource) evaluator {
	if special := e.special[resource]; special != nil {
		return special
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	if c := e.counters[resource]; c != nil {
		return c
	}
	return nil
}

// know reports whether the usage of a name can be computed.
func (e *evaluators) know(name corev1.ResourceName) bool { return len(e.limitedBy(name)) > 0 }

// limitedBy returns the evaluators of what a quota of a name limits.
func (e *evaluators) limitedBy(name corev1.ResourceName) []evaluator {
	var all []evaluator
	for _, special := range e.special {
		if special.limitedBy(name) {
			all = append(all, special)
		}
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	if c := e.byName[name]; c != nil {
		all = append(all, c)
	}
	return all
}

// forget drops what was computed for a namespace.
func (e *evaluators) forget(namespace string) {
	for _, special := range e.special {
		special.forget(namespace)
	}
}

// usage returns the usage of those of some names whose usage can be computed. If it fails for
// some objects, the names that limit them are left out, even if they limit others too.
func (e *evaluators) usage(namespace string, names []corev1.ResourceName, s selected) (corev1.ResourceList, error) {
	limits := map[evaluator][]corev1.ResourceName{}
	for _, name := range names {
		for _, limited := range e.limitedBy(name) {
			limits[limited] = append(limits[limited], name)
		}
	}
	sums, computed := corev1.ResourceList{}, corev1.ResourceList{}
	for _, names := range limits {
		for _, name := range names {
			computed[name] = number(0)
		}
	}
	var failures []error
	for limited, names := range limits {
		used, err := limited.usage(namespace, s)
		if err != nil {
			failures = append(failures, err)
			maps.DeleteFunc(computed, func(name corev1.ResourceName, _ resource.Quantity) bool {
				return slices.Contains(names, name)
			})
			continue
		}
		for name, quantity := range used {
			plus(sums, name, quantity)
		}
	}
	for name := range computed {
		if sum, ok := sums[name]; ok {
			computed[name] = sum
		}
	}
	slices.SortFunc(failures, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return computed, errors.Join(failures...)
}
