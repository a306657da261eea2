package resourcequota

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// accounts is the evaluator of a resource whose objects are read whole. It has an account for
// each namespace whose usage was requested, computed from the cache at that time. From then on
// the handler of the informer names the objects that have changed, and their entries are computed
// again from the cache. So an account is never ahead of the cache, whatever the order of
// notifications.
type accounts[T metav1.Object, P profile] struct {
	resource schema.GroupVersionResource
	limits   func(corev1.ResourceName) bool
	describe func(object T, now time.Time) entry[P]
	clock    clock.PassiveClock

	mu sync.RWMutex
	source
	byNamespace map[string]*account[P]
}

// source is where objects are read. The zero source is that of a resource that is not watched.
type source struct {
	objects cache.Indexer
	// complete reports whether the cache has all objects, and the handler has received them.
	complete func() bool
}

func newAccounts[T metav1.Object, P profile](
	resource schema.GroupVersionResource, c clock.PassiveClock,
	limits func(corev1.ResourceName) bool, describe func(object T, now time.Time) entry[P],
) *accounts[T, P] {
	return &accounts[T, P]{
		resource:    resource,
		limits:      limits,
		describe:    describe,
		clock:       c,
		byNamespace: map[string]*account[P]{},
	}
}

// readFrom sets where objects are read, and forgets those of an earlier source.
func (a *accounts[T, P]) readFrom(s source) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.source, a.byNamespace = s, map[string]*account[P]{}
}

// isComplete reports whether all objects are known.
func (a *accounts[T, P]) isComplete() bool {
	_, source := a.existing("")
	return source.objects != nil && source.complete()
}

// refreshAll computes all entries again, because the same objects now use something else.
func (a *accounts[T, P]) refreshAll() {
	a.mu.RLock()
	all, objects := maps.Clone(a.byNamespace), a.objects
	a.mu.RUnlock()
	for namespace, account := range all {
		account.mu.Lock()
		for _, name := range slices.Collect(maps.Keys(account.entries)) {
			a.refresh(account, objects, namespace, name)
		}
		account.mu.Unlock()
	}
}

// forget implements evaluator.
func (a *accounts[T, P]) forget(namespace string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byNamespace, namespace)
}

func (a *accounts[T, P]) limitedBy(name corev1.ResourceName) bool { return a.limits(name) }

// changed computes the entry of an object again. It returns false if the objects of the namespace
// are not accounted for.
func (a *accounts[T, P]) changed(namespace, name string) bool {
	account, source := a.existing(namespace)
	if account == nil {
		return false
	}
	account.mu.Lock()
	defer account.mu.Unlock()
	a.refresh(account, source.objects, namespace, name)
	return true
}

// existing returns the account of a namespace, nil if there is none, and where it is read from.
func (a *accounts[T, P]) existing(namespace string) (*account[P], source) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.byNamespace[namespace], a.source
}

// refresh computes the entry of an object from the cache.
func (a *accounts[T, P]) refresh(account *account[P], objects cache.Indexer, namespace, name string) {
	stored, found, err := objects.GetByKey(namespace + "/" + name)
	object, ok := stored.(T)
	if err != nil || !found || !ok {
		account.remove(name)
		return
	}
	now := a.clock.Now()
	account.note(now)
	account.put(name, a.describe(object, now))
}

// usage implements evaluator.
func (a *accounts[T, P]) usage(namespace string, s selected) (corev1.ResourceList, error) {
	account, objects, err := a.of(namespace)
	if err != nil {
		return nil, err
	}
	account.mu.Lock()
	defer account.mu.Unlock()
	for _, name := range account.expired(a.clock.Now()) {
		a.refresh(account, objects, namespace, name)
	}
	return account.usage(s), nil
}

// of returns the account of a namespace, which it makes if there is none, and where it is read
// from.
func (a *accounts[T, P]) of(namespace string) (*account[P], cache.Indexer, error) {
	account, source := a.existing(namespace)
	if source.objects == nil || !source.complete() {
		return nil, nil, notSynced(a.resource)
	}
	if account != nil {
		return account, source.objects, nil
	}
	return a.open(namespace, source)
}

func (a *accounts[T, P]) open(namespace string, source source) (*account[P], cache.Indexer, error) {
	account, fresh := a.insert(namespace, source)
	if !fresh {
		return account, source.objects, nil
	}
	defer account.mu.Unlock()
	stored, err := source.objects.ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		a.forget(namespace)
		return nil, nil, fmt.Errorf("listing the %s of namespace %s: %w", a.resource.Resource, namespace, err)
	}
	now := a.clock.Now()
	account.note(now)
	for _, each := range stored {
		if object, ok := each.(T); ok {
			account.put(object.GetName(), a.describe(object, now))
		}
	}
	return account, source.objects, nil
}

// insert adds an account to a namespace without one, and locks it: changes from now on wait until
// the objects have been read. If there is an account already, it returns that. If the source has
// been replaced, the account is used only once.
func (a *accounts[T, P]) insert(namespace string, from source) (inserted *account[P], fresh bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if account := a.byNamespace[namespace]; account != nil && a.objects == from.objects {
		return account, false
	}
	account := newAccount[P]()
	account.mu.Lock()
	if a.objects == from.objects {
		a.byNamespace[namespace] = account
	}
	return account, true
}
