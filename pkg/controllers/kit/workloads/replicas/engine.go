package replicas

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// burst is the largest number of pods created or deleted in one reconcile.
const burst = 500

// Options configures an Engine.
type Options struct {
	// Queue is the name of the work queue in metrics.
	Queue string
	// Workers is the number of owners reconciled concurrently.
	Workers int
	// DeletionCost honors the pod deletion cost annotation.
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

	owners     *owners.Owners[T]
	podIndex   index.Pods
	podControl pods.Tracked
}

// New returns an Engine.
func New[T pods.Owner](env controller.Env, kind Kind[T], options Options) *Engine[T] {
	podInformer := env.Informers.Core().V1().Pods().Informer()
	e := &Engine[T]{kind: kind, options: options, clock: env.Clock, podIndex: index.NewPods(podInformer)}
	e.owners = owners.New(env, owners.Options[T]{
		Kind:            kind.GroupVersionKind,
		Resource:        kind.Resource,
		Informer:        kind.Informer,
		Live:            kind.Live,
		Selector:        kind.Selector,
		DependentStores: writes.Stores{pods.Resource: podInformer.GetStore()},
		RequireFresh:    options.RequireFresh,
		OnStale:         options.OnStale,
		FromLastWrite:   true,
		MayIgnoreEcho:   func(_, _ T) bool { return true },
		Loop:            reconcile.Options[types.NamespacedName]{Queue: options.Queue, Workers: options.Workers},
	}, e.reconcile)
	e.podControl = pods.NewTracked(env, e.owners.Writes)
	e.podControl.Counts = e.owners.Selects
	e.owners.Watch()
	e.podsOfOwners().Watch(podInformer)
	return e
}

// Run implements controller.Controller.
func (e *Engine[T]) Run(ctx context.Context) error { return e.owners.Run(ctx) }
