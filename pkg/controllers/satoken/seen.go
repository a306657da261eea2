package satoken

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// seenSecrets holds the token Secrets that were seen and whose deletion has not been processed.
type seenSecrets struct {
	mu      sync.Mutex
	secrets map[types.UID]key
}

func newSeenSecrets() *seenSecrets { return &seenSecrets{secrets: map[types.UID]key{}} }

func (s *seenSecrets) add(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets[k.uid] = k
}

// addOlder is like add, for a key that may be older than the one that is known.
func (s *seenSecrets) addOlder(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.secrets[k.uid]; !ok {
		s.secrets[k.uid] = k
	}
}

func (s *seenSecrets) remove(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.secrets, uid)
}

func (s *seenSecrets) keys() []key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.secrets))
}
