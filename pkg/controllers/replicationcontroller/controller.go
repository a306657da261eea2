// Package replicationcontroller is replicationcontroller-controller: it keeps the number
// of pods of each ReplicationController.
//
// The model, in rules:
//
//  1. What it does to pods and status is package replicas; what a ReplicationController
//     is to that engine is in kind.go.
//  2. Its pods have no related pods, its status does not count terminating pods, and a
//     reconcile on caches that lag behind still updates the status.
//  3. The template of its pods is spec.template; template.go says what is left out of it.
//
// See specs/replicationcontroller-controller.md.
package replicationcontroller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/replicas"
)

// Descriptor describes replicationcontroller-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "replicationcontroller-controller",
		Aliases:        []string{"replicationcontroller"},
		Doc:            "Keeps the number of pods of each ReplicationController.",
		ServiceAccount: "replication-controller",
		EventSource:    "replication-controller",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("replicationcontrollers"),
			corev1.SchemeGroupVersion.WithResource("pods"),
		},
	}, valueOf, newController)
}

// value is what the controller depends on.
type value struct {
	concurrentSyncs int
	// Feature gate.
	podDeletionCost bool
}

func valueOf(c *controller.Config) value {
	return value{
		concurrentSyncs: int(*c.Controllers.ReplicationController.ConcurrentSyncs),
		podDeletionCost: config.Enabled(c, config.PodDeletionCost),
	}
}

func newController(env controller.Env, v value) (controller.Controller, error) {
	return replicas.New(env, kind(env), replicas.Options{
		Queue:        "replicationmanager",
		Workers:      v.concurrentSyncs,
		DeletionCost: v.podDeletionCost,
	})
}
