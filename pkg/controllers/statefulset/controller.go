// Package statefulset is statefulset-controller: it runs StatefulSets, whose pods have
// stable names and claims, and are created, updated and deleted in order.
//
// The model, in rules:
//
//  1. A pod belongs to a slot, the ordinal at the end of its name. spec.replicas slots
//     from spec.ordinals.start on are filled with pods; pods in other slots are condemned.
//     A pod whose name names no slot of the set is never adopted (identity.go).
//  2. The template has a history (package history). A slot is filled at the current or at
//     the update revision, depending on how far a rolling update got; revisions.go says
//     which those are, layout.go which one a slot gets. A template that only got defaults
//     of a newer API is no other revision: the generation of a set tells, for as long as
//     the spec is the one that was looked at last, and a table of defaults does after that
//     (package podtemplate).
//  3. A reconcile goes over the slots upwards, then over the condemned pods downwards, then
//     rolls the update on by deleting outdated pods from the top. Ordered sets stop at the
//     first pod that has to be waited for, so there is at most one change at a time;
//     parallel ones do not wait for one another (step.go decides, replica.go acts).
//  4. A slot has a claim for each claim template. Claims are made before the pod, and never
//     deleted: to have them deleted they are given an owner, the set or the condemned pod,
//     for the garbage collector to follow (claims.go, retention.go).
//  5. The status is counted from the pods that were observed, and written also if something
//     failed; the history is truncated in any case. A burst of new counts that nobody
//     waits for ends in few writes (package coalesce).
//  6. Nothing is created or deleted while the caches do not show what was done before
//     (package expectations); what was done and is not visible yet is handed over. Pods are
//     deleted by UID, so that a stale view cannot hit the successor of a pod.
//  7. Pods in the cache are not complete, so they are only ever patched.
//
// See specs/statefulset-controller.md.
package statefulset

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/controllers/kit/coalesce"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/expectations"
	"kcmd.dev/pkg/controllers/kit/history"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/ownership"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
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
		Doc:            "Runs StatefulSets: pods with stable names and claims, created and updated in order.",
		ServiceAccount: "statefulset-controller",
		EventSource:    "statefulset-controller",
		Requires: []schema.GroupVersionResource{
			appsv1.SchemeGroupVersion.WithResource("statefulsets"),
			appsv1.SchemeGroupVersion.WithResource("controllerrevisions"),
			corev1.SchemeGroupVersion.WithResource("pods"),
			corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
		},
	}, valueOf, build)
}

// value is what the controller depends on.
type value struct {
	concurrentSyncs int // StatefulSets worked on at once
	// Feature gates.
	staleConsistency   bool
	semanticComparison bool
	maxUnavailable     bool
}

func valueOf(c *controller.Config) value {
	return value{
		concurrentSyncs:    int(*c.Controllers.StatefulSet.ConcurrentSyncs),
		staleConsistency:   config.Enabled(c, config.StaleControllerConsistencyStatefulSet),
		semanticComparison: config.Enabled(c, config.StatefulSetSemanticRevisionComparison),
		maxUnavailable:     config.Enabled(c, config.MaxUnavailableStatefulSet),
	}
}

type statefulSetController struct {
	value       value
	clock       clock.PassiveClock
	client      kubernetes.Interface
	events      record.EventRecorder
	metrics     *controllerMetrics
	predecessor func() any

	sets      appslisters.StatefulSetLister
	claims    corelisters.PersistentVolumeClaimLister
	pods      index.Pods
	history   history.Control
	selectors *ownership.Selectors[*appsv1.StatefulSet]

	equalities   *equalities
	tracker      *expectations.Tracker
	statusWrites *coalesce.Writes[types.NamespacedName]
	loop         *reconcile.Loop[types.NamespacedName]
	queue        queue
}

// queue is the part of the loop that takes keys.
type queue interface {
	Enqueue(lane reconcile.Lane, key types.NamespacedName)
	AddAfter(key types.NamespacedName, delay time.Duration)
}

func build(env controller.Env, v value) (controller.Controller, error) {
	c, err := newController(env, v)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func newController(env controller.Env, v value) (*statefulSetController, error) {
	apps, core := env.Informers.Apps().V1(), env.Informers.Core().V1()
	sets, revisions := apps.StatefulSets(), apps.ControllerRevisions()
	claims, podInformer := core.PersistentVolumeClaims(), core.Pods().Informer()
	c := &statefulSetController{
		value:        v,
		clock:        env.Clock,
		client:       env.Client,
		events:       env.Events,
		metrics:      newMetrics(env.Metrics),
		predecessor:  env.Predecessor,
		sets:         sets.Lister(),
		claims:       claims.Lister(),
		selectors:    ownership.NewSelectors(selectorOf),
		equalities:   newEqualities(),
		statusWrites: coalesce.New[types.NamespacedName](env.Clock),
		tracker: expectations.New(env.Clock, expectations.Stores{
			pods.Resource:    podInformer.GetStore(),
			claimResource:    claims.Informer().GetStore(),
			setResource:      sets.Informer().GetStore(),
			revisionResource: revisions.Informer().GetStore(),
		}),
	}
	var err error
	if c.pods, err = index.NewPods(podInformer); err != nil {
		return nil, err
	}
	if c.history, err = history.NewControl(env.Client, revisions.Informer()); err != nil {
		return nil, err
	}
	c.loop = reconcile.New(env, reconcile.Options[types.NamespacedName]{
		Queue:   "statefulset",
		Workers: v.concurrentSyncs,
	}, c.reconcile)
	c.queue = c.loop
	return c, c.watch(sets.Informer(), podInformer, claims.Informer())
}

func selectorOf(set *appsv1.StatefulSet) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(set.Spec.Selector)
}

// Run implements controller.Controller.
func (c *statefulSetController) Run(ctx context.Context) error {
	if c.predecessor != nil {
		c.tracker.Adopt(c.predecessor())
	}
	return c.loop.Run(ctx)
}

// HandOver implements controller.HandsOver: the successor must not act before its caches
// show what this instance wrote.
func (c *statefulSetController) HandOver() any { return c.tracker.HandOver() }

func keyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
