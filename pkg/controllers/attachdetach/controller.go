// Package attachdetach attaches volumes to the nodes whose pods need them, and detaches them when no pod
// there does.
//
// The model, in rules:
//
//  1. Two states are compared. The desired one follows from pods: which of their volumes are to be
//     attached to which node. The actual one is what is known of attachments: attached, uncertain, or
//     nothing. A link is a volume on a node, with what is known of it in both.
//  2. Nothing is scanned. An event changes the links that it concerns, and enqueues them. What is due
//     later has a time. While nothing happens, nothing is done.
//  3. Decisions are functions of the observed state, taken under one lock: first what may be detached, then what is to
//     be attached. Requests are sent without the lock. A link is worked on by one worker at a time.
//  4. Operations exclude each other: those of a volume that may be attached to one node only, in the
//     whole cluster; those of others, on a node. A failed one is repeated after a backoff. One that waits
//     for a VolumeAttachment has no goroutine. Events of the VolumeAttachment end it, or a limit of time.
//  5. A VolumeAttachment tells the attacher what to do. Its name follows from the driver, the volume and
//     the node; one with another name is somebody else's. Deletions are on condition of the UID, and one
//     whose deletion was requested never counts as attached again.
//  6. A kubelet mounts only what node.status.volumesAttached names, and adds it to volumesInUse before
//     that. So a volume is detached in this order: it is removed from volumesAttached, the answer to that
//     write, or a live read after it, shows that the node does not use the volume, the VolumeAttachment is
//     deleted. Changes that nobody waits for are gathered for a second, and written together.
//  7. A volume that a node uses is detached only if the node is not healthy, or gone, and six minutes have
//     passed, or if the taint node.kubernetes.io/out-of-service vouches that the node is shut
//     down. This is also confirmed by a live read, and, if the time is the reason, by a live list of the
//     pods of the node: a cache that lacks a pod forces nothing.
//  8. A failed or unfinished operation leaves an attachment uncertain: it is not reported to the kubelet until
//     an attach succeeds, and it is detached if nobody wants it. A detach that the live read forbids changes
//     nothing: what was attached stays so, and no other node gets it.
//  9. What is attached when a process begins may be wanted by pods that its caches do not show yet. Before
//     it is detached, the pods of the node are listed from the API server. A pod that only a list lacks is
//     read from there before it counts as gone.
//  10. An instance that begins rebuilds both states from the caches. In the same process it also continues
//     what its predecessor left: times, backoffs, operations that wait, what was uncertain, and what pods want that
//     the caches do not show.
//     A VolumeAttachment that the caches showed too late is found within three minutes.
//
// Behaviour: docs/specs/persistentvolume-attach-detach-controller.md.
package attachdetach

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/volumes"
)

// managedAnnotation is what a kubelet sets on its node to have volumes attached by this controller.
const managedAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"

// Descriptor describes persistentvolume-attach-detach-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "persistentvolume-attach-detach-controller",
		Aliases:        []string{"attachdetach"},
		ServiceAccount: "attachdetach-controller",
		ClusterScoped:  true,
		EventSource:    "attachdetach-controller",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("pods"),
			corev1.SchemeGroupVersion.WithResource("nodes"),
			corev1.SchemeGroupVersion.WithResource("persistentvolumes"),
			corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
			storagev1.SchemeGroupVersion.WithResource("csidrivers"),
			storagev1.SchemeGroupVersion.WithResource("volumeattachments"),
		},
	}, configOf, newController)
}

type config struct {
	verifyPeriod                time.Duration // 0 is never
	disableForceDetachOnTimeout bool
	flexDirectory               string
}

func configOf(c *controller.Config) config {
	own := c.Controllers.PersistentVolumeAttachDetach
	return config{
		verifyPeriod:                own.ReconcilerSyncPeriod.Duration,
		disableForceDetachOnTimeout: !*own.ForceDetachOnTimeout,
		flexDirectory:               c.Volumes.FlexVolumePluginDirectory,
	}
}

const (
	// operators is the number of volumes that are attached or detached concurrently, reporters that of nodes whose
	// status is written, examiners that of pods that are examined.
	operators = 64
	reporters = 16
	examiners = 8
	// retryPeriod is the time after which pods with a volume that is not known are examined again, and
	// VolumeAttachments that no link stands for.
	retryPeriod = 3 * time.Minute
)

type attachDetachController struct {
	controller.Env
	config
	pods        corelisters.PodLister
	podsOn      index.NodePods
	usersOf     index.ClaimPods
	claims      corelisters.PersistentVolumeClaimLister
	volumes     corelisters.PersistentVolumeLister
	nodes       corelisters.NodeLister
	attachments storagelisters.VolumeAttachmentLister
	// byDriver are PersistentVolumes, inlineByDriver pods.
	byDriver, inlineByDriver cache.Indexer
	resolver                 volumes.Resolver
	plugins                  plugins
	metrics                  controllerMetrics

	placeQueue reconcile.Queue[place]
	nodeQueue  reconcile.Queue[string]
	podQueue   reconcile.Queue[types.NamespacedName]
	claimQueue reconcile.Queue[types.NamespacedName]
	loops      []func(context.Context) error

	// begun is set when the state of the world begins to be rebuilt, with mu held.
	begun atomic.Bool
	mu    sync.Mutex
	world *world
}

func newController(env controller.Env, config config) (*attachDetachController, error) {
	core, storage := env.Informers.Core().V1(), env.Informers.Storage().V1()
	pods, pvs := core.Pods().Informer(), core.PersistentVolumes().Informer()
	index.Ensure(pvs, volumesByDriver, driverKeys)
	index.Ensure(pods, podsByInlineDriver, inlineDriverKeys)
	c := &attachDetachController{
		Env:            env,
		config:         config,
		pods:           core.Pods().Lister(),
		podsOn:         index.NewNodePods(pods),
		usersOf:        index.NewClaimPods(pods),
		claims:         core.PersistentVolumeClaims().Lister(),
		volumes:        core.PersistentVolumes().Lister(),
		nodes:          core.Nodes().Lister(),
		attachments:    storage.VolumeAttachments().Lister(),
		byDriver:       pvs.GetIndexer(),
		inlineByDriver: pods.GetIndexer(),
		plugins:        plugins{storage.CSIDrivers().Lister(), newFlexDrivers(config.flexDirectory)},
		metrics:        newMetrics(env.Metrics),
		world:          newWorld(newCounts()),
	}
	c.resolver = volumes.Resolver{Claims: c.claims, Volumes: c.volumes}
	c.makeLoops()
	c.watchPods(pods)
	c.watchClaims(core.PersistentVolumeClaims().Informer())
	c.watchVolumes(pvs)
	c.watchNodes(core.Nodes().Informer())
	c.watchDrivers(storage.CSIDrivers().Informer())
	c.watchAttachments(storage.VolumeAttachments().Informer())
	return c, nil
}

func (c *attachDetachController) makeLoops() {
	placeLoop := reconcile.New(c.Env, reconcile.Options[place]{
		Queue: "attach_detach_volumes", Workers: operators,
	}, c.reconcile)
	nodeLoop := reconcile.New(c.Env, reconcile.Options[string]{
		Queue: "attach_detach_nodes", Workers: reporters, Backoff: reportBackoff(),
	}, c.reconcileNode)
	podLoop := reconcile.New(c.Env, reconcile.Options[types.NamespacedName]{
		Queue: "attach_detach_pods", Workers: examiners,
	}, c.reconcilePod)
	claimLoop := reconcile.New(c.Env, reconcile.Options[types.NamespacedName]{
		Queue: "pvcs", Workers: 1,
	}, c.reconcileClaim)
	c.placeQueue, c.nodeQueue, c.podQueue, c.claimQueue = placeLoop, nodeLoop, podLoop, claimLoop
	c.loops = []func(context.Context) error{
		placeLoop.Run, nodeLoop.Run, podLoop.Run, claimLoop.Run,
		reconcile.Passes(c.Env, retryPeriod, c.retry), c.verifications,
	}
}

// Run implements controller.Controller.
func (c *attachDetachController) Run(ctx context.Context) error {
	return reconcile.Run(ctx, c.Env, c.begin, c.loops...)
}

// retry enqueues the pods with a volume that is not known, and finds lost VolumeAttachments.
func (c *attachDetachController) retry(_, working context.Context) {
	c.enqueueIncomplete()
	c.findLost(working)
}

func (c *attachDetachController) enqueueIncomplete() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.world.incomplete {
		c.podQueue.Enqueue(reconcile.Backlog, key)
	}
}

// verifications verifies attachments every period, for the first time a period after the instance began.
func (c *attachDetachController) verifications(ctx context.Context) error {
	if c.verifyPeriod < time.Second {
		<-ctx.Done()
		return nil
	}
	first := true
	return reconcile.Passes(c.Env, c.verifyPeriod, func(ctx, working context.Context) {
		if !first {
			c.verify(ctx, working)
		}
		first = false
	})(ctx)
}
