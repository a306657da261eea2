package owners

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// Options configures Owners.
type Options[T metav1.Object] struct {
	// Kind is written to owner references, Resource is used in requests.
	Kind     schema.GroupVersionKind
	Resource schema.GroupResource
	// Informer caches the owners.
	Informer cache.SharedIndexInformer
	// Live reads an owner from the API server. Required if dependents are claimed.
	Live func(ctx context.Context, namespace, name string) (T, error)
	// Selector returns the selector of an owner. Default: owners adopt nothing.
	Selector func(T) (labels.Selector, error)

	// DependentStores are the stores of the dependents that are written; that of the owners is added.
	DependentStores writes.Stores
	// RequireFresh skips reconciles of an owner while the caches are older than what was written
	// for it.
	RequireFresh bool
	// OnStale is called for each reconcile that RequireFresh skipped. Optional.
	OnStale func(schema.GroupResource)
	// FromLastWrite starts a reconcile from the object that the last write of the owner returned
	// until the cache shows it.
	FromLastWrite bool
	// MayIgnoreEcho reports whether an update that shows the controller's own status write, with
	// the same generation, may be ignored. Default: every update is reconciled.
	MayIgnoreEcho func(old, owner T) bool
	// OnGone is called when an owner no longer exists. Optional.
	OnGone func(types.NamespacedName)

	// Loop describes the work queue.
	Loop reconcile.Options[types.NamespacedName]
}

// Owners are the owners of one kind.
type Owners[T metav1.Object] struct {
	// Selectors are the parsed selectors of the owners.
	Selectors *Selectors[T]
	// Writes remembers what was written for the owners.
	Writes *writes.Memory
	// Queue accepts the keys of owners. It is the loop unless a test replaces it.
	Queue reconcile.Queue[types.NamespacedName]
	// Loop reconciles the owners.
	Loop *reconcile.Loop[types.NamespacedName]

	env     controller.Env
	options Options[T]
	cached  cache.Indexer
	missed  missed
	written writes.Objects[T]
	work    func(context.Context, T) error
}

// New returns the owners of a controller, with a loop that calls work for each of them.
func New[T metav1.Object](
	env controller.Env, options Options[T], work func(ctx context.Context, owner T) error,
) *Owners[T] {
	stores := writes.Stores{options.Resource: options.Informer.GetStore()}
	maps.Copy(stores, options.DependentStores)
	memory := writes.New(env.Clock, stores)
	o := &Owners[T]{
		Selectors: NewSelectors(options.Selector),
		Writes:    memory,
		env:       env,
		options:   options,
		cached:    options.Informer.GetIndexer(),
		written:   writes.ObjectsOf[T](memory, options.Resource),
		work:      work,
	}
	o.Loop = reconcile.New(env, options.Loop, o.Reconcile)
	o.Queue = o.Loop
	memory.OnHold = func(key types.NamespacedName, d time.Duration) { o.Queue.AddAfter(key, d) }
	return o
}

// Run takes over the writes of the predecessor and reconciles owners until ctx ends. A
// controller that hands over more than its writes has its own Run.
func (o *Owners[T]) Run(ctx context.Context) error {
	if left, ok := controller.TakeOver(o.env, o); ok {
		o.Writes.TakeOver(left)
	}
	return o.Loop.Run(ctx)
}

// HandOver implements controller.HandsOver: the successor must not act before its caches
// show what this instance wrote.
func (o *Owners[T]) HandOver() writes.State { return o.Writes.HandOver() }

// Cached returns an owner from the cache, or a NotFound error.
func (o *Owners[T]) Cached(key types.NamespacedName) (T, error) {
	item, exists, err := o.cached.GetByKey(cache.ObjectName(key).String())
	if err == nil && !exists {
		err = apierrors.NewNotFound(o.options.Resource, key.Name)
	}
	owner, ok := item.(T)
	if err == nil && !ok {
		err = fmt.Errorf("reading %s %s: the cache holds a %T", o.options.Kind.Kind, key, item)
	}
	return owner, err
}

// Reconcile reads an owner and reconciles it.
func (o *Owners[T]) Reconcile(ctx context.Context, key types.NamespacedName) error {
	owner, err := o.read(key)
	switch {
	case apierrors.IsNotFound(err):
		if left := o.mayBeBack(key); left > 0 {
			o.Queue.AddAfter(key, left)
			return nil
		}
		o.forget(key)
		return nil
	case reconcile.IsRequeue(err):
		return err
	case err != nil:
		return fmt.Errorf("reading %s %s: %w", o.options.Kind.Kind, key, err)
	}
	o.missed.drop(key)
	err = o.work(ctx, owner)
	if reconcile.IsExpectedOr(err, func(answer error) bool { return o.isAbsent(key, answer) }) {
		return reconcile.Requeue(err)
	}
	return err
}

// isAbsent reports whether an answer says that the owner does not exist. The cache will show that soon: the owner was
// deleted while it was reconciled, as a rule between the last write to its dependents and that of its status.
func (o *Owners[T]) isAbsent(key types.NamespacedName, answer error) bool {
	var status apierrors.APIStatus
	if !controller.Absent(answer) || !errors.As(answer, &status) {
		return false
	}
	of, resource := status.Status().Details, o.options.Resource
	return of != nil && of.Name == key.Name && of.Group == resource.Group && of.Kind == resource.Resource
}

// read returns the state of an owner that a reconcile starts from.
func (o *Owners[T]) read(key types.NamespacedName) (T, error) {
	owner, err := o.fresh(key)
	if err != nil || !o.options.FromLastWrite {
		return owner, err
	}
	return o.written.Newest(owner, owner), nil
}

// fresh returns the cached owner. With Options.RequireFresh, it returns an error while the caches are older than what
// was written for it. The owner is then checked again without an event: not every resource in Options.DependentStores
// has events that queue owners. Nor may a burst of events, each of them skipped, postpone the next attempt.
func (o *Owners[T]) fresh(key types.NamespacedName) (T, error) {
	get := func() (T, error) { return o.Cached(key) }
	if !o.options.RequireFresh {
		return get()
	}
	owner, err := writes.Read(o.Writes, get)
	var stale *writes.StaleError
	if !errors.As(err, &stale) {
		return owner, err
	}
	if o.options.OnStale != nil {
		o.options.OnStale(stale.Resource)
	}
	return owner, reconcile.AwaitCache(err)
}

// mayBeBack returns how long what was written for an owner that the cache lacks is kept, see Missed. Before an event
// has told whether the owner was deleted, or only a list lacked it, the second is assumed.
func (o *Owners[T]) mayBeBack(key types.NamespacedName) time.Duration {
	since := o.missed.since(key)
	if since.IsZero() && o.Writes.Knows(key) {
		since = o.env.Clock.Now()
		o.missed.add(key, since)
	}
	return writes.Timeout - o.env.Clock.Since(since)
}

// forget drops all state of an owner that no longer exists.
func (o *Owners[T]) forget(key types.NamespacedName) {
	o.missed.drop(key)
	o.Writes.ForgetAll(key)
	o.Selectors.Forget(key)
	if o.options.OnGone != nil {
		o.options.OnGone(key)
	}
}

// Settled reports whether the caches show all earlier writes for an owner, so that its
// dependents may be created and deleted. It must be called before they are listed. If it
// returns false, the owner is enqueued for when that may change.
func (o *Owners[T]) Settled(owner T) bool {
	settled, retry := o.Writes.Settled(owner)
	if retry > 0 {
		o.EnqueueAfter(owner, retry)
	}
	return settled
}

// WroteOwner records that a write of the owner itself returned written.
func (o *Owners[T]) WroteOwner(owner, written T) {
	if o.options.FromLastWrite {
		o.written.Wrote(owner, written)
	}
	if o.options.RequireFresh {
		o.Writes.Wrote(owner, o.options.Resource, written.GetResourceVersion())
	}
}

// WroteStatus records that a write of the status of an owner returned written.
func (o *Owners[T]) WroteStatus(owner, written T) {
	o.Writes.WroteStatus(owner, written.GetResourceVersion())
	o.WroteOwner(owner, written)
}

// PutOff reports whether a status that is not urgent must wait, see writes.Memory.CountsDelay. If so, the
// owner is enqueued for when it may be written.
func (o *Owners[T]) PutOff(owner T, counts any, window time.Duration) bool {
	delay := o.Writes.CountsDelay(owner, counts, window)
	if delay > 0 {
		o.EnqueueAfter(owner, delay)
	}
	return delay > 0
}

// CanAdopt returns the guard for the Claimer of an owner.
func (o *Owners[T]) CanAdopt(owner T) func(context.Context) error {
	return recheck(owner, o.options.Kind.Kind, func(ctx context.Context) (T, error) {
		return o.options.Live(ctx, owner.GetNamespace(), owner.GetName())
	})
}

// Selects reports whether the selector of an owner matches a dependent. One that cannot be parsed is no reason to say no.
func (o *Owners[T]) Selects(owner, dependent metav1.Object) bool {
	typed, ok := owner.(T)
	if !ok {
		return true
	}
	selector, err := o.Selectors.Of(typed)
	return err != nil || selector.Matches(labels.Set(dependent.GetLabels()))
}

// ClaimerFor returns a Claimer of dependents of a kind for an owner; patch sends its patches.
func ClaimerFor[T, D metav1.Object](
	o *Owners[T], owner T, kind string, selector labels.Selector, patch func(context.Context, D, []byte) error,
) Claimer[D] {
	return Claimer[D]{
		Owner:     owner,
		OwnerKind: o.options.Kind,
		Kind:      kind,
		Selector:  selector,
		CanAdopt:  o.CanAdopt(owner),
		Patch:     patch,
	}
}
