// Package replicaset is replicaset-controller: it maintains the number of pods of each
// ReplicaSet.
//
// The model, in rules:
//
//  1. Package replicas implements the reconcile; kind.go describes a ReplicaSet to that engine.
//  2. Pods of a ReplicaSet are ranked for deletion by how many pods of its family run on their
//     node. The family consists of the ReplicaSets with the same controller, usually the
//     revisions of one Deployment; related.go.
//  3. A ReplicaSet is not reconciled while the caches do not show all writes for it (gate
//     StaleControllerConsistencyReplicaSet, KEP-5647).
//
// See docs/specs/replicaset-controller.md.
package replicaset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/workloads/replicas"
)

// Descriptor describes replicaset-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "replicaset-controller",
		Aliases:        []string{"replicaset"},
		ServiceAccount: "replicaset-controller",
		EventSource:    "replicaset-controller",
		Requires: []schema.GroupVersionResource{
			appsv1.SchemeGroupVersion.WithResource("replicasets"),
			corev1.SchemeGroupVersion.WithResource("pods"),
		},
	}, configOf, newController)
}

// config is what the controller reads of the configuration.
type config struct {
	concurrentSyncs int
	// Feature gates.
	requireFresh        bool
	terminatingReplicas bool
	podDeletionCost     bool
}

func configOf(c *controller.Config) config {
	return config{
		concurrentSyncs:     int(*c.Controllers.ReplicaSet.ConcurrentSyncs),
		requireFresh:        gates.Enabled(c, gates.StaleControllerConsistencyReplicaSet),
		terminatingReplicas: gates.Enabled(c, gates.DeploymentReplicaSetTerminatingReplicas),
		podDeletionCost:     gates.Enabled(c, gates.PodDeletionCost),
	}
}

func newController(env controller.Env, cfg config) (*replicas.Engine[*appsv1.ReplicaSet], error) {
	pods := index.NewPods(env.Informers.Core().V1().Pods().Informer())
	replicaSets := index.NewReplicaSets(env.Informers.Apps().V1().ReplicaSets().Informer())
	m := newMetrics(env.Metrics)
	return replicas.New(env, kind(env, family{pods: pods, replicaSets: replicaSets}), replicas.Options{
		Queue:            "replicaset",
		Workers:          cfg.concurrentSyncs,
		DeletionCost:     cfg.podDeletionCost,
		CountTerminating: cfg.terminatingReplicas,
		RequireFresh:     cfg.requireFresh,
		OnStale:          m.staleSyncs.Skipped,
		OnAgeRatio:       m.sortingDeletionAgeRatio.Observe,
	}), nil
}
