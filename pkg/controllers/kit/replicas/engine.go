package replicas

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/coalesce"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/expectations"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/ownership"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// burst is the largest number of pods created or deleted in one reconcile.
const burst = 500

// writtenTTL is how long an owner that a status write returned is preferred over an older
// one in the cache. The cache catches up within a fraction of it.
const writtenTTL = 10 * time.Second

// Options are what an instance may be told.
type Options struct {
	// Queue is the name of the work queue in metrics.
	Queue string
	// Workers is the number of owners reconciled at once.
	Workers int
	// DeletionCost honours the pod deletion cost annotation.
	DeletionCost bool
	// CountTerminating reports terminating pods in the status.
	CountTerminating bool
	// RequireFresh skips a reconcile altogether while the caches are older than what
	// was written. Otherwise such a reconcile still updates the status.
	RequireFresh bool
	// OnStale is called for each reconcile that RequireFresh skipped. Optional.
	OnStale func(schema.GroupResource)
	// OnAgeRatio is called with the age of each ready pod chosen for deletion, in
	// multiples of the age of the youngest ready pod. Optional.
	OnAgeRatio func(float64)
}

// Engine is a controller of one kind of owner.
type Engine[T pods.Owner] struct {
	kind    Kind[T]
	options Options
	clock   clock.PassiveClock

	pods      index.Pods
	control   pods.Tracked
	selectors *ownership.Selectors[T]
	tracker   *expectations.Tracker
	writes    *coalesce.Writes[types.NamespacedName]
	written   cache.MutationCache // owners as the last status writes returned them
	loop      *reconcile.Loop[types.NamespacedName]
	queue     queue

	predecessor func() any
}

// queue is the part of the loop that takes keys.
type queue interface {
	Enqueue(lane reconcile.Lane, key types.NamespacedName)
	AddAfter(key types.NamespacedName, delay time.Duration)
}

// New makes an instance.
func New[T pods.Owner](env controller.Env, kind Kind[T], options Options) (*Engine[T], error) {
	podInformer := env.Informers.Core().V1().Pods().Informer()
	byController, err := index.NewPods(podInformer)
	if err != nil {
		return nil, err
	}
	e := &Engine[T]{
		kind:      kind,
		options:   options,
		clock:     env.Clock,
		pods:      byController,
		selectors: ownership.NewSelectors(kind.Selector),
		writes:    coalesce.New[types.NamespacedName](env.Clock),
		written:   cache.NewIntegerResourceVersionMutationCache(klog.Background(), kind.Informer.GetStore(), nil, writtenTTL, false),
		tracker: expectations.New(env.Clock, expectations.Stores{
			pods.Resource: podInformer.GetStore(),
			kind.Resource: kind.Informer.GetStore(),
		}),
		predecessor: env.Predecessor,
	}
	e.control = pods.Tracked{Control: pods.Control{Client: env.Client, Events: env.Events}, Tracker: e.tracker}
	e.loop = reconcile.New(env, reconcile.Options[types.NamespacedName]{
		Queue:   options.Queue,
		Workers: options.Workers,
	}, e.reconcile)
	e.queue = e.loop
	if err := e.watch(podInformer); err != nil {
		return nil, err
	}
	return e, nil
}

// Run implements controller.Controller.
func (e *Engine[T]) Run(ctx context.Context) error {
	if e.predecessor != nil {
		e.tracker.Adopt(e.predecessor())
	}
	return e.loop.Run(ctx)
}

// HandOver implements controller.HandsOver: the successor must not act before its caches
// show what this instance wrote.
func (e *Engine[T]) HandOver() any { return e.tracker.HandOver() }

func keyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
