// Package statefulset is statefulset-controller: it runs StatefulSets, whose pods have stable
// names and claims and are created, updated and deleted in order.
//
// The model, in rules:
//
//  1. A pod belongs to a slot, the ordinal at the end of its name. spec.replicas slots from
//     spec.ordinals.start on are filled with pods; pods in other slots are condemned. A pod
//     whose name does not belong to a slot of the set is never adopted (identity.go).
//  2. The template has a history (package history). A slot is filled at the current or at the
//     update revision, depending on the progress of a rolling update; revisions.go determines
//     the two, and which one a slot gets. A template that only gained defaults of a newer API is
//     not a new revision: that shows in the unchanged generation of the set while the process
//     runs, and in a table of defaults after that (package podtemplate).
//  3. A reconcile processes the slots in ascending order, then the condemned pods in descending
//     order, then continues a rolling update by deleting outdated pods from the top. An ordered
//     set stops at the first pod that it has to wait for, so there is at most one change at a
//     time; a parallel one does not wait, but creates no more than 500 pods (step.go decides,
//     replica.go acts). So the cost follows the pods that exist and the claims that are waited
//     for, not spec.replicas.
//  4. A slot has a claim for each claim template. Claims are created before the pod, and never
//     deleted: to have the garbage collector delete them, they are given an owner, the set or
//     the condemned pod. That owner reference is removed if the slot is to be filled again, or
//     if the claims are to be retained by now (claims.go, retention.go).
//  5. The status counts the observed pods, and is written even if something failed; the history
//     is always truncated. A burst of new counts that are not urgent causes few writes (package
//     writes).
//  6. Nothing is created or deleted while the caches do not show all earlier writes (package
//     writes); those not visible yet are handed over. Pods are deleted by UID, so that a stale
//     cache cannot cause the deletion of a pod's successor.
//  7. Cached pods are incomplete, so they are only patched, never updated.
//
// See docs/specs/statefulset-controller.md.
package statefulset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/workloads/history"
	"kcmd.dev/pkg/controllers/kit/writes"
)

var (
	setKind          = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	setResource      = appsv1.Resource("statefulsets")
	claimResource    = corev1.Resource("persistentvolumeclaims")
	revisionResource = appsv1.Resource("controllerrevisions")
)

// Descriptor describes statefulset-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "statefulset-controller",
		Aliases:        []string{"statefulset"},
		ServiceAccount: "statefulset-controller",
		EventSource:    "statefulset-controller",
		Requires: []schema.GroupVersionResource{
			appsv1.SchemeGroupVersion.WithResource("statefulsets"),
			appsv1.SchemeGroupVersion.WithResource("controllerrevisions"),
			corev1.SchemeGroupVersion.WithResource("pods"),
			corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
		},
	}, configOf, newController)
}

// config is what the controller reads of the configuration.
type config struct {
	concurrentSyncs int // StatefulSets reconciled concurrently
	// Feature gates.
	requireFresh       bool
	semanticComparison bool
	maxUnavailable     bool
}

func configOf(c *controller.Config) config {
	return config{
		concurrentSyncs:    int(*c.Controllers.StatefulSet.ConcurrentSyncs),
		requireFresh:       gates.Enabled(c, gates.StaleControllerConsistencyStatefulSet),
		semanticComparison: gates.Enabled(c, gates.StatefulSetSemanticRevisionComparison),
		maxUnavailable:     gates.Enabled(c, gates.MaxUnavailableStatefulSet),
	}
}

type statefulSetController struct {
	controller.Env
	config  config
	metrics *controllerMetrics

	owners      *owners.Owners[*appsv1.StatefulSet]
	claims      corelisters.PersistentVolumeClaimLister
	claimsBySet claimsBySet
	podIndex    index.Pods
	podControl  pods.Tracked
	history     history.Control
	equalities  *equalities
}

func newController(env controller.Env, cfg config) (*statefulSetController, error) {
	apps, core := env.Informers.Apps().V1(), env.Informers.Core().V1()
	claims, podInformer := core.PersistentVolumeClaims(), core.Pods().Informer()
	revisions := apps.ControllerRevisions().Informer()
	c := &statefulSetController{
		Env:         env,
		config:      cfg,
		metrics:     newMetrics(env.Metrics),
		claims:      claims.Lister(),
		claimsBySet: newClaimsBySet(claims.Informer()),
		podIndex:    index.NewPods(podInformer),
		history:     history.NewControl(env.Client, revisions),
		equalities:  newEqualities(env.Clock),
	}
	c.owners = owners.New(env, owners.Options[*appsv1.StatefulSet]{
		Kind:     setKind,
		Resource: setResource,
		Informer: apps.StatefulSets().Informer(),
		Live:     c.live,
		Selector: selectorOf,
		DependentStores: writes.Stores{
			pods.Resource:    podInformer.GetStore(),
			claimResource:    claims.Informer().GetStore(),
			revisionResource: revisions.GetStore(),
		},
		RequireFresh:  cfg.requireFresh,
		OnStale:       c.metrics.staleSyncs.Skipped,
		MayIgnoreEcho: sameCurrentRevision,
		OnGone:        c.metrics.forget,
		Loop:          reconcile.Options[types.NamespacedName]{Queue: "statefulset", Workers: cfg.concurrentSyncs},
	}, c.reconcile)
	c.podControl = pods.NewTracked(env, c.owners.Writes)
	c.watch(podInformer, claims.Informer())
	return c, nil
}

func (c *statefulSetController) live(ctx context.Context, namespace, name string) (*appsv1.StatefulSet, error) {
	return c.Client.AppsV1().StatefulSets(namespace).Get(ctx, name, metav1.GetOptions{})
}

func selectorOf(set *appsv1.StatefulSet) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(set.Spec.Selector)
}

// Run implements controller.Controller.
func (c *statefulSetController) Run(ctx context.Context) error { return c.owners.Run(ctx) }
