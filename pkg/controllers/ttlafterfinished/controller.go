// Package ttlafterfinished deletes finished Jobs, and with them their pods, when the time
// to live that their spec gives them is over.
//
// The model, in rules:
//
//  1. A Job is a candidate once it is finished, has ttlSecondsAfterFinished set and is not
//     being deleted. It expires that many seconds after the transition of its first
//     condition Complete or Failed that is True.
//  2. A candidate that has not expired is looked at again when it will have. A changed
//     time to live brings an event, which makes a new, possibly earlier appointment.
//  3. An expired Job is deleted in the foreground, on condition that it still is what the
//     cache shows: same UID, same resource version. If it is not, the event that says so
//     is waited for. That takes one request, and a time to live that was changed at the
//     last moment counts.
//
// Behaviour: specs/ttl-after-finished-controller.md.
package ttlafterfinished

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// Descriptor describes ttl-after-finished-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "ttl-after-finished-controller",
		Aliases:        []string{"ttl-after-finished"},
		Doc:            "Deletes finished Jobs when their time to live is over.",
		ServiceAccount: "ttl-after-finished-controller",
		Requires:       []schema.GroupVersionResource{batchv1.SchemeGroupVersion.WithResource("jobs")},
	}, configOf, build)
}

type config struct{ workers int }

func configOf(c *controller.Config) config {
	return config{workers: int(*c.Controllers.TTLAfterFinished.ConcurrentSyncs)}
}

type ttlController struct {
	client  kubernetes.Interface
	jobs    batchlisters.JobLister
	clock   clock.PassiveClock
	metrics controllerMetrics
	loop    *reconcile.Loop[types.NamespacedName]
}

func build(env controller.Env, c config) (controller.Controller, error) {
	ttl, err := newController(env, c)
	if err != nil {
		return nil, err
	}
	return ttl, nil
}

func newController(env controller.Env, config config) (*ttlController, error) {
	jobs := env.Informers.Batch().V1().Jobs()
	c := &ttlController{
		client:  env.Client,
		jobs:    jobs.Lister(),
		clock:   env.Clock,
		metrics: newMetrics(env.Metrics),
	}
	c.loop = reconcile.New(env, reconcile.Options[types.NamespacedName]{
		Queue:   "ttl_jobs_to_delete",
		Workers: config.workers,
	}, c.reconcile)
	err := watch.Objects(jobs.Informer(), watch.Funcs[*batchv1.Job]{
		Add:    c.enqueue,
		Update: func(lane reconcile.Lane, _, job *batchv1.Job) { c.enqueue(lane, job) },
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Run implements controller.Controller.
func (c *ttlController) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *ttlController) enqueue(lane reconcile.Lane, job *batchv1.Job) {
	if isCandidate(job) {
		c.loop.Enqueue(lane, types.NamespacedName{Namespace: job.Namespace, Name: job.Name})
	}
}

func (c *ttlController) reconcile(ctx context.Context, key types.NamespacedName) error {
	job, err := c.jobs.Jobs(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking up job %s: %w", key, err)
	}
	if !isCandidate(job) {
		return nil
	}
	now := c.clock.Now()
	expiry, err := expiryOf(job)
	if err != nil {
		return err
	}
	if finished := expiry.Add(-ttlOf(job)); finished.After(now) {
		klog.FromContext(ctx).Info("Job finished in the future, clocks may differ", "job", key, "finished", finished, "now", now)
	}
	if remaining := expiry.Sub(now); remaining > 0 {
		c.loop.AddAfter(key, remaining)
		return nil
	}
	return c.delete(ctx, job, expiry)
}

func (c *ttlController) delete(ctx context.Context, job *batchv1.Job, expiry time.Time) error {
	err := c.client.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		PropagationPolicy: ptr.To(metav1.DeletePropagationForeground),
		Preconditions:     &metav1.Preconditions{UID: &job.UID, ResourceVersion: &job.ResourceVersion},
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return reconcile.Requeue(fmt.Errorf("the cache of job %s/%s is behind: %w", job.Namespace, job.Name, err))
	case err != nil:
		return fmt.Errorf("deleting job %s/%s: %w", job.Namespace, job.Name, err)
	}
	c.metrics.deletionDelay.Observe(c.clock.Now().Sub(expiry).Seconds())
	klog.FromContext(ctx).V(2).Info("Deleted finished job", "job", klog.KObj(job), "expired", expiry)
	return nil
}
