// Package binaries builds the programs of the sandbox control plane with the Go
// toolchain, from the tools-only modules under test/tools.
//
//  1. The versions are what the go.mod of each tools module pins; go.sum proves
//     the sources. The product's own go.mod never sees them.
//  2. A program lands in .bin at the root of the repository, next to a stamp that
//     says what it was built from. It is built again only when the stamp would
//     differ: module versions, build tags, linker flags, Go version or, of the programs that are
//     written here, the source changed.
//  3. One builder works at a time, serialised by a file lock; the others wait and
//     find the work done. A running program is never overwritten: a new one is
//     moved into its place.
//  4. Progress is written while building: what, how long it may take, and a sign
//     of life every 15 seconds.
package binaries

import (
	"fmt"
	"strings"
)

// Names of the programs this package builds.
const (
	Etcd          = "etcd"
	KubeAPIServer = "kube-apiserver"
	KubeScheduler = "kube-scheduler"
	Kubectl       = "kubectl"
	Kwok          = "kwok"
	// UpstreamManager is the unmodified kube-controller-manager of the Kubernetes
	// release, which the benchmark compares with ours. The name keeps it apart from
	// ours in .bin. It is no part of the control plane: All leaves it out.
	UpstreamManager = "upstream-kube-controller-manager"
	// Kubelet and the container runtime it needs, which runs nothing, are for tests in
	// which a node joins. All leaves them out.
	Kubelet      = "kubelet"
	EmptyRuntime = "emptyruntime"
	// CSIProvisioner, CSIAttacher and CSIResizer are what watches claims and volumes on behalf of
	// a CSI driver, and CSIDriver is such a driver: see CSI. All leaves them out.
	CSIProvisioner = "csi-provisioner"
	CSIAttacher    = "csi-attacher"
	CSIResizer     = "csi-resizer"
	CSIDriver      = "csi-driver"
	// Prometheus is for the tests of alerts and of the dashboard. All leaves it out.
	Prometheus = "prometheus"
	// KwokStages is not a program but the YAML with kwok's standard fast stages.
	KwokStages = "kwok-stages.yaml"
)

// tool says how one file of .bin is made.
type tool struct {
	name string
	// module is the folder of its tools module, below test/tools.
	module string
	// pkg is the package to build.
	pkg string
	// pins is the module path whose required version is the tool's version.
	pins string
	// printed: run the package and keep what it prints, instead of its binary.
	printed bool
	// onDemand: no part of a control plane, built only when it is asked for by name.
	onDemand bool
	// tags are the build tags, separated by commas; empty for none.
	tags string
	// ldflags returns linker flags beyond -s -w; nil when there are none.
	ldflags func(version string) []string
	// first is how long the first build takes on a small machine.
	first string
}

// tools lists every tool; a package of one module compiles faster after another.
func tools() []tool {
	kubernetes := func(name, first string) tool {
		return tool{
			name: name, module: "kubernetes", pkg: "k8s.io/kubernetes/cmd/" + name,
			pins: "k8s.io/kubernetes", ldflags: kubernetesVersion, first: first,
		}
	}
	upstream := kubernetes("kube-controller-manager", "about 5 minutes")
	// As its releases are built; without the tag it would be a third larger.
	upstream.name, upstream.onDemand, upstream.tags = UpstreamManager, true, "grpcnotrace"
	kubelet := kubernetes(Kubelet, "about 3 minutes")
	runtime := tool{name: EmptyRuntime, module: "kubernetes", pkg: "kcmd.dev/test/tools/kubernetes/emptyruntime", pins: "k8s.io/kubernetes", first: "a few seconds"}
	kubelet.onDemand, runtime.onDemand = true, true
	csi := func(name, module, first string) tool {
		return tool{
			name: name, module: "csi", pkg: module + "/cmd/" + name, pins: module, onDemand: true,
			ldflags: func(version string) []string { return []string{"-X main.version=" + version} }, first: first,
		}
	}
	return []tool{
		{name: Etcd, module: "etcd", pkg: "go.etcd.io/etcd/server/v3", pins: "go.etcd.io/etcd/server/v3", first: "about a minute"},
		kubernetes(KubeAPIServer, "about 4 minutes"),
		kubernetes(KubeScheduler, "about half a minute"),
		kubernetes(Kubectl, "about 40 seconds"),
		upstream,
		kubelet,
		runtime,
		{name: Kwok, module: "kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok", pins: "sigs.k8s.io/kwok", first: "about 2 minutes"},
		{name: KwokStages, module: "kwok", pkg: "kcmd.dev/test/tools/kwok/stages", pins: "sigs.k8s.io/kwok", printed: true, first: "a few seconds"},
		csi(CSIProvisioner, "github.com/kubernetes-csi/external-provisioner/v6", "about 4 minutes"),
		csi(CSIAttacher, "github.com/kubernetes-csi/external-attacher/v4", "about half a minute"),
		csi(CSIResizer, "github.com/kubernetes-csi/external-resizer/v2", "about half a minute"),
		{
			name: CSIDriver, module: "csi", pkg: "kcmd.dev/test/tools/csi/driver",
			pins: "github.com/container-storage-interface/spec", onDemand: true, first: "a few seconds",
		},
		// Of the ways to find targets it has those that need no library of a cloud, and its own
		// pages are left out: both are most of what it consists of.
		{
			name: Prometheus, module: "prometheus", pkg: "github.com/prometheus/prometheus/cmd/prometheus",
			pins: "github.com/prometheus/prometheus", onDemand: true, tags: "remove_all_sd", first: "about 5 minutes",
		},
	}
}

// All returns the names of everything a control plane and its users need.
func All() []string {
	var names []string
	for _, t := range tools() {
		if !t.onDemand {
			names = append(names, t.name)
		}
	}
	return names
}

// CSI returns the names of a CSI driver and of the programs that serve it.
func CSI() []string {
	return []string{CSIProvisioner, CSIAttacher, CSIResizer, CSIDriver}
}

func find(name string) (tool, error) {
	var known []string
	for _, t := range tools() {
		if t.name == name {
			return t, nil
		}
		known = append(known, t.name)
	}
	return tool{}, fmt.Errorf("unknown tool %q, known are %s", name, strings.Join(known, ", "))
}

// kubernetesVersion makes /version, user agents and `kubectl version` say what
// a release build says: without these flags a build from the module cache
// calls itself v0.0.0-master. The module cache knows no commit, so the tag stands
// for it.
func kubernetesVersion(version string) []string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	values := []string{
		"gitVersion=" + version,
		"gitMajor=" + parts[0],
		"gitMinor=" + parts[1],
		"gitCommit=" + version,
		"gitTreeState=clean",
		"buildDate=" + moduleTime,
	}
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, value := range values {
			flags = append(flags, "-X "+pkg+"."+value)
		}
	}
	return flags
}

// moduleTime stands for the time the pinned version was tagged; it is looked up
// only when something is built.
const moduleTime = "$moduleTime"
