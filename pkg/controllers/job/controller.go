// Package job is job-controller: it runs pods until as many as a Job asks for have
// succeeded, or the Job has failed.
//
// The model, in rules:
//
//  1. A reconcile looks only at caches: it takes the pods that a Job controls, judges them
//     (observation.go, indexed.go), decides whether the Job ends (end.go), removes or
//     creates pods (plan.go, manage.go), and accounts for the finished ones (accounting.go).
//  2. Every pod is counted exactly once. It has a finalizer, which is removed only when
//     the status knows the pod; so a finished pod cannot vanish uncounted, and a crash at
//     any point neither loses nor repeats one.
//  3. A Job ends in two steps. First a condition tells which way: FailureTarget or
//     SuccessCriteriaMet; from then on nothing can turn it. Then, when no pod is left that
//     runs, terminates or is not accounted for, it is Failed or Complete.
//  4. What has been reported wins; then failure wins over success.
//  5. A failed pod is replaced after a delay that doubles with each failure since the last
//     success; of a Job with a limit per index, each index has its own delay.
//  6. While the caches do not show what was written for a Job, it is left alone (gate
//     StaleControllerConsistencyJob), or at least no pods are created or removed.
//  7. Events of pods, and those of a Job whose spec did not change, are acted on a second
//     later, together.
//  8. Pods that kept the finalizer of a Job that is gone or finished lose it in a queue of
//     their own (orphans.go).
//  9. With the gate WorkloadWithJob, the pods of a new parallel Indexed Job are scheduled
//     as a gang (workload.go).
//  10. What only memory holds belongs to the UID of a Job and to a bounded time, and is
//     handed over to the next instance.
//  11. That a Job is gone is not concluded from the cache when its pods would be lost by it:
//     the API server is asked (orphans.go).
//  12. Versions before 1.35 can be emulated: what a Job asks for with managedBy or
//     podReplacementPolicy holds only with the gate of that name (judge.go).
//
// See specs/job-controller.md and specs/workload-common.md.
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
	"k8s.io/client-go/kubernetes"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/controllers/kit/concurrent"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/expectations"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/ownership"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	// batchPeriod is how long events are gathered before a Job is looked at.
	batchPeriod = time.Second
	// minRetry and maxRetry bound the delay before a key that failed is tried again.
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
		Doc:            "Runs pods to completion as Jobs ask.",
		ServiceAccount: "job-controller",
		EventSource:    "job-controller",
		Requires: []schema.GroupVersionResource{
			batchv1.SchemeGroupVersion.WithResource("jobs"),
			corev1.SchemeGroupVersion.WithResource("pods"),
		},
	}, valueOf, newController)
}

// value is what the controller depends on.
type value struct {
	concurrentSyncs int
	// Feature gates.
	staleConsistency          bool
	resetStartTimeOfSuspended bool
	gangScheduling            bool
	podReplacementPolicy      bool
	managedBy                 bool
}

func valueOf(c *controller.Config) value {
	return value{
		concurrentSyncs:           int(*c.Controllers.Job.ConcurrentSyncs),
		staleConsistency:          config.Enabled(c, config.StaleControllerConsistencyJob),
		resetStartTimeOfSuspended: config.Enabled(c, config.MutableSchedulingDirectivesForSuspendedJobs),
		gangScheduling:            config.Enabled(c, config.WorkloadWithJob) && config.Enabled(c, config.GenericWorkload),
		podReplacementPolicy:      config.Enabled(c, config.JobPodReplacementPolicy),
		managedBy:                 config.Enabled(c, config.JobManagedBy),
	}
}

// Resources implements controller.ResourceReader.
func (v value) Resources() []schema.GroupVersionResource {
	if !v.gangScheduling {
		return nil
	}
	return []schema.GroupVersionResource{
		schedulingv1alpha2.SchemeGroupVersion.WithResource("workloads"),
		schedulingv1alpha2.SchemeGroupVersion.WithResource("podgroups"),
	}
}

type jobController struct {
	client                    kubernetes.Interface
	events                    record.EventRecorder
	clock                     clock.PassiveClock
	metrics                   *controllerMetrics
	requireFresh              bool
	resetStartTimeOfSuspended bool
	podReplacementPolicy      bool
	managedBy                 bool

	jobs       batchlisters.JobLister
	podsCached corelisters.PodLister
	byOwner    index.Pods
	tracked    index.TrackedPods
	selectors  *ownership.Selectors[*batchv1.Job]
	pods       pods.Tracked
	tracker    *expectations.Tracker
	backoffs   *memories[backoffRecord]
	removals   *removals
	finished   *memories[time.Time] // the Jobs that this process has finished, and when
	gangs      *gangs               // nil unless the gate is on

	queue       queue
	orphanQueue orphanQueue
	loop        *reconcile.Loop[types.NamespacedName]
	orphanLoop  *reconcile.Loop[orphan]
	predecessor func() any
}

// queue is the part of the loop that takes keys.
type queue interface {
	Enqueue(lane reconcile.Lane, key types.NamespacedName)
	AddAfter(key types.NamespacedName, delay time.Duration)
}

// orphanQueue is the part of the loop of orphans that takes keys.
type orphanQueue interface {
	Enqueue(lane reconcile.Lane, key orphan)
}

func newController(env controller.Env, v value) (controller.Controller, error) {
	c, err := build(env, v)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func build(env controller.Env, v value) (*jobController, error) {
	podInformer, jobInformer := env.Informers.Core().V1().Pods(), env.Informers.Batch().V1().Jobs()
	byOwner, err := index.NewPods(podInformer.Informer())
	if err != nil {
		return nil, err
	}
	tracked, err := index.NewTrackedPods(podInformer.Informer())
	if err != nil {
		return nil, err
	}
	tracker := expectations.New(env.Clock, expectations.Stores{
		pods.Resource: podInformer.Informer().GetStore(),
		jobResource:   jobInformer.Informer().GetStore(),
	})
	c := &jobController{
		client:                    env.Client,
		events:                    env.Events,
		clock:                     env.Clock,
		metrics:                   newMetrics(env.Metrics),
		requireFresh:              v.staleConsistency,
		resetStartTimeOfSuspended: v.resetStartTimeOfSuspended,
		podReplacementPolicy:      v.podReplacementPolicy,
		managedBy:                 v.managedBy,
		jobs:                      jobInformer.Lister(),
		podsCached:                podInformer.Lister(),
		byOwner:                   byOwner,
		tracked:                   tracked,
		selectors:                 ownership.NewSelectors(selectorOf),
		pods:                      pods.Tracked{Control: pods.Control{Client: env.Client, Events: env.Events}, Tracker: tracker},
		tracker:                   tracker,
		backoffs:                  newMemories[backoffRecord](),
		finished:                  newMemories[time.Time](),
		predecessor:               env.Predecessor,
	}
	c.removals = &removals{cached: c.cachedPod, clock: env.Clock, jobs: map[types.NamespacedName]map[types.UID]removal{}}
	if v.gangScheduling {
		if c.gangs, err = newGangs(env); err != nil {
			return nil, err
		}
	}
	c.loop = reconcile.New(env, reconcile.Options[types.NamespacedName]{
		Queue:   "job",
		Workers: v.concurrentSyncs,
		Backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](minRetry, maxRetry),
	}, c.reconcile)
	c.orphanLoop = reconcile.New(env, reconcile.Options[orphan]{
		Queue:   "job_orphan_pod",
		Workers: v.concurrentSyncs,
		Backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[orphan](minRetry, maxRetry),
	}, c.reconcileOrphan)
	c.queue, c.orphanQueue = c.loop, c.orphanLoop
	return c, c.watch(jobInformer.Informer(), podInformer.Informer())
}

// Run implements controller.Controller.
func (c *jobController) Run(ctx context.Context) error {
	if c.predecessor != nil {
		c.adopt(c.predecessor())
	}
	return concurrent.Run(ctx, c.loop.Run, c.orphanLoop.Run)
}

// memory is what one instance hands over to the next.
type memory struct {
	writes   expectations.State
	backoffs map[types.NamespacedName]memorized[backoffRecord]
	removals map[types.NamespacedName]map[types.UID]removal
	finished map[types.NamespacedName]memorized[time.Time]
}

// HandOver implements controller.HandsOver: the successor must neither count a pod again
// nor act before its caches show what this instance wrote, and it goes on backing off.
func (c *jobController) HandOver() any {
	return memory{
		writes:   c.tracker.HandOver(),
		backoffs: c.backoffs.copy(),
		removals: c.removals.copy(),
		finished: c.finished.copy(),
	}
}

func (c *jobController) adopt(predecessor any) {
	m, ok := predecessor.(memory)
	if !ok {
		return
	}
	c.tracker.Adopt(m.writes)
	c.backoffs.adopt(m.backoffs)
	c.removals.adopt(m.removals)
	c.finished.adopt(m.finished)
}

func keyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
