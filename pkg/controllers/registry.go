// Package controllers lists every controller there is.
//
// A controller is declared by the Descriptor in its folder, and added by a row in All. make
// generate derives the names that the configuration knows, the documentation and the README
// from it. CONTRIBUTING.md describes the steps.
package controllers

import (
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/attachdetach"
	"kcmd.dev/pkg/controllers/bootstrapsigner"
	"kcmd.dev/pkg/controllers/cloudnode"
	"kcmd.dev/pkg/controllers/cloudnodelifecycle"
	"kcmd.dev/pkg/controllers/clusterroleaggregation"
	"kcmd.dev/pkg/controllers/clustertrustbundle"
	"kcmd.dev/pkg/controllers/cronjob"
	"kcmd.dev/pkg/controllers/csrapproving"
	"kcmd.dev/pkg/controllers/csrcleaner"
	"kcmd.dev/pkg/controllers/csrsigning"
	"kcmd.dev/pkg/controllers/daemonset"
	"kcmd.dev/pkg/controllers/deployment"
	"kcmd.dev/pkg/controllers/devicetainteviction"
	"kcmd.dev/pkg/controllers/disruption"
	"kcmd.dev/pkg/controllers/endpoints"
	"kcmd.dev/pkg/controllers/endpointslice"
	"kcmd.dev/pkg/controllers/endpointslicemirroring"
	"kcmd.dev/pkg/controllers/ephemeralvolume"
	"kcmd.dev/pkg/controllers/garbagecollector"
	"kcmd.dev/pkg/controllers/horizontalpodautoscaler"
	"kcmd.dev/pkg/controllers/job"
	"kcmd.dev/pkg/controllers/legacytokencleaner"
	"kcmd.dev/pkg/controllers/namespace"
	"kcmd.dev/pkg/controllers/nodeipam"
	"kcmd.dev/pkg/controllers/nodelifecycle"
	"kcmd.dev/pkg/controllers/noderoute"
	"kcmd.dev/pkg/controllers/pcrcleaner"
	"kcmd.dev/pkg/controllers/podgc"
	"kcmd.dev/pkg/controllers/podgroupprotection"
	"kcmd.dev/pkg/controllers/pvbinder"
	"kcmd.dev/pkg/controllers/pvcprotection"
	"kcmd.dev/pkg/controllers/pvexpander"
	"kcmd.dev/pkg/controllers/pvprotection"
	"kcmd.dev/pkg/controllers/replicaset"
	"kcmd.dev/pkg/controllers/replicationcontroller"
	"kcmd.dev/pkg/controllers/resourceclaim"
	"kcmd.dev/pkg/controllers/resourcepoolstatusrequest"
	"kcmd.dev/pkg/controllers/resourcequota"
	"kcmd.dev/pkg/controllers/rootca"
	"kcmd.dev/pkg/controllers/satoken"
	"kcmd.dev/pkg/controllers/selinuxwarning"
	"kcmd.dev/pkg/controllers/serviceaccount"
	"kcmd.dev/pkg/controllers/servicecidr"
	"kcmd.dev/pkg/controllers/servicelb"
	"kcmd.dev/pkg/controllers/statefulset"
	"kcmd.dev/pkg/controllers/storageversiongc"
	"kcmd.dev/pkg/controllers/storageversionmigrator"
	"kcmd.dev/pkg/controllers/tainteviction"
	"kcmd.dev/pkg/controllers/tokencleaner"
	"kcmd.dev/pkg/controllers/ttl"
	"kcmd.dev/pkg/controllers/ttlafterfinished"
	"kcmd.dev/pkg/controllers/vacprotection"
	"kcmd.dev/pkg/controllers/vapstatus"
)

// All returns the descriptors of all controllers, in the order in which they start.
// serviceaccount-token-controller is first because others may depend on its tokens. Those that keep workloads
// running follow, so that after a failover they do not wait for the processor until others have read their caches.
// Otherwise the order is insignificant.
func All() []controller.Descriptor {
	return []controller.Descriptor{
		satoken.Descriptor(),
		replicaset.Descriptor(),
		deployment.Descriptor(),
		statefulset.Descriptor(),
		daemonset.Descriptor(),
		job.Descriptor(),
		endpointslice.Descriptor(),
		endpoints.Descriptor(),
		nodelifecycle.Descriptor(),
		tainteviction.Descriptor(),
		pvbinder.Descriptor(),
		attachdetach.Descriptor(),

		bootstrapsigner.Descriptor(),
		csrapproving.Descriptor(),
		csrcleaner.Descriptor(),
		csrsigning.Descriptor(),
		cloudnode.Descriptor(),
		cloudnodelifecycle.Descriptor(),
		clusterroleaggregation.Descriptor(),
		clustertrustbundle.Descriptor(),
		cronjob.Descriptor(),
		devicetainteviction.Descriptor(),
		disruption.Descriptor(),
		endpointslicemirroring.Descriptor(),
		ephemeralvolume.Descriptor(),
		garbagecollector.Descriptor(),
		horizontalpodautoscaler.Descriptor(),
		legacytokencleaner.Descriptor(),
		namespace.Descriptor(),
		nodeipam.Descriptor(),
		noderoute.Descriptor(),
		pcrcleaner.Descriptor(),
		podgc.Descriptor(),
		podgroupprotection.Descriptor(),
		pvcprotection.Descriptor(),
		pvexpander.Descriptor(),
		pvprotection.Descriptor(),
		ttlafterfinished.Descriptor(),
		replicationcontroller.Descriptor(),
		resourceclaim.Descriptor(),
		resourcepoolstatusrequest.Descriptor(),
		resourcequota.Descriptor(),
		rootca.Descriptor(),
		selinuxwarning.Descriptor(),
		serviceaccount.Descriptor(),
		servicecidr.Descriptor(),
		servicelb.Descriptor(),
		storageversiongc.Descriptor(),
		storageversionmigrator.Descriptor(),
		tokencleaner.Descriptor(),
		ttl.Descriptor(),
		vapstatus.Descriptor(),
		vacprotection.Descriptor(),
	}
}
