package owners

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Selectors caches the parsed selector of each owner, so that an event of an orphan parses
// none. A selector is parsed again when its owner is recreated or changes, its generation or not: in
// a cluster that was restored from a backup, a generation occurs twice.
type Selectors[T metav1.Object] struct {
	parse func(T) (labels.Selector, error)

	mu     sync.RWMutex
	parsed map[types.NamespacedName]parsedSelector
}

type parsedSelector struct {
	uid        types.UID
	generation int64
	version    string
	selector   labels.Selector
	err        error
}

// NewSelectors returns an empty cache that parses with the function.
func NewSelectors[T metav1.Object](parse func(T) (labels.Selector, error)) *Selectors[T] {
	return &Selectors[T]{parse: parse, parsed: map[types.NamespacedName]parsedSelector{}}
}

// Of returns the selector of an owner, or the error of parsing it.
func (s *Selectors[T]) Of(owner T) (labels.Selector, error) {
	key := reconcile.KeyOf(owner)
	uid, generation, version := owner.GetUID(), owner.GetGeneration(), owner.GetResourceVersion()
	s.mu.RLock()
	known, ok := s.parsed[key]
	s.mu.RUnlock()
	if ok && known.uid == uid && known.generation == generation && known.version == version {
		return known.selector, known.err
	}
	selector, err := s.parse(owner)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parsed[key] = parsedSelector{uid, generation, version, selector, err}
	return selector, err
}

// match reports whether the selector of an owner matches labels. An invalid or empty selector
// matches nothing.
func (s *Selectors[T]) match(owner T, set labels.Set) bool {
	selector, err := s.Of(owner)
	return err == nil && !selector.Empty() && selector.Matches(set)
}

// Forget drops the selector of an owner that no longer exists.
func (s *Selectors[T]) Forget(owner types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.parsed, owner)
}
