// Package deployment maintains one ReplicaSet with the pod template of each Deployment, and
// replaces the pods of ReplicaSets with earlier templates by pods of that one.
//
// The model, in rules:
//
//  1. The ReplicaSets of a Deployment are those it controls and its selector matches. The new
//     one is the oldest whose template equals the Deployment's, regardless of its name and
//     labels; the others are old. This is decided once per reconcile.
//  2. A reconcile performs one step: it reports a pause, rolls back, follows a change of
//     replicas, or continues the rollout. The events of its writes to ReplicaSets cause the
//     next step.
//  3. Annotations on the ReplicaSets, which record the numbers they were last scaled for,
//     distinguish a change of replicas from a rollout. Following such a change never continues
//     a rollout.
//  4. Every step is a pure decision on the observed state (scaling, scaleUpNew, scaleDownOld,
//     outdated, rolledBack, rolloutStatus), followed by its writes. Each write is based on the
//     object that the previous one returned, also across reconciles (package writes).
//  5. The status, the conditions and the revision annotation are written at the end of a
//     reconcile, at most once, even if a step failed. Intermediate numbers are written at
//     intervals, everything else at once (see urgency).
//  6. A key that fails more than 15 times in a row is dropped until its next event. An error
//     because the namespace is being deleted is not a failure.
//  7. Pods are never written. They are only counted, to decide whether a recreation has to wait
//     for old ones. That none runs is confirmed by a live list before new ones are started.
//
// Behaviour: docs/specs/deployment-controller.md.
package deployment

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appslisters "k8s.io/client-go/listers/apps/v1"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// maxRetries is how often in a row a failing Deployment is retried.
const maxRetries = 15

var (
	deploymentKind     = appsv1.SchemeGroupVersion.WithKind("Deployment")
	deploymentResource = appsv1.Resource("deployments")
	replicaSetKind     = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	replicaSetResource = appsv1.Resource("replicasets")
)

// Descriptor describes deployment-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "deployment-controller",
		Aliases:        []string{"deployment"},
		ServiceAccount: "deployment-controller",
		EventSource:    "deployment-controller",
		Requires: []schema.GroupVersionResource{
			appsv1.SchemeGroupVersion.WithResource("deployments"),
			appsv1.SchemeGroupVersion.WithResource("replicasets"),
			corev1.SchemeGroupVersion.WithResource("pods"),
		},
	}, configOf, newController)
}

// config is what the controller reads of the configuration.
type config struct {
	concurrentSyncs     int  // Deployments reconciled concurrently
	terminatingReplicas bool // whether status.terminatingReplicas is reported
}

func configOf(c *controller.Config) config {
	return config{
		concurrentSyncs:     int(*c.Controllers.Deployment.ConcurrentSyncs),
		terminatingReplicas: gates.Enabled(c, gates.DeploymentReplicaSetTerminatingReplicas),
	}
}

type deploymentController struct {
	controller.Env
	config config

	owners        *owners.Owners[*appsv1.Deployment]
	written       writes.Objects[*appsv1.ReplicaSet]
	replicaSets   appslisters.ReplicaSetLister
	replicaSetsBy index.ReplicaSets
	pods          index.Pods
}

func newController(env controller.Env, cfg config) (*deploymentController, error) {
	apps, pods := env.Informers.Apps().V1(), env.Informers.Core().V1().Pods().Informer()
	replicaSets := apps.ReplicaSets()
	c := &deploymentController{
		Env:           env,
		config:        cfg,
		replicaSets:   replicaSets.Lister(),
		replicaSetsBy: index.NewReplicaSets(replicaSets.Informer()),
		pods:          index.NewPods(pods),
	}
	c.owners = owners.New(env, owners.Options[*appsv1.Deployment]{
		Kind:            deploymentKind,
		Resource:        deploymentResource,
		Informer:        apps.Deployments().Informer(),
		Live:            c.live,
		Selector:        selectorOf,
		DependentStores: writes.Stores{replicaSetResource: replicaSets.Informer().GetStore()},
		FromLastWrite:   true,
		Loop:            reconcile.Options[types.NamespacedName]{Queue: "deployment", Workers: cfg.concurrentSyncs, MaxRetries: maxRetries},
	}, c.reconcile)
	c.written = writes.ObjectsOf[*appsv1.ReplicaSet](c.owners.Writes, replicaSetResource)
	c.watch(replicaSets.Informer(), pods)
	return c, nil
}

func (c *deploymentController) live(ctx context.Context, namespace, name string) (*appsv1.Deployment, error) {
	return c.Client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
}

func selectorOf(d *appsv1.Deployment) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(d.Spec.Selector)
}

// Run implements controller.Controller.
func (c *deploymentController) Run(ctx context.Context) error { return c.owners.Run(ctx) }
