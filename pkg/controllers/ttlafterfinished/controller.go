// Package ttlafterfinished deletes finished Jobs and their pods when the time to live in their
// spec has expired.
//
// The model, in rules:
//
//  1. A Job is a candidate once it is finished, has ttlSecondsAfterFinished set and is not
//     being deleted. It expires that many seconds after the transition of its first
//     condition Complete or Failed that is True.
//  2. A candidate that has not expired is enqueued for when it expires, or in an hour if that is
//     earlier, so that no key waits long for a Job that is gone. A change of the time to live
//     causes an event, which enqueues it for the new, possibly earlier time.
//  3. An expired Job is deleted in the foreground, on condition that UID and resource version
//     are still those of the cache. Otherwise the event of the newer state follows. That takes
//     one request, and respects a time to live that was changed at the last moment.
//
// Behaviour: docs/specs/ttl-after-finished-controller.md.
package ttlafterfinished

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	batchlisters "k8s.io/client-go/listers/batch/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Descriptor describes ttl-after-finished-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "ttl-after-finished-controller",
		Aliases:        []string{"ttl-after-finished"},
		ServiceAccount: "ttl-after-finished-controller",
		Requires:       []schema.GroupVersionResource{batchv1.SchemeGroupVersion.WithResource("jobs")},
	}, configOf, newController)
}

type config struct{ workers int }

func configOf(c *controller.Config) config {
	return config{workers: int(*c.Controllers.TTLAfterFinished.ConcurrentSyncs)}
}

type ttlController struct {
	controller.Env
	jobs    batchlisters.JobLister
	metrics controllerMetrics
	queue   reconcile.Queue[types.NamespacedName] // the loop, except in tests
	loop    *reconcile.Loop[types.NamespacedName]
}

func newController(env controller.Env, config config) (*ttlController, error) {
	jobs := env.Informers.Batch().V1().Jobs()
	c := &ttlController{Env: env, jobs: jobs.Lister(), metrics: newMetrics(env.Metrics)}
	c.loop = reconcile.New(env, reconcile.Options[types.NamespacedName]{Queue: "ttl_jobs_to_delete", Workers: config.workers}, c.reconcile)
	c.queue = c.loop
	c.watch(jobs.Informer())
	return c, nil
}

// Run implements controller.Controller.
func (c *ttlController) Run(ctx context.Context) error { return c.loop.Run(ctx) }
