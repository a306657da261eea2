package takeover

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// withNodeRanges has a replica give ranges to nodes and do nothing else. There are hardly
// more blocks than nodes, so that one that is lost or given twice is missed.
func withNodeRanges(c *manager.Config) {
	c.Controllers = manager.Config{}.Controllers
	c.Controllers.NodeIPAM.Enabled = ptr.To(true)
	c.Controllers.NodeIPAM.AllocateNodeCIDRs = ptr.To(true)
	c.Networking.ClusterCIDRs = []string{"10.96.0.0/16", "fd00:96::/56"}
}

// rangedNodes is a number of blocks of both families, without the nodes of the control plane.
const rangedNodes = 240

// TestNoRangeIsGivenTwiceAcrossTakeovers has leaders stopped and killed while nodes join in a
// burst, with successors whose watch of nodes is behind.
// Pins IPAM-34 and IPAM-36.
func TestNoRangeIsGivenTwiceAcrossTakeovers(t *testing.T) {
	const lease = "takeovers-of-ranges"
	leader := join(t, lease, withNodeRanges)
	leader.leads(t)
	from := 0
	rounds := max(takeovers(t)/4, 2)
	for n := range rounds {
		signal := []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}[n%2]
		var successor *replica
		leader, successor = rolesOf(t, leader, join(t, lease, withNodeRanges))
		behind := successor.proxy.DelayEvents(faultproxy.Requests{Client: "informers"}, 2*time.Second)
		until := from + rangedNodes/rounds
		var joining sync.WaitGroup
		joining.Go(func() { joinNodes(t, from, until) })
		await.That(t, "the leader is in the middle of it", func(ctx context.Context) error { return ranged(ctx, from+5) })
		must.Succeed(t, leader.Signal(signal))
		<-leader.Done()
		joining.Wait()
		successor.leads(t)
		await.That(t, fmt.Sprintf("all nodes have ranges after %v", signal), func(ctx context.Context) error { return ranged(ctx, until) })
		behind.Lift()
		leader, from = successor, until
	}
}

// joinNodes creates nodes that are deleted with the test.
func joinNodes(t *testing.T, from, until int) {
	nodes := plane.AdminClient().CoreV1().Nodes()
	for i := from; i < until; i++ {
		name := fmt.Sprint("ranged-", i)
		t.Cleanup(func() { _ = nodes.Delete(context.Background(), name, metav1.DeleteOptions{}) })
		if _, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Errorf("creating a node: %v", err)
		}
	}
}

// ranged is nil if at least n of these nodes have a range of each family, and none of them overlaps
// with another. The end of the wait is a range that is given twice: it is not taken back.
func ranged(ctx context.Context, n int) error {
	list, err := plane.AdminClient().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var given []netip.Prefix
	complete := 0
	for _, node := range list.Items {
		if strings.HasPrefix(node.Name, "ranged-") && len(node.Spec.PodCIDRs) == 2 {
			complete++
		}
		for _, cidr := range node.Spec.PodCIDRs {
			p, err := netip.ParsePrefix(cidr)
			if err != nil {
				return await.Final(err)
			}
			if slices.ContainsFunc(given, p.Overlaps) {
				return await.Final(fmt.Errorf("%s of %s overlaps with the range of another node", cidr, node.Name))
			}
			given = append(given, p)
		}
	}
	if complete < n {
		return fmt.Errorf("%d of %d nodes have ranges", complete, n)
	}
	return nil
}
