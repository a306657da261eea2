// Package replicationcontroller is replicationcontroller-controller: it maintains the number of
// pods of each ReplicationController.
//
// The model, in rules:
//
//  1. Package replicas implements the reconcile; kind.go describes a ReplicationController to
//     that engine.
//  2. Its pods have no related pods, its status does not count terminating pods, and a
//     reconcile with stale caches still updates the status.
//  3. Its pods are made from spec.template, without the annotations that template.go removes.
//
// See docs/specs/replicationcontroller-controller.md.
package replicationcontroller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/workloads/replicas"
)

// Descriptor describes replicationcontroller-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "replicationcontroller-controller",
		Aliases:        []string{"replicationcontroller"},
		ServiceAccount: "replication-controller",
		EventSource:    "replication-controller",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("replicationcontrollers"),
			corev1.SchemeGroupVersion.WithResource("pods"),
		},
	}, configOf, newController)
}

// config is what the controller reads of the configuration.
type config struct {
	concurrentSyncs int
	// Feature gate.
	podDeletionCost bool
}

func configOf(c *controller.Config) config {
	return config{
		concurrentSyncs: int(*c.Controllers.ReplicationController.ConcurrentSyncs),
		podDeletionCost: gates.Enabled(c, gates.PodDeletionCost),
	}
}

func newController(env controller.Env, cfg config) (*replicas.Engine[*corev1.ReplicationController], error) {
	return replicas.New(env, kind(env), replicas.Options{
		Queue:        "replicationmanager",
		Workers:      cfg.concurrentSyncs,
		DeletionCost: cfg.podDeletionCost,
	}), nil
}
