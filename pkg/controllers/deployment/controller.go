// Package deployment keeps for each Deployment one ReplicaSet with its pod template, and
// moves its pods over to it from the ReplicaSets of earlier templates.
//
// The model, in rules:
//
//  1. The ReplicaSets of a Deployment are those it controls and its selector matches. The
//     new one is the oldest whose template equals the Deployment's, whatever its name or
//     labels; the others are old. This is decided once per reconcile.
//  2. A reconcile does one step: it notes a pause, rolls back, follows a change of
//     replicas, or moves the rollout on. What it did to ReplicaSets comes back as events
//     that cause the next step.
//  3. A change of replicas is told from a rollout by annotations on the ReplicaSets, which
//     record the numbers they were last scaled for. It never moves a rollout on.
//  4. Every step is a pure decision on what was observed (scaling, rollForward, rollOff,
//     outdated, rolledBack, rolloutStatus), followed by its writes. A write is based on
//     what the write before it returned, also in the next reconcile (see writes).
//  5. The status, the conditions and the revision annotation are written at the end of a
//     reconcile, at most once, also if a step failed. Numbers on their way are written at
//     intervals, everything else at once (see urgency).
//  6. A key that fails 15 times is dropped until something happens to it. Failing because
//     the namespace is going away is no failure.
//  7. Pods are never written. They are only counted, to see whether a recreation has to
//     wait for old ones.
//
// Behaviour: specs/deployment-controller.md.
package deployment

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	pkgconfig "kcmd.dev/pkg/config"
	"kcmd.dev/pkg/controllers/kit/coalesce"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/ownership"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// maxRetries is how often a failing Deployment is tried again in a row.
const maxRetries = 15

var (
	deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")
	replicaSetKind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
)

// Descriptor describes deployment-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "deployment-controller",
		Aliases:        []string{"deployment"},
		Doc:            "Rolls out Deployments by managing their ReplicaSets.",
		ServiceAccount: "deployment-controller",
		EventSource:    "deployment-controller",
		Requires: []schema.GroupVersionResource{
			appsv1.SchemeGroupVersion.WithResource("deployments"),
			appsv1.SchemeGroupVersion.WithResource("replicasets"),
			corev1.SchemeGroupVersion.WithResource("pods"),
		},
	}, configOf, build)
}

// config is the part of the configuration that the controller depends on.
type config struct {
	concurrentSyncs     int  // Deployments worked on at once
	terminatingReplicas bool // whether status.terminatingReplicas is reported
}

func configOf(c *controller.Config) config {
	return config{
		concurrentSyncs:     int(*c.Controllers.Deployment.ConcurrentSyncs),
		terminatingReplicas: pkgconfig.Enabled(c, pkgconfig.DeploymentReplicaSetTerminatingReplicas),
	}
}

type deploymentController struct {
	config      config
	clock       clock.PassiveClock
	client      kubernetes.Interface
	events      record.EventRecorder
	predecessor func() any

	deployments    appslisters.DeploymentLister
	replicaSets    appslisters.ReplicaSetLister
	replicaSetsBy  index.ReplicaSets
	replicaSetView cache.Store
	pods           index.Pods
	selectors      *ownership.Selectors[*appsv1.Deployment]

	writes       *writes
	statusWrites *coalesce.Writes[cache.ObjectName]
	loop         *reconcile.Loop[cache.ObjectName]
}

func build(env controller.Env, config config) (controller.Controller, error) {
	c, err := newController(env, config)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func newController(env controller.Env, config config) (*deploymentController, error) {
	apps := env.Informers.Apps().V1()
	deployments, replicaSets := apps.Deployments(), apps.ReplicaSets()
	pods := env.Informers.Core().V1().Pods().Informer()
	c := &deploymentController{
		config:         config,
		clock:          env.Clock,
		client:         env.Client,
		events:         env.Events,
		predecessor:    env.Predecessor,
		deployments:    deployments.Lister(),
		replicaSets:    replicaSets.Lister(),
		replicaSetView: replicaSets.Informer().GetStore(),
		selectors:      ownership.NewSelectors(selectorOf),
		writes:         newWrites(env.Clock),
		statusWrites:   coalesce.New[cache.ObjectName](env.Clock),
	}
	var err error
	if c.replicaSetsBy, err = index.NewReplicaSets(replicaSets.Informer()); err != nil {
		return nil, err
	}
	if c.pods, err = index.NewPods(pods); err != nil {
		return nil, err
	}
	c.loop = reconcile.New(env, reconcile.Options[cache.ObjectName]{
		Queue:      "deployment",
		Workers:    config.concurrentSyncs,
		MaxRetries: maxRetries,
	}, c.reconcile)
	return c, c.watch(deployments.Informer(), replicaSets.Informer(), pods)
}

func selectorOf(d *appsv1.Deployment) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(d.Spec.Selector)
}

// Run implements controller.Controller.
func (c *deploymentController) Run(ctx context.Context) error {
	if inherited, ok := c.predecessor().(*writes); ok {
		c.writes = inherited
	}
	return c.loop.Run(ctx)
}

// HandOver implements controller.HandsOver: it passes on what was written and may not be
// in the caches yet.
func (c *deploymentController) HandOver() any { return c.writes }

// reconcile does the next step of the rollout of a Deployment.
func (c *deploymentController) reconcile(ctx context.Context, key cache.ObjectName) error {
	err := c.step(ctx, key)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case apierrors.IsConflict(err):
		return reconcile.Requeue(err)
	}
	return err
}
