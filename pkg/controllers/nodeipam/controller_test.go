package nodeipam

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins IPAM-1, IPAM-3 and IPAM-15.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	got := []string{d.Name, strings.Join(d.Aliases, ","), d.ServiceAccount, d.EventSource, d.Gate}
	if want := []string{"node-ipam-controller", "nodeipam", "node-controller", "cidrAllocator", ""}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	env := controllertest.New(t)
	if c, err := newController(env.Env, config{}); c != nil || err != nil {
		t.Errorf("without ranges: %v, %v", c, err)
	}
	c := must.Get(newController(env.Env, single))(t)
	if s := c.loop.Inspect(); s.Queue != "cidrallocator_node" || s.Workers != 30 {
		t.Errorf("queue %s with %d workers", s.Queue, s.Workers)
	}
}

// Pins IPAM-3 and MGR-132.
func TestDashboardsSeeWhetherItRuns(t *testing.T) {
	env := controllertest.New(t)
	c := must.Get(newController(env.Env, single))(t)
	shows := func(number string) bool {
		return slices.Equal(env.Series(t, "running_managed_controllers"), []string{"manager=kube-controller-manager name=nodeipam " + number})
	}
	env.Start(t)
	stop := env.Run(t, c)
	controllertest.Eventually(t, "it runs", func() bool { return shows("1") })
	stop()
	if !shows("0") {
		t.Error("it has ended, and is shown to run")
	}
}

func TestValue(t *testing.T) {
	on := func(c *controller.Config) {
		c.Controllers.NodeIPAM.AllocateNodeCIDRs = ptr.To(true)
		c.Networking.ClusterCIDRs = []string{"fd00::/48", "10.0.0.0/8"}
	}
	for name, tc := range map[string]struct {
		change func(*controller.Config)
		want   config
	}{
		"IPAM-5: off": {func(c *controller.Config) { c.Networking.ClusterCIDRs = []string{"10.0.0.0/8"} }, config{}},
		"IPAM-6, IPAM-9, IPAM-12: the default sizes, in the order of the ranges": {on, config{clusters: [2]clusterRange{{"fd00::/48", 64}, {"10.0.0.0/8", 24}}}},
		"IPAM-10, IPAM-11: other sizes": {func(c *controller.Config) {
			on(c)
			c.Controllers.NodeIPAM.NodeCIDRMaskSizeIPv4, c.Controllers.NodeIPAM.NodeCIDRMaskSizeIPv6 = ptr.To(int32(26)), ptr.To(int32(60))
		}, config{clusters: [2]clusterRange{{"fd00::/48", 60}, {"10.0.0.0/8", 26}}}},
		"IPAM-10, IPAM-11: a size of a family without a range is not read": {func(c *controller.Config) {
			on(c)
			c.Networking.ClusterCIDRs = []string{"10.0.0.0/8"}
			c.Controllers.NodeIPAM.NodeCIDRMaskSizeIPv6 = ptr.To(int32(60))
		}, config{clusters: [2]clusterRange{{"10.0.0.0/8", 24}}}},
		"IPAM-8: Service ranges": {func(c *controller.Config) {
			on(c)
			c.Networking.ServiceCIDRs = []string{"10.96.0.0/12", "fd01::/112"}
		}, config{clusters: [2]clusterRange{{"fd00::/48", 64}, {"10.0.0.0/8", 24}}, services: [2]string{"10.96.0.0/12", "fd01::/112"}}},
		"IPAM-46: other spellings of the same ranges": {func(c *controller.Config) {
			on(c)
			c.Networking.ClusterCIDRs, c.Networking.ServiceCIDRs = []string{"FD00:0:0::1/48", "10.0.0.1/8"}, []string{"10.111.0.0/12", "fd01::5/112"}
		}, config{clusters: [2]clusterRange{{"fd00::/48", 64}, {"10.0.0.0/8", 24}}, services: [2]string{"10.96.0.0/12", "fd01::/112"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := v1beta1.NewDefault()
			tc.change(c)
			if got := Descriptor().Value(c); got != tc.want {
				t.Errorf("value is %+v, want %+v", got, tc.want)
			}
		})
	}
}

// Pins IPAM-38.
func TestAConfigurationThatIsNotValid(t *testing.T) {
	for _, cfg := range []config{
		{clusters: [2]clusterRange{{"hello", 24}}},
		{clusters: [2]clusterRange{{"10.0.0.0/25", 24}}},
		{clusters: [2]clusterRange{{"fd00::/32", 64}}},
		{clusters: single.clusters, services: [2]string{"hello"}},
	} {
		if c, err := newController(controllertest.New(t).Env, cfg); err == nil {
			t.Errorf("%+v is accepted: %v", cfg, c)
		}
	}
}

// Pins IPAM-13, IPAM-37 and IPAM-40.
func TestWatches(t *testing.T) {
	w := newWorld(t, single)
	w.Queue(t)
	with := node("with", "10.0.0.0/24")
	for _, step := range []struct {
		name     string
		old, new *corev1.Node
		want     []string
	}{
		{"a new node", nil, node("new"), []string{"new"}},
		{"its update", node("new"), node("new"), []string{"new"}},
		{"a node with podCIDRs", nil, with, nil},
		{"its heartbeat", with, with.DeepCopy(), nil},
		{"a node gets podCIDRs", node("new"), node("new", "10.0.1.0/24"), nil},
		{"a node with a strange range", nil, node("strange", "192.168.0.0/24"), []string{"strange"}},
		{"its heartbeat", node("strange", "192.168.0.0/24"), node("strange", "192.168.0.0/24"), nil},
		{"a node that was recreated", with, again(with), []string{"with"}},
	} {
		w.show(t, step.old, step.new)
		if got := w.queued.Take(); !slices.Equal(got, step.want) {
			t.Errorf("%s queues %q, want %q", step.name, got, step.want)
		}
	}
	if used := w.ranges.sets[0].used; used != 1 {
		t.Errorf("%d blocks are held, want 1", used)
	}
}

// Pins IPAM-25.
func TestMetrics(t *testing.T) {
	w := newWorld(t, config{clusters: [2]clusterRange{{"10.0.0.0/16", 24}, {"fd00::/63", 64}}, services: [2]string{"10.0.1.0/24"}}, node("a"), node("b"))
	check := func(metric string, want ...string) {
		t.Helper()
		for i := range want {
			want[i] = "clusterCIDR=" + want[i]
		}
		if got := w.Series(t, "node_ipam_controller_"+metric); !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", metric, got, want)
		}
	}
	check("cirdset_max_cidrs", "10.0.0.0/16 256", "fd00::/63 2")
	check("cidrset_cidrs_allocations_total", "10.0.0.0/16 1")
	w.allot(t, "a")
	w.allot(t, "b")
	check("cidrset_cidrs_allocations_total", "10.0.0.0/16 3", "fd00::/63 2")
	check("cidrset_allocation_tries_per_request", "10.0.0.0/16 2", "fd00::/63 2")
	w.vanish(t, node("a"))
	check("cidrset_cidrs_releases_total", "10.0.0.0/16 1", "fd00::/63 1")
	check("cidrset_usage_cidrs", "10.0.0.0/16 0.0078125", "fd00::/63 0.5")
	w.show(t, nil, node("c", "10.0.0.0/16"))
	check("cidrset_cidrs_allocations_total", "10.0.0.0/16 257", "fd00::/63 2")
	check("cidrset_usage_cidrs", "10.0.0.0/16 1", "fd00::/63 0.5")
}

// Pins IPAM-25.
func TestTriesAreTheBlocksSkipped(t *testing.T) {
	s := set(t, "10.0.0.0/16", 24)
	for _, cidr := range []string{"10.0.0.0/23", "10.0.3.0/24"} {
		s.occupy(prefix(cidr))
	}
	for _, want := range []int{2, 1, 0} {
		if p, passed := s.take(); passed != want {
			t.Errorf("%s is found after %d blocks, want %d", p, passed, want)
		}
	}
	s.next = 255
	s.occupy(prefix("10.0.255.0/24"))
	if p, passed := s.take(); p != prefix("10.0.6.0/24") || passed != 7 {
		t.Errorf("%s is found after %d blocks, want 10.0.6.0/24 after 7", p, passed)
	}
}

// inACluster runs a controller in a cluster with this many nodes without ranges.
func inACluster(t *testing.T, count int) (*controllertest.Env, *ipamController) {
	t.Helper()
	var nodes []runtime.Object
	for i := range count {
		nodes = append(nodes, node(fmt.Sprint("node-", i)))
	}
	env := controllertest.New(t, nodes...)
	c := must.Get(newController(env.Env, large))(t)
	env.Start(t)
	env.Fake.ClearActions()
	return env, c
}

// wantDistinct checks that each node has two ranges that no other has.
func wantDistinct(t *testing.T, env *controllertest.Env) {
	t.Helper()
	given := map[string]string{}
	for _, n := range controllertest.AllStored[*corev1.Node](t, env, "") {
		if len(n.Spec.PodCIDRs) != 2 {
			t.Errorf("%s has %q", n.Name, n.Spec.PodCIDRs)
		}
		for _, cidr := range n.Spec.PodCIDRs {
			if other, ok := given[cidr]; ok {
				t.Errorf("%s is of %s and %s", cidr, other, n.Name)
			}
			given[cidr] = n.Name
		}
	}
}

// 2,000 nodes that come at once cost a patch each and nothing else, and each gets its own
// ranges. Pins IPAM-15 and IPAM-37.
func TestABurstOfNodes(t *testing.T) {
	const count = 2000
	env, c := inACluster(t, count)
	env.Run(t, c)
	env.AwaitIdle(t)
	wantDistinct(t, env)
	if requests := env.Requests(); len(requests) != count {
		t.Errorf("sent %d requests for %d nodes", len(requests), count)
	}
	env.WantEvents(t)
	if used := c.ranges.sets[0].used; used != count {
		t.Errorf("%d blocks are held, want %d", used, count)
	}
}

// Pins IPAM-36.
func TestAnInstanceIsReplacedInTheMiddleOfABurst(t *testing.T) {
	for _, handsOver := range []bool{true, false} {
		t.Run(fmt.Sprintf("IPAM-36: hands over: %v", handsOver), func(t *testing.T) {
			const count = 300
			env, first := inACluster(t, count)
			executed := 0
			env.Intercept("patch nodes", func(clienttesting.Action) error {
				if executed++; executed > count/3 {
					return refused(403) // fenced
				}
				return nil
			})
			stop := env.Run(t, first)
			controllertest.Eventually(t, "it is fenced", func() bool { return len(env.Writes()) > count/3 })
			stop()
			if handsOver {
				env.Succeed(first.HandOver())
			} else {
				env.Succeed(nil)
				controllertest.Eventually(t, "the caches contain what the predecessor wrote", func() bool {
					return cachedWithRanges(t, first) == count/3
				})
			}
			env.Fake.Lock()
			executed = -count
			env.Fake.Unlock()
			second := must.Get(newController(env.Env, large))(t)
			env.Run(t, second)
			controllertest.Eventually(t, "the caches show that all nodes have ranges", func() bool { return cachedWithRanges(t, second) == count })
			wantDistinct(t, env)
		})
	}
}

func cachedWithRanges(t *testing.T, c *ipamController) int {
	t.Helper()
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	return len(slices.DeleteFunc(nodes, func(n *corev1.Node) bool { return len(n.Spec.PodCIDRs) == 0 }))
}

// Pins IPAM-37.
func TestAHeartbeatAllocatesNothing(t *testing.T) {
	w := newWorld(t, single)
	old := node("n", "10.0.0.0/24")
	w.show(t, nil, old)
	beat := old.DeepCopy()
	beat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.NewTime(at)}}
	if n := testing.AllocsPerRun(100, func() { w.updated(reconcile.Fresh, old, beat) }); n != 0 {
		t.Errorf("a heartbeat allocates %v times", n)
	}
}

func TestWaiting(t *testing.T) {
	var w waiting
	for i := range 100 {
		name := fmt.Sprint(i)
		w.add(name)
		w.add(name)
		if i%10 != 0 {
			w.remove(name)
		}
	}
	if len(w.names) > 60 {
		t.Errorf("%d names are kept for %d that wait", len(w.names), len(w.waits))
	}
	w.remove("0")
	w.add("0") // it keeps its turn
	var got []string
	for name, ok := w.pop(); ok; name, ok = w.pop() {
		got = append(got, name)
	}
	if want := []string{"0", "10", "20", "30", "40", "50", "60", "70", "80", "90"}; !slices.Equal(got, want) {
		t.Errorf("popped %q, want %q", got, want)
	}
}

// Pins IPAM-21, IPAM-22 and IPAM-41.
func TestBlocksAreHeldWhileSomebodyHoldsThem(t *testing.T) {
	s := set(t, "10.0.0.0/22", 24)
	var held []string
	for i := range uint32(2000) {
		// A sequence without a pattern that is the same each time.
		x := (i*2654435761 + 12345) >> 16
		if x%3 > 0 || len(held) == 0 {
			p := prefix(fmt.Sprintf("10.0.%d.0/%d", x%4, 22+x/8%5)).Masked()
			held = append(held, p.String())
			s.occupy(p)
		} else {
			n := int(x/8) % len(held)
			s.release(prefix(held[n]))
			held = slices.Delete(held, n, n+1)
		}
		for block := range s.size {
			want := slices.ContainsFunc(held, func(cidr string) bool { return prefix(cidr).Overlaps(s.block(block)) })
			if s.isHeld(block) != want {
				t.Fatalf("after %d steps, with %q held, block %d is held: %v", i, held, block, !want)
			}
		}
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	w := newWorld(b, single)
	old := node("n", "10.0.0.0/24")
	w.show(b, nil, old)
	beat := old.DeepCopy()
	b.ReportAllocs()
	for b.Loop() {
		w.updated(reconcile.Fresh, old, beat)
	}
}
