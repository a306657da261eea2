package horizontalpodautoscaler

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// selectors holds the last known selector of each autoscaler, to detect pods that several of
// them select.
//
//  1. A registered autoscaler selects nothing until its selector is set. Registration is by
//     name and UID: a recreated autoscaler selects nothing at first. Nor does one whose target is
//     gone, is another one since, or has no selector that can be used.
//  2. A selector is indexed by one label pair that a pod must have, its anchor, or by no pair
//     if it requires none. The cost of looking up a pod is proportional to the selectors whose
//     anchor it has, not to the autoscalers of the namespace.
type selectors struct {
	mu    sync.RWMutex
	known map[cache.ObjectName]registered
	filed map[file]map[cache.ObjectName]labels.Selector
}

// registered is a registered autoscaler.
type registered struct {
	uid      types.UID
	selector labels.Selector
}

// file is the index key of selectors with the same anchor. The zero pair is for those without
// one.
type file struct{ namespace, label, value string }

func newSelectors() *selectors {
	return &selectors{
		known: map[cache.ObjectName]registered{},
		filed: map[file]map[cache.ObjectName]labels.Selector{},
	}
}

// register registers an autoscaler and returns the number of registered ones.
func (s *selectors) register(key cache.ObjectName, uid types.UID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isKnown(key, uid) {
		s.put(key, registered{uid, labels.Nothing()})
	}
	return len(s.known)
}

// remove unregisters an autoscaler and returns the number of registered ones.
func (s *selectors) remove(key cache.ObjectName) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unfile(key)
	delete(s.known, key)
	return len(s.known)
}

func (s *selectors) isKnown(key cache.ObjectName, uid types.UID) bool {
	known, ok := s.known[key]
	return ok && known.uid == uid
}

// set sets the selector of an autoscaler if it is registered.
func (s *selectors) set(key cache.ObjectName, uid types.UID, selector labels.Selector) {
	if s.holds(key, uid, selector) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isKnown(key, uid) {
		s.put(key, registered{uid, selector})
	}
}

// holds reports whether set would change nothing, as in almost every evaluation.
func (s *selectors) holds(key cache.ObjectName, uid types.UID, selector labels.Selector) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.isKnown(key, uid) {
		return false
	}
	was := s.known[key].selector
	return was.String() == selector.String() && was.Empty() == selector.Empty()
}

// takeOver copies the selectors of the registered autoscalers from other.
func (s *selectors) takeOver(other *selectors) {
	other.mu.RLock()
	defer other.mu.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, was := range other.known {
		if s.isKnown(key, was.uid) {
			s.put(key, was)
		}
	}
}

// selecting returns, in order, the autoscalers of a namespace whose selector matches any
// of its pods.
func (s *selectors) selecting(namespace string, pods []*corev1.Pod) []cache.ObjectName {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found := map[cache.ObjectName]struct{}{}
	look := func(f file, pod *corev1.Pod) {
		for key, selector := range s.filed[f] {
			if _, ok := found[key]; !ok && selector.Matches(labels.Set(pod.Labels)) {
				found[key] = struct{}{}
			}
		}
	}
	for _, pod := range pods {
		look(file{namespace: namespace}, pod)
		for label, value := range pod.Labels {
			look(file{namespace, label, value}, pod)
		}
	}
	keys := make([]cache.ObjectName, 0, len(found))
	for key := range found {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b cache.ObjectName) int { return strings.Compare(a.Name, b.Name) })
	return keys
}

func (s *selectors) put(key cache.ObjectName, is registered) {
	s.unfile(key)
	s.known[key] = is
	f, selects := anchor(key.Namespace, is.selector)
	if !selects {
		return
	}
	if s.filed[f] == nil {
		s.filed[f] = map[cache.ObjectName]labels.Selector{}
	}
	s.filed[f][key] = is.selector
}

func (s *selectors) unfile(key cache.ObjectName) {
	was, ok := s.known[key]
	if !ok {
		return
	}
	f, selects := anchor(key.Namespace, was.selector)
	if !selects {
		return
	}
	delete(s.filed[f], key)
	if len(s.filed[f]) == 0 {
		delete(s.filed, f)
	}
}

// anchor returns the index key of a selector, and false for one that selects nothing.
func anchor(namespace string, selector labels.Selector) (f file, selects bool) {
	pairs, selects := exactPairs(selector)
	for label, value := range pairs {
		// The longest value tends to be the most specific one; the label breaks ties.
		if longer := len(value) - len(f.value); f.label == "" || longer > 0 || longer == 0 && label < f.label {
			f.label, f.value = label, value
		}
	}
	f.namespace = namespace
	return f, selects
}

// exactPairs returns the labels that a pod must have, with their values, to match. It returns
// false for a selector that selects nothing.
func exactPairs(selector labels.Selector) (pairs map[string]string, selects bool) {
	requirements, selects := selector.Requirements()
	pairs = map[string]string{}
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if values := r.ValuesUnsorted(); len(values) == 1 {
				pairs[r.Key()] = values[0]
			}
		}
	}
	return pairs, selects
}
