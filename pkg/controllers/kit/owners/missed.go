package owners

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// missed are the owners that a list after a break of the watch lacked, or may have lacked, and since when.
type missed struct {
	mu sync.Mutex
	at map[types.NamespacedName]time.Time
}

func (m *missed) add(owner types.NamespacedName, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil {
		m.at = map[types.NamespacedName]time.Time{}
	}
	m.at[owner] = now
}

// since returns when an owner was missed, zero if it was not.
func (m *missed) since(owner types.NamespacedName) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at[owner]
}

func (m *missed) drop(owner types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.at, owner)
}
