package conversion

import (
	"maps"
	"slices"
)

// Removed is a flag that an earlier release of kube-controller-manager had, and 1.36 does not.
type Removed struct {
	// Release is the first release of Kubernetes without the flag.
	Release string
	// Instead is the flag that replaces it, without hyphens, or empty.
	Instead string
	// SameValue is set if the flag that replaces it takes the same values.
	SameValue bool
}

// RemovedFlag returns what became of a flag, by its name without hyphens in front.
func RemovedFlag(name string) (Removed, bool) {
	removed, ok := removedFlags[name]
	return removed, ok
}

// RemovedFlags are the names of all flags that have been removed.
func RemovedFlags() []string { return slices.Sorted(maps.Keys(removedFlags)) }

// removedFlags are from the release notes of Kubernetes.
var removedFlags = map[string]Removed{
	"replication-controller-lookup-cache-size":                 {Release: "1.8"},
	"replicaset-lookup-cache-size":                             {Release: "1.8"},
	"daemonset-lookup-cache-size":                              {Release: "1.8"},
	"insecure-experimental-approve-all-kubelet-csrs-for-group": {Release: "1.13"},
	"horizontal-pod-autoscaler-use-rest-clients":               {Release: "1.19"},
	"address":                               {Release: "1.24", Instead: "bind-address"},
	"port":                                  {Release: "1.24", Instead: "secure-port"},
	"deployment-controller-sync-period":     {Release: "1.24"},
	"deleting-pods-burst":                   {Release: "1.25"},
	"deleting-pods-qps":                     {Release: "1.25"},
	"register-retry-count":                  {Release: "1.25"},
	"experimental-cluster-signing-duration": {Release: "1.25", Instead: "cluster-signing-duration", SameValue: true},
	"add-dir-header":                        {Release: "1.26"},
	"alsologtostderr":                       {Release: "1.26"},
	"log-backtrace-at":                      {Release: "1.26"},
	"log-dir":                               {Release: "1.26"},
	"log-file":                              {Release: "1.26"},
	"log-file-max-size":                     {Release: "1.26"},
	"logtostderr":                           {Release: "1.26"},
	"one-output":                            {Release: "1.26"},
	"skip-headers":                          {Release: "1.26"},
	"skip-log-headers":                      {Release: "1.26"},
	"stderrthreshold":                       {Release: "1.26"},
	"enable-taint-manager":                  {Release: "1.27"},
	"pod-eviction-timeout":                  {Release: "1.27"},
	"cloud-provider-gce-l7lb-src-cidrs":     {Release: "1.31"},
	"cloud-provider-gce-lb-src-cidrs":       {Release: "1.31"},
	"horizontal-pod-autoscaler-downscale-delay": {
		Release: "1.31",
		Instead: "horizontal-pod-autoscaler-downscale-stabilization",
	},
	"horizontal-pod-autoscaler-upscale-delay": {Release: "1.31"},
	"volume-host-allow-local-loopback":        {Release: "1.31"},
	"volume-host-cidr-denylist":               {Release: "1.31"},
}
