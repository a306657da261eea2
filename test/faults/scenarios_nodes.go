package faults

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

var nodes = corev1.SchemeGroupVersion.WithResource("nodes")

// fast makes the clock of controllers that wait for half a minute or more.
var fast = harness.FastClock

// Node creates a node.
func Node(name string) Action {
	return Create("{apiVersion: v1, kind: Node, metadata: {name: " + name + ", labels: {kubernetes.io/os: linux}}}")
}

// podAt is a pod on a node; more are further lines of its spec.
func podAt(name, node, more string) Action {
	return Create(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: web}}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 0
  containers: [{name: web, image: "web:1"}]
%s`, name, node, more))
}

// running has a pod be shown as running.
func running(pod string) Action {
	return PatchStatus("pods", pod, `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
}

// nodeIsReady is that a node is shown as ready, and has no taint.
func nodeIsReady(node string) Condition {
	return Has("nodes", node, "{.status.conditions[?(@.type=='Ready')].status}", "True", "{.spec.taints[*].key}", "", `{.metadata.labels.beta\.kubernetes\.io/os}`, "linux")
}

func nodeLifecycle() Scenario {
	seconds := func(n int) *metav1.Duration { return &metav1.Duration{Duration: time.Duration(n) * time.Second} }
	const tolerates = "  tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute%s}, {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute%s}]"
	return Scenario{
		Name: "node-lifecycle",
		Bare: true,
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.NodeLifecycle.Enabled, &c.Controllers.TaintEviction.Enabled}
		},
		Clock: fast,
		Configure: func(c *manager.Config) {
			settings := &c.Controllers.NodeLifecycle
			settings.NodeMonitorPeriod, settings.NodeMonitorGracePeriod, settings.NodeStartupGracePeriod = seconds(1), seconds(24), seconds(24)
			settings.NodeEvictionRate = ptr.To[float32](1000)
		},
		Beside: []func(context.Context, *world) error{Kubelets},
		Kinds:  []schema.GroupVersionResource{nodes, pods},
		Steps: []Step{
			{
				"nodes join",
				[]Action{Node("node-a"), Node("node-b"), Node("node-c")},
				[]Condition{nodeIsReady("node-a"), nodeIsReady("node-b"), nodeIsReady("node-c")},
			},
			{
				"run pods",
				[]Action{
					podAt("leaves", "node-a", fmt.Sprintf(tolerates, ", tolerationSeconds: 8", ", tolerationSeconds: 8")),
					podAt("stays", "node-a", fmt.Sprintf(tolerates, "", "")),
					podAt("elsewhere", "node-b", fmt.Sprintf(tolerates, ", tolerationSeconds: 8", ", tolerationSeconds: 8")),
					running("leaves"), running("stays"), running("elsewhere"),
				},
				[]Condition{Count("pods", "", 3)},
			},
			{
				"a node falls silent",
				[]Action{Silence("node-a")},
				[]Condition{
					Has("nodes", "node-a", "{.status.conditions[?(@.type=='Ready')].status}", "Unknown", "{.spec.taints[?(@.effect=='NoExecute')].key}", "node.kubernetes.io/unreachable",
						"{.spec.taints[?(@.effect=='NoSchedule')].key}", "node.kubernetes.io/unreachable"),
					Has("pods", "stays", "{.status.conditions[?(@.type=='Ready')].status}", "False"),
					Gone("pods", "leaves"),
				},
			},
			{
				"it comes back",
				[]Action{Revive("node-a")},
				[]Condition{nodeIsReady("node-a"), nodeIsReady("node-b"), Count("pods", "", 2)},
			},
		},
	}
}

func taintEviction() Scenario {
	const tolerates = "  tolerations: [{key: maintenance, operator: Exists, effect: NoExecute%s}]"
	const taint = `{"spec":{"taints":[{"key":"maintenance","effect":"NoExecute"}]}}`
	return Scenario{
		Name:        "taint-eviction",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.TaintEviction.Enabled} },
		Clock:       fast,
		Kinds:       []schema.GroupVersionResource{nodes, pods},
		Steps: []Step{
			{
				"run pods",
				[]Action{
					Node("node-a"), Node("node-b"),
					podAt("at-once", "node-a", ""), podAt("later", "node-a", fmt.Sprintf(tolerates, ", tolerationSeconds: 16")),
					podAt("never", "node-a", fmt.Sprintf(tolerates, "")), podAt("elsewhere", "node-b", ""),
				},
				[]Condition{Count("pods", "", 4)},
			},
			{"taint a node", []Action{Patch("nodes", "node-a", taint)}, []Condition{Gone("pods", "at-once"), Gone("pods", "later")}},
			{
				"another pod comes, and one under the name of the first elsewhere",
				[]Action{
					podAt("another", "node-a", ""), podAt("at-once", "node-b", ""), podAt("canceled", "node-a", fmt.Sprintf(tolerates, ", tolerationSeconds: 3600")),
				},
				[]Condition{Gone("pods", "another")},
			},
			{
				"untaint it, and taint the other one",
				[]Action{Patch("nodes", "node-a", `{"spec":{"taints":null}}`), Patch("nodes", "node-b", taint)},
				[]Condition{Gone("pods", "elsewhere"), Gone("pods", "at-once"), Count("pods", "", 2)},
			},
		},
	}
}

func podGarbageCollector() Scenario {
	return Scenario{
		Name:        "pod-garbage-collector",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.PodGarbageCollector.Enabled} },
		Clock:       fast,
		Configure: func(c *manager.Config) {
			c.Controllers.PodGarbageCollector.TerminatedPodThreshold = ptr.To[int32](1)
		},
		Kinds: []schema.GroupVersionResource{nodes, pods},
		Steps: []Step{
			{
				"run pods",
				[]Action{
					Node("node-a"), Node("node-b"), Node("node-c"),
					podAt("lost", "node-a", ""), podAt("kept", "node-b", ""), podAt("ended-1", "node-b", ""), podAt("ended-2", "node-b", ""),
					podAt("moved", "node-c", ""),
					running("lost"), running("kept"), running("moved"),
				},
				[]Condition{Count("pods", "", 5)},
			},
			{
				// The pod that is lost is terminated, too, until it is gone: it counts for the threshold.
				"lose nodes, one of which comes back",
				[]Action{
					Delete("nodes", "node-a", metav1.DeletePropagationBackground), Delete("nodes", "node-c", metav1.DeletePropagationBackground),
					Node("node-c"),
				},
				[]Condition{Gone("pods", "lost"), Count("pods", "", 4)},
			},
			{
				"end pods",
				[]Action{
					PatchStatus("pods", "ended-1", `{"status":{"phase":"Succeeded"}}`), PatchStatus("pods", "ended-2", `{"status":{"phase":"Succeeded"}}`),
				},
				[]Condition{Gone("pods", "ended-1"), Count("pods", "", 3)},
			},
		},
	}
}

// haveRanges is that nodes have ranges of their own, no two of which overlap.
func haveRanges(want int) Condition {
	return func(ctx context.Context, w *world) error {
		list, err := w.admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var given []netip.Prefix
		for i := range list.Items {
			for _, text := range list.Items[i].Spec.PodCIDRs {
				cidr, err := netip.ParsePrefix(text)
				if err != nil {
					return err
				}
				if slices.ContainsFunc(given, cidr.Overlaps) {
					return fmt.Errorf("%s of %s overlaps with another range", cidr, list.Items[i].Name)
				}
				given = append(given, cidr)
			}
		}
		if len(given) != want {
			return fmt.Errorf("%d nodes have ranges, want %d", len(given), want)
		}
		return nil
	}
}

func nodeIPAM() Scenario {
	return Scenario{
		Name:        "node-ipam",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.NodeIPAM.Enabled} },
		Configure: func(c *manager.Config) {
			c.Networking.ClusterCIDRs = []string{"10.64.0.0/16"} // of which there are four
			c.Controllers.NodeIPAM.AllocateNodeCIDRs, c.Controllers.NodeIPAM.NodeCIDRMaskSizeIPv4 = ptr.To(true), ptr.To[int32](18)
		},
		Flags: []string{"--allocate-node-cidrs=true", "--cluster-cidr=10.64.0.0/16", "--node-cidr-mask-size=18"},
		Kinds: []schema.GroupVersionResource{nodes},
		Steps: []Step{
			{"nodes join", []Action{Node("node-1"), Node("node-2"), Node("node-3")}, []Condition{haveRanges(3)}},
			{"more than there are ranges", []Action{Node("node-4")}, []Condition{haveRanges(4)}},
			{"one leaves, another one comes", []Action{Delete("nodes", "node-2", metav1.DeletePropagationBackground), Node("node-5")}, []Condition{haveRanges(4)}},
			{
				"some leave and come again",
				[]Action{
					Delete("nodes", "node-1", metav1.DeletePropagationBackground), Delete("nodes", "node-3", metav1.DeletePropagationBackground),
					Node("node-1"), Node("node-3"),
				},
				[]Condition{haveRanges(4)},
			},
		},
	}
}

func nodeTTL() Scenario {
	const annotation = `{.metadata.annotations.node\.alpha\.kubernetes\.io/ttl}`
	return Scenario{
		Name:        "ttl",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.TTL.Enabled} },
		Kinds:       []schema.GroupVersionResource{nodes},
		Steps: []Step{
			{"nodes join", []Action{Node("node-1"), Node("node-2")}, []Condition{Has("nodes", "node-1", annotation, "0"), Has("nodes", "node-2", annotation, "0")}},
			{
				"annotations are changed",
				[]Action{
					Patch("nodes", "node-1", `{"metadata":{"annotations":{"node.alpha.kubernetes.io/ttl":"7"}}}`),
					Patch("nodes", "node-2", `{"metadata":{"annotations":null}}`),
				},
				[]Condition{Has("nodes", "node-1", annotation, "0"), Has("nodes", "node-2", annotation, "0")},
			},
			{
				"a node leaves and comes again",
				[]Action{Delete("nodes", "node-1", metav1.DeletePropagationBackground), Node("node-1")},
				[]Condition{Has("nodes", "node-1", annotation, "0")},
			},
		},
	}
}
