// Package replicaset is replicaset-controller: it keeps the number of pods of each
// ReplicaSet.
//
// The model, in rules:
//
//  1. What it does to pods and status is package replicas; what a ReplicaSet is to that
//     engine is in kind.go.
//  2. Pods of a ReplicaSet are ranked for deletion by how many pods of its family run on
//     their node. The family are the ReplicaSets that have the same controller, usually
//     the revisions of one Deployment; related.go.
//  3. While the caches do not show what was written for a ReplicaSet it is left alone
//     altogether (gate StaleControllerConsistencyReplicaSet, KEP-5647).
//
// See specs/replicaset-controller.md.
package replicaset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/replicas"
)

// Descriptor describes replicaset-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "replicaset-controller",
		Aliases:        []string{"replicaset"},
		Doc:            "Keeps the number of pods of each ReplicaSet.",
		ServiceAccount: "replicaset-controller",
		EventSource:    "replicaset-controller",
		Requires: []schema.GroupVersionResource{
			appsv1.SchemeGroupVersion.WithResource("replicasets"),
			corev1.SchemeGroupVersion.WithResource("pods"),
		},
	}, valueOf, newController)
}

// value is what the controller depends on.
type value struct {
	concurrentSyncs int
	// Feature gates.
	staleConsistency    bool
	terminatingReplicas bool
	podDeletionCost     bool
}

func valueOf(c *controller.Config) value {
	return value{
		concurrentSyncs:     int(*c.Controllers.ReplicaSet.ConcurrentSyncs),
		staleConsistency:    config.Enabled(c, config.StaleControllerConsistencyReplicaSet),
		terminatingReplicas: config.Enabled(c, config.DeploymentReplicaSetTerminatingReplicas),
		podDeletionCost:     config.Enabled(c, config.PodDeletionCost),
	}
}

func newController(env controller.Env, v value) (controller.Controller, error) {
	pods, err := index.NewPods(env.Informers.Core().V1().Pods().Informer())
	if err != nil {
		return nil, err
	}
	replicaSets, err := index.NewReplicaSets(env.Informers.Apps().V1().ReplicaSets().Informer())
	if err != nil {
		return nil, err
	}
	m := newMetrics(env.Metrics)
	return replicas.New(env, kind(env, family{pods: pods, replicaSets: replicaSets}), replicas.Options{
		Queue:            "replicaset",
		Workers:          v.concurrentSyncs,
		DeletionCost:     v.podDeletionCost,
		CountTerminating: v.terminatingReplicas,
		RequireFresh:     v.staleConsistency,
		OnStale:          m.staleSyncSkipped,
		OnAgeRatio:       m.sortingDeletionAgeRatio.Observe,
	})
}
