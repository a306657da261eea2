package nodes

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const ipamAccount = "system:serviceaccount:kube-system:node-controller"

// withRanges has nodes get ranges of a cluster whose first block of IPv4 belongs to Services.
func withRanges(c *manager.Config) {
	c.Controllers.NodeIPAM.AllocateNodeCIDRs = ptr.To(true)
	c.Networking.ClusterCIDRs = []string{"10.64.0.0/10", "fd00:64::/48"}
	c.Networking.ServiceCIDRs = []string{"10.64.0.0/24"}
}

// createNode creates a node that is deleted with the test.
func createNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node := must.Get(admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = admin.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}) })
	return node
}

// rangesOf waits until a node has podCIDRs.
func rangesOf(t *testing.T, name string) []string {
	t.Helper()
	var cidrs []string
	await.That(t, name+" has podCIDRs", func(ctx context.Context) error {
		node, err := admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if cidrs = node.Spec.PodCIDRs; len(cidrs) == 0 {
			return fmt.Errorf("%s has none", name)
		}
		if node.Spec.PodCIDR != cidrs[0] {
			return await.Final(fmt.Errorf("podCIDR is %s, podCIDRs are %s", node.Spec.PodCIDR, cidrs))
		}
		return nil
	})
	return cidrs
}

// wantDistinct fails if ranges of any two nodes overlap, or one overlaps with a Service range.
func wantDistinct(t *testing.T) {
	t.Helper()
	list := must.Get(admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t)
	given := []netip.Prefix{netip.MustParsePrefix("10.64.0.0/24")}
	for _, node := range list.Items {
		for _, cidr := range node.Spec.PodCIDRs {
			p := netip.MustParsePrefix(cidr)
			if slices.ContainsFunc(given, p.Overlaps) {
				t.Errorf("%s of %s overlaps with another range", cidr, node.Name)
			}
			given = append(given, p)
		}
	}
}

// Pins IPAM-12, IPAM-14, IPAM-16 and IPAM-37.
func TestEachNodeGetsRangesOfItsOwn(t *testing.T) {
	t.Parallel()
	const count = 200
	from := must.Get(cluster.Audit().Mark())(t)
	var creations sync.WaitGroup
	for i := range count {
		name := fmt.Sprint("ranged-", i)
		t.Cleanup(func() { _ = admin.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}) })
		creations.Go(func() {
			if _, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	creations.Wait()
	for i := range count {
		cidrs := rangesOf(t, fmt.Sprint("ranged-", i))
		if len(cidrs) != 2 || !strings.HasSuffix(cidrs[0], ".0/24") || !strings.HasSuffix(cidrs[1], "::/64") {
			t.Errorf("ranged-%d has %s", i, cidrs)
		}
	}
	wantDistinct(t)
	// A request whose effect has been seen may still be being answered, and is logged then.
	await.That(t, "every node took one write", func(context.Context) error {
		patches, err := cluster.Audit().Since(from, controlplane.ByUser(ipamAccount), controlplane.ByResource("nodes"), controlplane.Writes(), func(e *auditv1.Event) bool {
			return strings.HasPrefix(e.ObjectRef.Name, "ranged-") && strings.HasSuffix(e.UserAgent, "/"+ipamAccount)
		})
		switch n := len(patches); {
		case err != nil:
			return err
		case n > count:
			return await.Final(fmt.Errorf("%d nodes took %d writes", count, n))
		case n < count:
			return fmt.Errorf("%d nodes took %d writes", count, n)
		}
		return nil
	})
}

// Pins IPAM-18, IPAM-24, IPAM-35, IPAM-36, IPAM-38 and IPAM-43.
func TestRangesOfNodesSurviveWhatHappensToTheController(t *testing.T) {
	before := cluster.Manager.Config().DeepCopy()
	restore := func(c *manager.Config) {
		c.Networking, c.Controllers.NodeIPAM = before.Networking, before.Controllers.NodeIPAM
	}
	cluster.Restore(t, restore)
	// Four blocks of each family; one of IPv4 belongs to Services.
	harness.CarryOut(t, cluster.Manager, func(c *manager.Config) {
		c.Networking.ClusterCIDRs = []string{"10.32.0.0/22", "fd00:32::/62"}
		c.Networking.ServiceCIDRs = []string{"10.32.1.0/24"}
	})
	want := map[string]string{}
	for i, cidrs := range []string{"[10.32.0.0/24 fd00:32::/64]", "[10.32.2.0/24 fd00:32:0:1::/64]", "[10.32.3.0/24 fd00:32:0:2::/64]"} {
		name := fmt.Sprint("kept-", i)
		createNode(t, name)
		if got := fmt.Sprint(rangesOf(t, name)); got != cidrs {
			t.Errorf("%s has %s, want %s", name, got, cidrs)
		}
		want[name] = cidrs
	}
	check := func() {
		t.Helper()
		for name, cidrs := range want {
			if got := fmt.Sprint(rangesOf(t, name)); got != cidrs {
				t.Errorf("%s has %s, want %s", name, got, cidrs)
			}
		}
		wantDistinct(t)
	}

	// No block is left, until a node is deleted.
	late := createNode(t, "late")
	cluster.WaitForEvent(t, "default", late.UID, "cidrAllocator Normal CIDRNotAvailable: Node late status is now: CIDRNotAvailable")
	must.Succeed(t, admin.CoreV1().Nodes().Delete(t.Context(), "kept-1", metav1.DeleteOptions{}))
	delete(want, "kept-1")
	if got := rangesOf(t, "late"); got[0] != "10.32.2.0/24" {
		t.Errorf("late has %s, want the block that was freed", got)
	}
	want["late"] = fmt.Sprint(rangesOf(t, "late"))

	// A restart of the controller changes no range and gives none twice.
	running := harness.Instances(harness.Status(t, cluster.Manager))
	harness.CarryOut(t, cluster.Manager, func(c *manager.Config) { c.Controllers.NodeIPAM.NodeCIDRMaskSizeIPv4 = ptr.To(int32(25)) })
	harness.SameInstances(t, running, harness.Instances(harness.Status(t, cluster.Manager)), "node-ipam-controller")
	another := createNode(t, "another")
	cluster.WaitForEvent(t, "default", another.UID, "cidrAllocator Normal CIDRNotAvailable: Node another status is now: CIDRNotAvailable")
	check()

	// Nodes keep ranges that are not of the cluster any more, and nodes without get new ones.
	harness.Edit(t, cluster.Manager, func(c *manager.Config) {
		c.Networking.ClusterCIDRs = []string{"10.33.0.0/22", "fd00:33::/62"}
		c.Networking.ServiceCIDRs = nil
		c.Controllers.NodeIPAM.NodeCIDRMaskSizeIPv4 = ptr.To(int32(24))
	})
	want["another"] = "[10.33.0.0/24 fd00:33::/64]"
	check()
}

// Pins IPAM-31 and IPAM-36.
func TestANodeThatIsRecreatedGetsARange(t *testing.T) {
	t.Parallel()
	for range 5 {
		createNode(t, "recreated")
		rangesOf(t, "recreated")
		must.Succeed(t, admin.CoreV1().Nodes().Delete(t.Context(), "recreated", metav1.DeleteOptions{}))
	}
	createNode(t, "recreated")
	rangesOf(t, "recreated")
	wantDistinct(t)
}
