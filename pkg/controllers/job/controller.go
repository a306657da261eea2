// Package job is job-controller: it runs pods until the number that a Job requires has
// succeeded, or the Job has failed.
//
// The model, in rules:
//
//  1. A reconcile reads only caches: it lists the pods that a Job controls, evaluates them
//     (observe.go, indexed.go), decides whether the Job ends (end.go), removes or creates pods
//     (plan.go, manage.go), and accounts for the finished ones (accounting.go).
//  2. Every pod is counted exactly once. It has a finalizer, which is removed only when the
//     status includes the pod; so no finished pod disappears uncounted, and a crash at any
//     point neither loses nor repeats one.
//  3. A Job ends in two steps. First a condition announces the result: FailureTarget or
//     SuccessCriteriaMet, which is final. Then, when every pod has finished and is accounted
//     for, the Job is Failed or Complete.
//  4. A reported result takes precedence; otherwise failure takes precedence over success.
//  5. A failed pod is replaced after a delay that doubles with each failure since the last
//     success; in a Job with a limit per index, each index has its own delay.
//  6. While the caches do not show all writes for a Job, it is not reconciled (gate
//     StaleControllerConsistencyJob), or at least no pods are created or removed.
//  7. Pod events, and events of a Job whose spec did not change, are batched for a second.
//  8. Pods that still have the finalizer of a deleted or finished Job have their own queue,
//     which removes it (orphans.go).
//  9. With the gate WorkloadWithJob, the pods of a new parallel Indexed Job are scheduled
//     as a gang (workload.go).
//  10. State that is only in memory belongs to the UID of a Job, expires, and is handed over to
//     the next instance.
//  11. Before pods are released because their Job does not exist, the API server is asked: the
//     cache alone is no proof (orphans.go).
//  12. The cache is no proof for pods either: if by the status, or after a break of the watch, it may lack some, the
//     pods of the Job are listed live (missed.go).
//  13. With the emulation of versions before 1.35, managedBy and podReplacementPolicy are
//     honored only if their gates are on (judge.go).
//
// See docs/specs/job-controller.md and docs/specs/workload-common.md.
package job

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controller/concurrent"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	// batchPeriod is how long events are batched before a Job is reconciled.
	batchPeriod = time.Second
	// minRetry and maxRetry bound the delay before a failed key is retried.
	minRetry = time.Second
	maxRetry = time.Minute
)

var (
	jobKind     = batchv1.SchemeGroupVersion.WithKind("Job")
	jobResource = schema.GroupResource{Group: batchv1.GroupName, Resource: "jobs"}
)

// Descriptor describes job-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "job-controller",
		Aliases:        []string{"job"},
		ServiceAccount: "job-controller",
		EventSource:    "job-controller",
		Requires: []schema.GroupVersionResource{
			batchv1.SchemeGroupVersion.WithResource("jobs"),
			corev1.SchemeGroupVersion.WithResource("pods"),
		},
	}, configOf, newController)
}

// config is what the controller reads of the configuration.
type config struct {
	concurrentSyncs int
	// Feature gates.
	requireFresh              bool
	resetStartTimeOfSuspended bool
	gangScheduling            bool
	podReplacementPolicy      bool
	managedBy                 bool
}

func configOf(c *controller.Config) config {
	return config{
		concurrentSyncs:           int(*c.Controllers.Job.ConcurrentSyncs),
		requireFresh:              gates.Enabled(c, gates.StaleControllerConsistencyJob),
		resetStartTimeOfSuspended: gates.Enabled(c, gates.MutableSchedulingDirectivesForSuspendedJobs),
		gangScheduling:            gates.Enabled(c, gates.WorkloadWithJob) && gates.Enabled(c, gates.GenericWorkload),
		podReplacementPolicy:      gates.Enabled(c, gates.JobPodReplacementPolicy),
		managedBy:                 gates.Enabled(c, gates.JobManagedBy),
	}
}

// Resources implements controller.ResourceReader.
func (cfg config) Resources() []schema.GroupVersionResource {
	if !cfg.gangScheduling {
		return nil
	}
	return []schema.GroupVersionResource{
		schedulingv1alpha2.SchemeGroupVersion.WithResource("workloads"),
		schedulingv1alpha2.SchemeGroupVersion.WithResource("podgroups"),
	}
}

type jobController struct {
	controller.Env
	config  config
	metrics *controllerMetrics

	owners        *owners.Owners[*batchv1.Job]
	podLister     corelisters.PodLister
	byOwner       index.Pods
	withFinalizer trackedPods
	podControl    pods.Tracked
	memory        memory
	gangs         *gangs // nil unless the gate is on

	orphanQueue reconcile.Queue[orphan]
	orphanLoop  *reconcile.Loop[orphan]
}

func newController(env controller.Env, cfg config) (*jobController, error) {
	jobs, podInformer := env.Informers.Batch().V1().Jobs().Informer(), env.Informers.Core().V1().Pods()
	c := &jobController{
		Env:           env,
		config:        cfg,
		metrics:       newMetrics(env.Metrics),
		podLister:     podInformer.Lister(),
		byOwner:       index.NewPods(podInformer.Informer()),
		withFinalizer: newTrackedPods(podInformer.Informer()),
		gangs:         newGangs(env, cfg.gangScheduling),
	}
	c.memory.missed = newMissedPods(env.Clock)
	c.memory.removals = newRemovals(c.cachedPod, podInformer.Informer().GetStore().LastStoreSyncResourceVersion, env.Clock)
	c.owners = owners.New(env, owners.Options[*batchv1.Job]{
		Kind: jobKind, Resource: jobResource, Informer: jobs, Live: c.live, Selector: selectorOf,
		DependentStores: c.gangs.writtenStores(podInformer.Informer().GetStore()),
		RequireFresh:    cfg.requireFresh, OnStale: c.metrics.staleSyncs.Skipped, OnGone: c.memory.forget,
		Loop: reconcile.Options[types.NamespacedName]{Queue: "job", Workers: cfg.concurrentSyncs, Backoff: backoffOf[types.NamespacedName]()},
	}, c.reconcile)
	c.podControl = pods.NewTracked(env, c.owners.Writes)
	c.podControl.Counts = c.counts
	c.orphanLoop = reconcile.New(env, reconcile.Options[orphan]{
		Queue: "job_orphan_pod", Workers: cfg.concurrentSyncs, Backoff: backoffOf[orphan](), Namespace: func(o orphan) string { return o.namespace },
	}, c.reconcileOrphan)
	c.orphanQueue = c.orphanLoop
	c.watch(jobs, podInformer.Informer())
	return c, nil
}

// backoffOf returns the rate limiter of failed keys.
func backoffOf[K comparable]() workqueue.TypedRateLimiter[K] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[K](minRetry, maxRetry)
}

func (c *jobController) live(ctx context.Context, namespace, name string) (*batchv1.Job, error) {
	return c.Client.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Run implements controller.Controller.
func (c *jobController) Run(ctx context.Context) error {
	if left, ok := controller.TakeOver(c.Env, c); ok {
		c.takeOver(left)
	}
	return concurrent.Run(ctx, c.owners.Loop.Run, c.orphanLoop.Run)
}
