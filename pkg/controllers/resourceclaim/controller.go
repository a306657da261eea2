// Package resourceclaim generates ResourceClaims from templates for the pods that need them,
// reserves claims for pods that no scheduler placed, and frees claims that nobody uses any more.
//
// The model, in rules:
//
//  1. An entry of spec.resourceClaims names a claim or a template. The claim of a template is
//     generated for one owner, which controls it: the pod or, if the entry is that of its
//     PodGroup too, the group. An annotation of the claim says for which entry it was
//     generated. Its name is recorded in the status of the owner.
//  2. There is one claim for an entry. What this controller created counts before the cache shows
//     it. After a request whose outcome is unknown, the next claim for the owner is created only
//     after a live list.
//  3. A pod that is done only has its claims freed: its phase is Succeeded or Failed, or it is
//     being deleted and was never bound to a node. Nothing is created, recorded or reserved
//     for it.
//  4. A reservation ends with its consumer. A consumer is gone if its deletion was seen, or if it
//     is not there live. What the cache lacks, or has under another UID, proves nothing.
//  5. A claim whose last reservation ends is deallocated, and then loses the finalizer that
//     protects it. Generated for a pod that is done, it is deleted.
//  6. Claims are written with the version that the decision was made by, and deleted on condition
//     of it. A claim that was reserved for somebody meanwhile stays as it is.
//
// Behaviour: docs/specs/resourceclaim-controller.md.
package resourceclaim

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1alpha2"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// fieldManager owns the statuses of claims in pods and PodGroups.
const fieldManager = "ResourceClaimController"

// Descriptor describes resourceclaim-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "resourceclaim-controller",
		Aliases:        []string{"resource-claim-controller"},
		ServiceAccount: "resource-claim-controller",
		EventSource:    "resource_claim",
		Gate:           gates.DynamicResourceAllocation,
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("pods"),
			resourcev1.SchemeGroupVersion.WithResource("resourceclaims"),
			resourcev1.SchemeGroupVersion.WithResource("resourceclaimtemplates"),
		},
	}, configOf, newController)
}

type config struct {
	workers int
	// adminAccess and prioritizedLists are whether templates may ask for these.
	adminAccess, prioritizedLists bool
	// podGroups is whether PodGroups have claims.
	podGroups bool
}

func configOf(c *controller.Config) config {
	return config{
		workers:          int(*c.Controllers.ResourceClaim.ConcurrentSyncs),
		adminAccess:      gates.Enabled(c, gates.DRAAdminAccess),
		prioritizedLists: gates.Enabled(c, gates.DRAPrioritizedList),
		podGroups:        gates.Enabled(c, gates.DRAWorkloadResourceClaims),
	}
}

// Resources implements controller.ResourceReader.
func (c config) Resources() []schema.GroupVersionResource {
	if !c.podGroups {
		return nil
	}
	return []schema.GroupVersionResource{schedulingv1alpha2.SchemeGroupVersion.WithResource("podgroups")}
}

type claimController struct {
	controller.Env
	config
	pods      corelisters.PodLister
	claims    resourcelisters.ResourceClaimLister
	templates resourcelisters.ResourceClaimTemplateLister
	groups    schedulinglisters.PodGroupLister // nil unless PodGroups have claims
	find      finder
	memory    memory
	census    *census
	metrics   controllerMetrics
	loop      *reconcile.Loop[key]
	queue     reconcile.Queue[key] // the loop, except in tests
}

func newController(env controller.Env, config config) (*claimController, error) {
	pods, resources := env.Informers.Core().V1().Pods(), env.Informers.Resource().V1()
	claims, templates := resources.ResourceClaims(), resources.ResourceClaimTemplates()
	c := &claimController{
		Env:       env,
		config:    config,
		pods:      pods.Lister(),
		claims:    claims.Lister(),
		templates: templates.Lister(),
		memory:    newMemory(env.Clock, claims.Informer().GetStore()),
		census:    newCensus(),
	}
	c.metrics = newMetrics(env.Metrics, c.census)
	c.loop = reconcile.New(env, reconcile.Options[key]{
		Queue: "resource_claim", Workers: config.workers, Namespace: func(k key) string { return k.Namespace },
	}, c.reconcile)
	c.queue = c.loop
	var groups cache.SharedIndexInformer
	if config.podGroups {
		informer := env.Informers.Scheduling().V1alpha2().PodGroups()
		c.groups, groups = informer.Lister(), informer.Informer()
	}
	c.find = newFinder(pods.Informer(), claims.Informer(), groups)
	c.watch(pods.Informer(), claims.Informer(), templates.Informer(), groups)
	return c, nil
}

// Run implements controller.Controller.
func (c *claimController) Run(ctx context.Context) error {
	return reconcile.Run(ctx, c.Env, c.begin, c.loop.Run)
}
