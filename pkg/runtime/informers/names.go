package informers

import (
	"fmt"
	"reflect"
	"sync"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
)

// maxTaken is the number of taken names that are skipped.
const maxTaken = 3

// metricNames assigns the identities under which informers publish metrics.
//
// A cache.InformerName accepts each resource once and cannot forget one, so an informer that
// is made again after a stop needs another name. Names are numbered: an informer gets the
// lowest number under which its type has not been used. A name is released as a whole when it
// is no longer used, so the numbers stay small. As long as no kind is stopped and requested
// again, the plain name is the only one.
type metricNames struct {
	name string

	mu     sync.Mutex
	slots  map[string][]*nameSlot
	closed bool
}

type nameSlot struct {
	name  *cache.InformerName
	spent map[reflect.Type]bool
	users int
}

func newMetricNames(name string) *metricNames {
	return &metricNames{name: name, slots: map[string][]*nameSlot{}}
}

// acquire returns a name for an informer and the function that gives it back. The name is
// nil, which means no metrics, if metrics are off or too many names are taken.
func (m *metricNames) acquire(t reflect.Type, filter controller.Filter) (*cache.InformerName, func()) {
	if m.name == "" {
		return nil, func() {}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, func() {}
	}
	if filter.Namespace != "" {
		filter.Namespace = "*" // there may be thousands, and a series never ends
	}
	prefix := m.name + describe(filter)
	slot, err := m.slotFor(prefix, t)
	if err != nil {
		klog.Background().Error(err, "Failed to name an informer, it has no metrics", "type", t.String())
		return nil, func() {}
	}
	slot.spent[t] = true
	slot.users++
	return slot.name, func() { m.release(slot) }
}

// slotFor returns the first slot whose name can be used for the type. A name can also be
// taken by other Informers, that of a connection about to be replaced.
func (m *metricNames) slotFor(prefix string, t reflect.Type) (*nameSlot, error) {
	var taken error
	for n := range len(m.slots[prefix]) + maxTaken {
		if n == len(m.slots[prefix]) {
			m.slots[prefix] = append(m.slots[prefix], &nameSlot{spent: map[reflect.Type]bool{}})
		}
		slot := m.slots[prefix][n]
		if slot.spent[t] {
			continue
		}
		if slot.name != nil {
			return slot, nil
		}
		if taken = slot.reserve(numbered(prefix, n)); taken == nil {
			return slot, nil
		}
	}
	return nil, taken
}

func (s *nameSlot) reserve(name string) error {
	reserved, err := cache.NewInformerName(name)
	if err != nil {
		return fmt.Errorf("reserving an informer name: %w", err)
	}
	s.name = reserved
	return nil
}

func (m *metricNames) release(slot *nameSlot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	slot.users--
	if slot.users > 0 {
		return
	}
	slot.name.Release()
	slot.name = nil
	clear(slot.spent)
}

// close ends the assignment of names.
func (m *metricNames) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
}

func numbered(prefix string, n int) string {
	if n == 0 {
		return prefix
	}
	return fmt.Sprintf("%s-%d", prefix, n+1)
}

// describe renders a filter as a suffix; the zero filter is empty.
func describe(f controller.Filter) string {
	suffix := ""
	if f.Namespace != "" {
		suffix += "/" + f.Namespace
	}
	if f.FieldSelector != "" {
		suffix += "[" + f.FieldSelector + "]"
	}
	if f.LabelSelector != "" {
		suffix += "{" + f.LabelSelector + "}"
	}
	return suffix
}
