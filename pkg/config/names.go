package config

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"kcmd.dev/pkg/config/v1beta1"
)

// formerNames are the names under which older releases knew a controller, by
// the canonical name (specs/controllers.md).
var formerNames = map[string]string{
	"attachdetach":                         "persistentvolume-attach-detach-controller",
	"bootstrapsigner":                      "bootstrap-signer-controller",
	"cloud-node":                           "cloud-node-controller",
	"cloud-node-lifecycle":                 "cloud-node-lifecycle-controller",
	"clusterrole-aggregation":              "clusterrole-aggregation-controller",
	"cronjob":                              "cronjob-controller",
	"csrapproving":                         "certificatesigningrequest-approving-controller",
	"csrcleaner":                           "certificatesigningrequest-cleaner-controller",
	"csrsigning":                           "certificatesigningrequest-signing-controller",
	"daemonset":                            "daemonset-controller",
	"deployment":                           "deployment-controller",
	"disruption":                           "disruption-controller",
	"endpoint":                             "endpoints-controller",
	"endpointslice":                        "endpointslice-controller",
	"endpointslicemirroring":               "endpointslice-mirroring-controller",
	"ephemeral-volume":                     "ephemeral-volume-controller",
	"garbagecollector":                     "garbage-collector-controller",
	"horizontalpodautoscaling":             "horizontal-pod-autoscaler-controller",
	"job":                                  "job-controller",
	"legacy-service-account-token-cleaner": "legacy-serviceaccount-token-cleaner-controller",
	"namespace":                            "namespace-controller",
	"nodeipam":                             "node-ipam-controller",
	"nodelifecycle":                        "node-lifecycle-controller",
	"persistentvolume-binder":              "persistentvolume-binder-controller",
	"persistentvolume-expander":            "persistentvolume-expander-controller",
	"podgc":                                "pod-garbage-collector-controller",
	"pv-protection":                        "persistentvolume-protection-controller",
	"pvc-protection":                       "persistentvolumeclaim-protection-controller",
	"replicaset":                           "replicaset-controller",
	"replicationcontroller":                "replicationcontroller-controller",
	"resource-claim-controller":            "resourceclaim-controller",
	"resourcequota":                        "resourcequota-controller",
	"root-ca-cert-publisher":               "root-ca-certificate-publisher-controller",
	"route":                                "node-route-controller",
	"service":                              "service-lb-controller",
	"serviceaccount":                       "serviceaccount-controller",
	"serviceaccount-token":                 "serviceaccount-token-controller",
	"statefulset":                          "statefulset-controller",
	"storage-version-gc":                   "storageversion-garbage-collector-controller",
	"svm":                                  "storage-version-migrator-controller",
	"tokencleaner":                         "token-cleaner-controller",
	"ttl":                                  "ttl-controller",
	"ttl-after-finished":                   "ttl-after-finished-controller",
}

// neverRenamed are the canonical names that have no former name.
var neverRenamed = []string{
	"device-taint-eviction-controller",
	"kube-apiserver-serving-clustertrustbundle-publisher-controller",
	"podcertificaterequest-cleaner-controller",
	"podgroup-protection-controller",
	"resourcepoolstatusrequest-controller",
	"selinux-warning-controller",
	"service-cidr-controller",
	"taint-eviction-controller",
	"validatingadmissionpolicy-status-controller",
	"volumeattributesclass-protection-controller",
}

// CanonicalName returns the name under which a controller has its block: name itself, or
// what it stands for if it is a former name. ok is false for what is no controller.
func CanonicalName(name string) (canonical string, ok bool) {
	if canonical, ok = formerNames[name]; ok {
		return canonical, true
	}
	return name, slices.Contains(controllerNames(), name)
}

// controllerNames are the canonical names, in the order of the blocks.
var controllerNames = sync.OnceValue(func() []string {
	var names []string
	for _, c := range new(v1beta1.Controllers).All() {
		names = append(names, c.Name)
	}
	return names
})

const unknownPrefix = "unknown controller"

// unknownController explains a name that is no canonical name.
func unknownController(name string) string {
	if canonical, ok := formerNames[name]; ok {
		return fmt.Sprintf("%q is a former name: write %q", name, canonical)
	}
	known := controllerNames()
	if best := nearest(name, known); best != "" {
		return fmt.Sprintf(unknownPrefix+", did you mean %q?", best)
	}
	if best := nearest(strings.TrimSuffix(name, "-controller")+"-controller", known); best != "" {
		return fmt.Sprintf(unknownPrefix+", did you mean %q?", best)
	}
	return unknownPrefix + ": none has this or a similar name"
}
