package nodeipam

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/test/controllertest"
)

const full = "CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range"

// What nodes get, beside what others hold.
func TestWhatANodeGets(t *testing.T) {
	services := single
	services.services = [2]string{"10.0.0.0/24", "fd00::/112"}
	for name, tc := range map[string]struct {
		config config
		others []*corev1.Node
		want   string
	}{
		"IPAM-18: the first block":                    {single, nil, "[10.0.0.0/24]"},
		"IPAM-12, IPAM-18: IPv4 and IPv6":             {dual, nil, "[10.0.0.0/24 fd00::/64]"},
		"IPAM-12: IPv6 and IPv4":                      {config{clusters: [2]clusterRange{dual.clusters[1], dual.clusters[0]}}, nil, "[fd00::/64 10.0.0.0/24]"},
		"IPAM-8, IPAM-16: Service ranges are skipped": {services, nil, "[10.0.1.0/24]"},
		"IPAM-16: a Service range that is larger":     {config{clusters: single.clusters, services: [2]string{"10.0.0.0/16"}}, nil, "failed to allocate cidr from cluster cidr at idx:0: " + full},
		"IPAM-16: no overlap of families":             {config{clusters: dual.clusters, services: [2]string{"fd00::/64"}}, nil, "[10.0.0.0/24 fd00:0:0:1::/64]"},
		"IPAM-16, IPAM-17: what nodes have is used":   {single, []*corev1.Node{node("a", "10.0.0.0/24"), node("b", "10.0.2.0/24")}, "[10.0.1.0/24]"},
		"IPAM-16: counted once": {
			services, []*corev1.Node{node("a", "10.0.0.0/24"), node("b", "10.0.1.0/24"), node("c", "10.0.2.0/24")}, "[10.0.3.0/24]",
		},
		"IPAM-30: of nodes being deleted, too":   {single, []*corev1.Node{terminating(node("a", "10.0.0.0/24"))}, "[10.0.1.0/24]"},
		"IPAM-17: a node with one family of two": {dual, []*corev1.Node{node("a", "10.0.0.0/24")}, "[10.0.1.0/24 fd00::/64]"},
		"IPAM-38, IPAM-40: a node outside, and in the other order": {
			dual, []*corev1.Node{node("a", "192.168.0.0/24"), node("b", "fd00::/64", "10.0.0.0/24"), node("c", "hello", "10.0.1.0/24")}, "[10.0.2.0/24 fd00:0:0:1::/64]",
		},
		"IPAM-35: nodes of other sizes": {single, []*corev1.Node{node("a", "10.0.0.0/23"), node("b", "10.0.2.7/32")}, "[10.0.3.0/24]"},
		"IPAM-18: no block is left": {
			single, []*corev1.Node{node("a", "10.0.0.0/22")}, "failed to allocate cidr from cluster cidr at idx:0: " + full,
		},
		"IPAM-27: no block is left of the second range": {
			dual, []*corev1.Node{node("a", "fd00::/63")}, "failed to allocate cidr from cluster cidr at idx:1: " + full,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.config, append(tc.others, node("new"))...)
			wantCIDRs(t, w.allot(t, "new"), tc.want)
		})
	}
}

func TestReconcileLeavesAlone(t *testing.T) {
	for name, node := range map[string]*corev1.Node{
		"IPAM-17: a node with podCIDRs":               node("n", "10.0.0.0/24"),
		"IPAM-17: a node with one podCIDR of two":     node("n", "10.0.0.0/24"),
		"IPAM-17, IPAM-30: a node being deleted":      terminating(node("n")),
		"IPAM-32, IPAM-40: a node with another range": node("n", "192.168.0.0/24"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, dual, node)
			if err := w.reconcile(w.Context(), "n"); err != nil {
				t.Error(err)
			}
			w.WantRequests(t)
			w.WantEvents(t)
			if err := w.reconcile(w.Context(), "unknown"); err != nil {
				t.Error(err)
			}
			w.WantRequests(t)
		})
	}
}

// Pins IPAM-14, IPAM-37 and IPAM-45.
func TestANodeCostsOnePatch(t *testing.T) {
	w := newWorld(t, dual, node("n"))
	w.allot(t, "n")
	writes := w.Writes()
	if len(writes) != 1 {
		t.Fatalf("sent %v", w.Requests())
	}
	patch := writes[0].(clienttesting.PatchActionImpl)
	want := `{"metadata":{"uid":"n-1"},"spec":{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24","fd00::/64"]}}`
	if string(patch.Patch) != want || patch.PatchType != types.StrategicMergePatchType || patch.Subresource != "" {
		t.Errorf("patch is %s, want %s", patch.Patch, want)
	}
	w.WantRequests(t, "patch nodes n")
	w.WantEvents(t)
}

// Pins IPAM-29.
func TestACacheThatIsBehindCausesNoSecondChoice(t *testing.T) {
	w := newWorld(t, single, node("n"), node("other"))
	wantCIDRs(t, w.allot(t, "n"), "[10.0.0.0/24]")
	w.Fake.ClearActions()
	heartbeat := node("n")
	heartbeat.ResourceVersion = "2"
	w.Queue(t)
	w.show(t, node("n"), heartbeat)
	w.queued.Want(t)
	wantCIDRs(t, w.allot(t, "n"), "[10.0.0.0/24]")
	w.WantRequests(t)
	wantCIDRs(t, w.allot(t, "other"), "[10.0.1.0/24]")
	w.Fake.ClearActions()

	// A cache that does not show a write after five minutes is of a cluster that was restored.
	w.Env.Clock.Step(6 * time.Minute)
	controllertest.Change(t, w.Env, "", "n", func(n *corev1.Node) { n.Spec = corev1.NodeSpec{} })
	w.show(t, node("n"), heartbeat)
	w.queued.Want(t, "n")
	wantCIDRs(t, w.allot(t, "n"), "[10.0.0.0/24]")
	w.WantRequests(t, "patch nodes n")

	// So is one that shows the node without what it has shown before.
	w.show(t, heartbeat, node("n", "10.0.0.0/24"))
	w.Env.Clock.Step(time.Second)
	controllertest.Change(t, w.Env, "", "n", func(n *corev1.Node) { n.Spec = corev1.NodeSpec{} })
	w.Fake.ClearActions()
	w.show(t, node("n", "10.0.0.0/24"), heartbeat)
	w.queued.Want(t, "n")
	wantCIDRs(t, w.allot(t, "n"), "[10.0.0.0/24]")
	w.WantRequests(t, "patch nodes n")
	w.show(t, heartbeat, heartbeat)
	w.queued.Want(t)
}

// A node that has lost its podCIDRs keeps what it held, whatever becomes of the next write. Pins IPAM-42.
func TestARangeThatANodeHasLostIsNotGivenToOthers(t *testing.T) {
	had := node("n", "10.0.0.0/24")
	w := newWorld(t, single, node("a", "10.0.2.0/23"), node("b", "10.0.1.0/24"), had, node("next"))
	w.show(t, had, node("n"))
	w.Refuse("patch nodes n", refused(403))
	w.allot(t, "n")
	wantCIDRs(t, w.allot(t, "next"), "failed to allocate cidr from cluster cidr at idx:0: "+full)
}

// Pins IPAM-32 and IPAM-33.
func TestAnotherAllocatorWasFaster(t *testing.T) {
	w := newWorld(t, single, node("n"), node("other"))
	w.Refuse("patch nodes n", refused(504))
	w.allot(t, "n")
	w.show(t, node("n"), node("n", "10.0.3.0/24"))
	if used := w.ranges.sets[0].used; used != 1 {
		t.Errorf("%d blocks are held, want that of the other allocator", used)
	}
	w.ranges.sets[0].next = 3
	wantCIDRs(t, w.allot(t, "other"), "[10.0.0.0/24]")
}

// Pins IPAM-41.
func TestTwoNodesWithOneRange(t *testing.T) {
	w := newWorld(t, config{clusters: [2]clusterRange{{"10.0.0.0/24", 24}}}, node("a", "10.0.0.0/25"), node("b", "10.0.0.0/24"), node("new"))
	w.vanish(t, node("a"))
	wantCIDRs(t, w.allot(t, "new"), "failed to allocate cidr from cluster cidr at idx:0: "+full)
	w.vanish(t, node("b"))
	wantCIDRs(t, w.allot(t, "new"), "[10.0.0.0/24]")
}
