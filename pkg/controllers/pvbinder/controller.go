// Package pvbinder binds PersistentVolumeClaims to PersistentVolumes, and reclaims the volumes that
// claims leave behind.
//
// The model, in rules:
//
//  1. A claim and a volume are bound when each names the other: the volume by a claimRef with the UID of
//     the claim, the claim by the name of the volume. The volume is written first. An annotation on each
//     side tells what the controller wrote from what a user asked for, another one on the claim that it
//     was once bound.
//  2. Binding takes four writes: the volume, its status, the claim, its status. Whatever is already so is
//     not written. After a crash between two writes the next pass continues.
//  3. A claim without a volume gets the smallest that fits, and of these one without access modes that it
//     does not need (see candidates). If there is none, it may get the default class, wait for a pod, or
//     ask a provisioner for a volume, by annotations.
//  4. A volume whose claim is gone is Released, and reclaimed as its policy says: kept, deleted or
//     emptied. This controller itself deletes and empties only some kinds of volumes (see plugins). All
//     others belong to external provisioners, which go by phases and annotations.
//  5. Data must not be lost. Every update is of the object that the decision was based on, with its UID and
//     resource version. Only a live read shows that a claim or a volume is gone, or that the volume of a
//     claim belongs to another one. What is deleted or emptied is read live before, and is deleted by its UID.
//  6. Decisions are made on what the cache shows or what this instance has written, whichever is newer
//     (see store). Claims and volumes are two queues. The workers of a kind decide only about objects of
//     that kind, except that binding a claim writes its volume as well. If both write a volume, one of
//     the updates is rejected, and retried. Claims have several workers, since binding one takes up to four
//     writes after each other; only one at a time chooses a volume and reserves it (see take).
//  7. Provisioning, deleting and emptying are operations, which run beside the workers (see operationSet). On a
//     stop they are finished, except for a pod that empties a volume: it is left running, and handed over.
//  8. There are no events for classes, pods and other things that a waiting claim or volume depends on. All
//     claims and volumes that are not settled are examined periodically.
//
// Behaviour: docs/specs/persistentvolume-binder-controller.md.
package pvbinder

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Descriptor describes persistentvolume-binder-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "persistentvolume-binder-controller",
		Aliases:        []string{"persistentvolume-binder"},
		ServiceAccount: "persistent-volume-binder",
		EventSource:    "persistentvolume-controller",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("persistentvolumes"),
			corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
			corev1.SchemeGroupVersion.WithResource("pods"),
			corev1.SchemeGroupVersion.WithResource("nodes"),
			storagev1.SchemeGroupVersion.WithResource("storageclasses"),
		},
	}, configOf, newController)
}

// config is what the controller reads of the configuration.
type config struct {
	syncPeriod time.Duration
	// provisions is set if volumes are provisioned, hostPath if those of the plugin host-path are.
	provisions, hostPath bool
	// vac is set if VolumeAttributesClasses are supported: a claim gets a volume of the same one.
	vac                           bool
	nfsRecycler, hostPathRecycler recyclerConfig
}

func configOf(c *controller.Config) config {
	block := c.Controllers.PersistentVolumeBinder
	return config{
		syncPeriod:       block.SyncPeriod.Duration,
		provisions:       *block.DynamicProvisioning,
		hostPath:         *block.DynamicProvisioning && *block.HostPathProvisioning,
		vac:              gates.Enabled(c, gates.VolumeAttributesClass),
		nfsRecycler:      recyclerConfigOf(block.Recycler.NFS),
		hostPathRecycler: recyclerConfigOf(block.Recycler.HostPath),
	}
}

func recyclerConfigOf(pod v1beta1.RecyclerPod) recyclerConfig {
	return recyclerConfig{pod.PodTemplateFile, pod.MinimumTimeout.Duration, pod.TimeoutIncrement.Duration}
}

// Files implements controller.FileReader.
func (c config) Files() []string {
	var files []string
	for _, recycler := range []recyclerConfig{c.nfsRecycler, c.hostPathRecycler} {
		if recycler.template != "" {
			files = append(files, recycler.template)
		}
	}
	return files
}

const (
	// claimWorkers is how many claims are bound at a time.
	claimWorkers = 5
	// maxAsking is how many claims are handed to provisioners at a time. More requests than a connection
	// carries would open others, each with a handshake that costs more than the request.
	maxAsking = 20
)

type binderController struct {
	controller.Env
	config
	plugins plugins

	cachedVolumes corelisters.PersistentVolumeLister
	cachedClaims  corelisters.PersistentVolumeClaimLister
	classes       storagelisters.StorageClassLister
	nodes         corelisters.NodeLister
	pods          index.ClaimPods

	volumes *volumeStore
	claims  *store[*corev1.PersistentVolumeClaim]
	gone    *goneClaims
	// reserving is held while a volume is chosen for a claim and reserved.
	reserving sync.Mutex
	asking    chan struct{} // holds an element for each claim that is handed to a provisioner

	operations    *operationSet
	recycles      *recycles
	timings       *timings
	pluginMetrics *operationMetrics
	classMetrics  classMetrics

	claimLoop   *reconcile.Loop[types.NamespacedName]
	volumeLoop  *reconcile.Loop[string]
	claimQueue  reconcile.Queue[types.NamespacedName] // the loop, except in tests
	volumeQueue reconcile.Queue[string]               // the loop, except in tests
}

func newController(env controller.Env, cfg config) (*binderController, error) {
	nfsPods, err := podsOf(cfg.nfsRecycler)
	if err != nil {
		return nil, err
	}
	hostPathPods, err := podsOf(cfg.hostPathRecycler)
	if err != nil {
		return nil, err
	}
	return newWithPlugins(env, cfg, plugins{
		hostPath{pods: hostPathPods, root: "/tmp/hostpath_pv", provisions: cfg.hostPath},
		nfs{pods: nfsPods},
	}), nil
}

// newWithPlugins makes a controller that works on these kinds of storage itself.
func newWithPlugins(env controller.Env, cfg config, known plugins) *binderController {
	core := env.Informers.Core().V1()
	volumes, claims := core.PersistentVolumes(), core.PersistentVolumeClaims()
	m := newOperationMetrics(env.Metrics)
	counts := newCounts(env.Metrics, known)
	c := &binderController{
		Env: env, config: cfg, plugins: known,
		cachedVolumes: volumes.Lister(),
		cachedClaims:  claims.Lister(),
		classes:       env.Informers.Storage().V1().StorageClasses().Lister(),
		nodes:         core.Nodes().Lister(),
		pods:          index.NewClaimPods(core.Pods().Informer()),
		gone:          newGoneClaims(env.Clock),
		asking:        make(chan struct{}, maxAsking),
		operations:    newOperations(env.Clock),
		recycles:      newRecycles(),
		timings:       newTimings(env.Clock, m),
		pluginMetrics: m,
		classMetrics:  newClassMetrics(env.Metrics),
	}
	c.volumes = newVolumeStore(env.Clock, c.cachedVolumes.Get, counts.volumeChanged)
	c.claims = newStore(env.Clock, c.cachedClaim, counts.claimChanged)
	c.claimLoop = reconcile.New(env, reconcile.Options[types.NamespacedName]{
		Queue: "claims", Workers: claimWorkers,
	}, c.reconcileClaim)
	c.volumeLoop = reconcile.New(env, reconcile.Options[string]{
		Queue: "volumes", Workers: 1, Namespace: c.namespaceOf,
	}, c.reconcileVolume)
	c.claimQueue, c.volumeQueue = c.claimLoop, c.volumeLoop
	c.watch(volumes.Informer(), claims.Informer())
	return c
}

// Run implements controller.Controller.
func (c *binderController) Run(ctx context.Context) error {
	working, finished := reconcile.WorkContext(ctx, c.Fenced)
	defer finished()
	begin := func(ctx context.Context) error {
		c.operations.begin(ctx, working)
		c.takeOver()
		return nil
	}
	return reconcile.Run(ctx, c.Env, begin,
		c.claimLoop.Run, c.volumeLoop.Run, reconcile.Passes(c.Env, c.syncPeriod, c.resync), c.operations.finish)
}
