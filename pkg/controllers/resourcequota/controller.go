// Package resourcequota keeps the status of ResourceQuotas correct. The API server admits what fits
// into a quota and charges it; this controller computes what is really used, which is how usage
// gets lower again.
//
// The model, in rules:
//
//  1. What is limited is computed by evaluators, one for each resource. Of most resources only
//     the number of objects is limited: a counter per namespace, kept by the handler of an
//     informer of metadata. Pods, Services, PersistentVolumeClaims and ResourceClaims have
//     accounts.
//  2. An account has what each object of a namespace uses, and the sums of objects that are in
//     the same scopes. A change costs what the object uses; the usage of a quota is the sum of
//     a few sums. Objects are listed only when a namespace gets its first quota.
//  3. The cache is the only truth of an account: a notification names an object, whose entry is
//     then computed from the cache. An entry that also depends on the time expires.
//  4. The usage of a resource is not computed before all its objects are known: an object that
//     is not cached yet would count as deleted. Until then its quotas keep the old usage, and
//     are retried; the usage of everything else is computed.
//  5. A quota is reconciled when its limits or scopes change, when objects that it limits are deleted or
//     use less, and every five minutes. Objects that are created or use more were charged by
//     the API server. The first change is written at once, further ones 100 ms after the last
//     write. A status that is correct already is not written.
//  6. A write is on condition that nobody else has written: the API server does so whenever it
//     admits something. After a conflict the usage is computed again. It is also computed again
//     some seconds after each write: what was admitted may not have been cached before.
//  7. The set of resources follows discovery every 30 seconds. The quotas that limit a new one
//     are reconciled once its objects are known. One that is no longer served is not computed:
//     its usage remains what it was.
//  8. The workers start when all informers have synced, or after 30 seconds.
//
// Behaviour: docs/specs/resourcequota-controller.md.
package resourcequota

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controller/concurrent"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
)

const (
	// discoveryPeriod is the time between two discoveries.
	discoveryPeriod = 30 * time.Second
	// syncTimeout bounds the wait for informers, so that one resource that cannot be listed
	// does not delay the others.
	syncTimeout = 30 * time.Second
)

// Descriptor describes resourcequota-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "resourcequota-controller",
		Aliases:        []string{"resourcequota"},
		ServiceAccount: "resourcequota-controller",
		Requires:       []schema.GroupVersionResource{resourceQuotas, pods, services, volumeClaims},
		ReadsServed:    true,
	}, configOf, newController)
}

var resourceQuotas = corev1.SchemeGroupVersion.WithResource("resourcequotas")

// config is what the controller reads of the configuration.
type config struct {
	// workers is the number of workers of each of the two queues of quotas.
	workers int
	// period is the time between two recalculations of all quotas; 0 means never.
	period time.Duration
	features
}

// features are what an API server of the emulated version has that is limited by quotas.
type features struct {
	// podLevel is whether pods as a whole can have resources, podResize whether the resources
	// of containers can change.
	podLevel, podResize bool
	// expansionRecovery is whether PersistentVolumeClaims say what was allocated to them,
	// volumeAttributes whether they have volume attributes classes.
	expansionRecovery, volumeAttributes bool
	// deviceClaims is whether there are ResourceClaims, extendedResources whether device
	// classes can back extended resources.
	deviceClaims, extendedResources bool
}

func configOf(c *controller.Config) config {
	quota := c.Controllers.ResourceQuota
	return config{
		workers: int(*quota.ConcurrentSyncs),
		period:  quota.SyncPeriod.Duration,
		features: features{
			podLevel:          gates.Enabled(c, gates.PodLevelResources),
			podResize:         gates.Enabled(c, gates.InPlacePodVerticalScaling),
			expansionRecovery: gates.Enabled(c, gates.RecoverVolumeExpansionFailure),
			volumeAttributes:  gates.Enabled(c, gates.VolumeAttributesClass),
			deviceClaims:      gates.Enabled(c, gates.DynamicResourceAllocation),
			extendedResources: gates.Enabled(c, gates.DRAExtendedResource),
		},
	}
}

type quotaController struct {
	controller.Env
	config
	quotas  corelisters.ResourceQuotaLister
	indexer cache.Indexer
	memory  *writes.Memory
	written writes.Objects[*corev1.ResourceQuota]

	evaluators   *evaluators
	pods         *podAccounts
	services     *serviceAccounts
	volumeClaims *volumeClaimAccounts
	claims       *deviceClaims
	classes      *currentClasses
	monitors     *monitors

	// primary and priority are the queues of quotas, see classify; inProgress are the keys
	// that workers of either are processing. Outside of tests, the queues and changes are loops.
	primary, priority reconcile.Queue[types.NamespacedName]
	inProgress        sync.Map
	// recounts is when quotas are counted again, by key.
	recounts sync.Map
	// conflicts are the versions of quotas for which a write was last refused, by key.
	conflicts sync.Map
	changes   interface{ Add(change) }
	loops     loops
	// started is closed when the loops may work.
	started chan struct{}
}

type loops struct {
	primary, priority *reconcile.Loop[types.NamespacedName]
	changes           *reconcile.Loop[change]
}

func newController(env controller.Env, cfg config) (*quotaController, error) {
	informer := env.Informers.Core().V1().ResourceQuotas()
	c := &quotaController{
		Env: env, config: cfg,
		quotas:       informer.Lister(),
		indexer:      informer.Informer().GetIndexer(),
		memory:       writes.New(env.Clock, writes.Stores{resourceQuotas.GroupResource(): informer.Informer().GetStore()}),
		pods:         newPodAccounts(env.Clock, cfg.features),
		services:     newServiceAccounts(env.Clock),
		volumeClaims: newVolumeClaimAccounts(env.Clock, cfg.features),
		classes:      &currentClasses{},
		started:      make(chan struct{}),
	}
	c.written = writes.ObjectsOf[*corev1.ResourceQuota](c.memory, resourceQuotas.GroupResource())
	var classes deviceClasses
	if cfg.extendedResources {
		classes = c.classes
	}
	c.claims = newDeviceClaims(env.Clock, classes, env.Informers.Core().V1().Pods().Informer().GetIndexer(), cfg.features)
	special := map[schema.GroupResource]evaluator{
		pods.GroupResource(): c.pods, services.GroupResource(): c.services, volumeClaims.GroupResource(): c.volumeClaims,
	}
	if cfg.deviceClaims {
		special[claims.GroupResource()] = c.claims
	}
	c.evaluators = newEvaluators(special)
	c.monitors = &monitors{scope: env.Informers, watch: c.watchResource, byKind: map[schema.GroupResource]*monitor{}}
	c.loops = loops{
		primary:  c.newLoop("resourcequota_primary"),
		priority: c.newLoop("resourcequota_priority"),
		changes: reconcile.New(env, reconcile.Options[change]{
			Queue: "resource_quota_controller_resource_changes", Workers: 1, Ready: c.awaitStart,
		}, c.replenish),
	}
	c.primary, c.priority, c.changes = c.loops.primary, c.loops.priority, c.loops.changes
	return c, c.watch(informer.Informer())
}

func (c *quotaController) newLoop(queue string) *reconcile.Loop[types.NamespacedName] {
	return reconcile.New(c.Env, reconcile.Options[types.NamespacedName]{
		Queue: queue, Workers: c.workers, Ready: c.awaitStart,
	}, c.reconcile)
}

func (c *quotaController) watch(quotas cache.SharedIndexInformer) error {
	c.watchQuotas(quotas)
	if err := c.watchObjects(); err != nil {
		return err
	}
	_, err := c.monitors.follow(countable(context.Background(), c.Served()))
	return err
}

// Run implements controller.Controller.
func (c *quotaController) Run(ctx context.Context) error {
	if left, ok := controller.TakeOver(c.Env, c); ok {
		c.takeOver(left)
	}
	parts := []func(context.Context) error{
		c.start, c.loops.primary.Run, c.loops.priority.Run, c.loops.changes.Run, c.followResources,
	}
	if c.period > 0 {
		parts = append(parts, func(ctx context.Context) error {
			if !c.awaitStart(ctx) {
				return nil
			}
			return reconcile.Passes(c.Env, c.period, c.recalculate)(ctx)
		})
	}
	return concurrent.Run(ctx, parts...)
}

// handover is what an instance hands over.
type handover struct {
	// writes are the last ones: the successor must not rely on a cache that lacks them.
	writes writes.State
	// recounts is when quotas are to be counted again.
	recounts map[types.NamespacedName]time.Time
}

func (c *quotaController) takeOver(left handover) {
	c.memory.TakeOver(left.writes)
	for key, at := range left.recounts {
		if is, ok := c.recounts.Load(key); !ok || is.(time.Time).Before(at) {
			c.recounts.Store(key, at)
		}
		c.recountLater(key)
	}
}

// HandOver implements controller.HandsOver.
func (c *quotaController) HandOver() handover {
	left := handover{writes: c.memory.HandOver(), recounts: map[types.NamespacedName]time.Time{}}
	c.recounts.Range(func(key, at any) bool {
		left.recounts[key.(types.NamespacedName)] = at.(time.Time)
		return true
	})
	return left
}

// start lets the loops work when all caches are complete. One that cannot be filled holds up only
// the quotas that limit its objects.
func (c *quotaController) start(ctx context.Context) error {
	if reconcile.ReadyWithin(ctx, c.Env, syncTimeout) {
		close(c.started)
	}
	return nil
}

// awaitStart waits until the loops may work. It returns false if ctx ended first.
func (c *quotaController) awaitStart(ctx context.Context) bool {
	select {
	case <-c.started:
		return true
	case <-ctx.Done():
		return false
	}
}
