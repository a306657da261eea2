// Package controllers lists every controller there is.
//
// A controller is added by writing its folder and one line here. The configuration has a
// block for each, and a test compares the two.
package controllers

import (
	"kcmd.dev/pkg/controllers/cronjob"
	"kcmd.dev/pkg/controllers/daemonset"
	"kcmd.dev/pkg/controllers/deployment"
	"kcmd.dev/pkg/controllers/disruption"
	"kcmd.dev/pkg/controllers/endpoints"
	"kcmd.dev/pkg/controllers/endpointslice"
	"kcmd.dev/pkg/controllers/endpointslicemirroring"
	"kcmd.dev/pkg/controllers/garbagecollector"
	"kcmd.dev/pkg/controllers/horizontalpodautoscaler"
	"kcmd.dev/pkg/controllers/job"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/namespace"
	"kcmd.dev/pkg/controllers/podgc"
	"kcmd.dev/pkg/controllers/podgroupprotection"
	"kcmd.dev/pkg/controllers/replicaset"
	"kcmd.dev/pkg/controllers/replicationcontroller"
	"kcmd.dev/pkg/controllers/rootca"
	"kcmd.dev/pkg/controllers/satoken"
	"kcmd.dev/pkg/controllers/serviceaccount"
	"kcmd.dev/pkg/controllers/statefulset"
	"kcmd.dev/pkg/controllers/ttlafterfinished"
)

// All returns the descriptors of all controllers. serviceaccount-token-controller is
// first because others may depend on its tokens; otherwise the order has no meaning.
func All() []controller.Descriptor {
	return []controller.Descriptor{
		satoken.Descriptor(),
		daemonset.Descriptor(),
		cronjob.Descriptor(),
		deployment.Descriptor(),
		disruption.Descriptor(),
		endpoints.Descriptor(),
		endpointslice.Descriptor(),
		endpointslicemirroring.Descriptor(),
		garbagecollector.Descriptor(),
		horizontalpodautoscaler.Descriptor(),
		job.Descriptor(),
		namespace.Descriptor(),
		podgc.Descriptor(),
		podgroupprotection.Descriptor(),
		ttlafterfinished.Descriptor(),
		replicaset.Descriptor(),
		replicationcontroller.Descriptor(),
		rootca.Descriptor(),
		serviceaccount.Descriptor(),
		statefulset.Descriptor(),
	}
}
