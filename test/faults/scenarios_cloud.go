package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cloudprovider "k8s.io/cloud-provider"

	"kcmd.dev/test/fakecloud"
	"kcmd.dev/test/manager"
)

// cloudScenarios are those of the controllers that work with a cloud, which is one in memory. Managers that are
// killed still reach it.
func cloudScenarios() []Scenario {
	return []Scenario{loadBalancers(), routes(), cloudNodes(), cloudNodeLifecycle()}
}

// withCloud has controllers make a round every second.
func withCloud(c *manager.Config) {
	second := &metav1.Duration{Duration: time.Second}
	c.Cloud.Provider = fakecloud.Name
	c.Networking.ClusterCIDRs = []string{"10.244.0.0/16"}
	c.Controllers.NodeRoute.ReconciliationPeriod = second
	c.Controllers.CloudNode.NodeStatusUpdateFrequency = second
	c.Controllers.CloudNodeLifecycle.NodeMonitorPeriod = second
}

// inCloud does something to the cloud.
func inCloud(do func(*fakecloud.Cloud)) Action {
	return func(context.Context, *world) error {
		do(fakecloud.The())
		return nil
	}
}

var (
	emptyCloud    = []Action{inCloud((*fakecloud.Cloud).Reset)}
	cloudContents = fakecloud.The().Contents
)

// cloudHas is that the cloud has just these things, and in the order of their names.
func cloudHas(want ...string) Condition {
	return func(_ context.Context, w *world) error {
		if got := cloudContents(); strings.Join(got, "\n") != w.fill(strings.Join(want, "\n")) {
			return fmt.Errorf("the cloud has %q, want %q", got, want)
		}
		return nil
	}
}

func loadBalancers() Scenario {
	// Ports of nodes would be made up.
	const service = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 80}]}
`
	balanced := func(port int, hosts string) []Condition {
		return []Condition{
			cloudHas("load balancer of NAMESPACE/web: " + hosts),
			Has("services", "web", "{.status.loadBalancer.ingress[*].ip}", fakecloud.BalancerIP, "{.status.loadBalancer.ingress[*].ports[*].port}", fmt.Sprint(port),
				"{.metadata.finalizers[*]}", "service.kubernetes.io/load-balancer-cleanup"),
		}
	}
	return Scenario{
		Name:        "service-lb",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.ServiceLB.Enabled} },
		Configure:   withCloud,
		Before:      emptyCloud,
		Kinds:       []schema.GroupVersionResource{serviceKind, nodes},
		Outside:     cloudContents,
		Steps: []Step{
			{"nodes join, and a Service wants a load balancer", []Action{Node("node-a"), Node("node-b"), Create(service)}, balanced(80, "node-a node-b")},
			{"a node joins, and one leaves", []Action{Node("node-c"), Delete("nodes", "node-a", metav1.DeletePropagationBackground)}, balanced(80, "node-b node-c")},
			{"change the port", []Action{Patch("services", "web", `{"spec":{"ports":[{"port":81}]}}`)}, balanced(81, "node-b node-c")},
			{
				"want none",
				[]Action{Patch("services", "web", `{"spec":{"type":"ClusterIP","allocateLoadBalancerNodePorts":null}}`)},
				[]Condition{cloudHas(), Has("services", "web", "{.status.loadBalancer.ingress}", "", "{.metadata.finalizers}", "")},
			},
			{
				"want one again",
				[]Action{Patch("services", "web", `{"spec":{"type":"LoadBalancer","allocateLoadBalancerNodePorts":false}}`)},
				balanced(81, "node-b node-c"),
			},
			{
				"delete and create again under the name",
				[]Action{Delete("services", "web", metav1.DeletePropagationBackground), Repeat(Create(service))},
				balanced(80, "node-b node-c"),
			},
			{"delete the Service", []Action{Delete("services", "web", metav1.DeletePropagationBackground)}, []Condition{Gone("services", "web"), cloudHas()}},
		},
	}
}

// NodeOf creates a node with further lines of its spec.
func NodeOf(name, spec string) Action {
	return Create("{apiVersion: v1, kind: Node, metadata: {name: " + name + ", labels: {kubernetes.io/os: linux}}, spec: {" + spec + "}}")
}

func routes() Scenario {
	node := func(name, cidr string) Action {
		return NodeOf(name, fmt.Sprintf("podCIDR: %s, podCIDRs: [%s]", cidr, cidr))
	}
	// shown is what is said of the network of a node.
	shown := func(node, unavailable, reason string) Condition {
		const path = "{.status.conditions[?(@.type=='NetworkUnavailable')]."
		return Has("nodes", node, path+"status}", unavailable, path+"reason}", reason)
	}
	const created, failed = "RouteCreated", "NoRouteCreated"
	toA, toB, toC := "route to node-a: 10.244.1.0/24", "route to node-b: 10.244.2.0/24", "route to node-c: 10.244.3.0/24"
	const foreign = "route to elsewhere: 10.99.0.0/24"
	return Scenario{
		Name:        "node-route",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.NodeRoute.Enabled} },
		Configure:   withCloud,
		Before:      emptyCloud,
		Kinds:       []schema.GroupVersionResource{nodes},
		Outside:     cloudContents,
		Steps: []Step{
			{
				"nodes join",
				[]Action{node("node-a", "10.244.1.0/24"), node("node-b", "10.244.2.0/24")},
				[]Condition{cloudHas(toA, toB), shown("node-a", "False", created), shown("node-b", "False", created)},
			},
			{
				"say that the network of a node is unavailable",
				[]Action{PatchStatus("nodes", "node-a", `{"status":{"conditions":[{"type":"NetworkUnavailable","status":"True","reason":"Played"}]}}`)},
				[]Condition{shown("node-a", "False", created)},
			},
			{
				"have the cloud fail, and a node join",
				[]Action{inCloud(func(c *fakecloud.Cloud) { c.Fail("CreateRoute node-c", errors.New("no routes left")) }), node("node-c", "10.244.3.0/24")},
				[]Condition{shown("node-c", "True", failed)},
			},
			{
				"have it work again",
				[]Action{inCloud(func(c *fakecloud.Cloud) { c.Fail("CreateRoute node-c", nil) })},
				[]Condition{cloudHas(toA, toB, toC), shown("node-c", "False", created)},
			},
			{
				"a node leaves and comes again with another range",
				[]Action{Delete("nodes", "node-a", metav1.DeletePropagationBackground), node("node-a", "10.244.9.0/24")},
				[]Condition{cloudHas("route to node-a: 10.244.9.0/24", toB, toC), shown("node-a", "False", created)},
			},
			{
				"lose all routes but one of somebody else, and a node",
				[]Action{
					inCloud(func(c *fakecloud.Cloud) {
						c.SetRoutes("kubernetes", cloudprovider.Route{DestinationCIDR: "10.99.0.0/24", TargetNode: "elsewhere"})
					}),
					Delete("nodes", "node-b", metav1.DeletePropagationBackground),
				},
				[]Condition{cloudHas(foreign, "route to node-a: 10.244.9.0/24", toC), shown("node-a", "False", created)},
			},
		},
	}
}

// tainted is whether a node has a taint of the controllers of clouds. Nodes that join have another one, as they are
// not ready.
func tainted(node, taint string, is bool) Condition {
	key, want := "node.cloudprovider.kubernetes.io/"+taint, ""
	if is {
		want = key
	}
	return Has("nodes", node, "{.spec.taints[?(@.key=='"+key+"')].key}", want)
}

func cloudNodes() Scenario {
	const uninitialized = "taints: [{key: node.cloudprovider.kubernetes.io/uninitialized, value: 'true', effect: NoSchedule}]"
	addressed := func(node string) Condition {
		return Has("nodes", node, "{.status.addresses[*].address}", fakecloud.InternalIP+" "+node)
	}
	initialized := func(node string) []Condition {
		label := func(key string) string { return "{.metadata.labels." + strings.ReplaceAll(key, ".", `\.`) + "}" }
		return []Condition{
			tainted(node, "uninitialized", false), Has("nodes", node, "{.spec.providerID}", "fake://"+node,
				label(corev1.LabelInstanceTypeStable), fakecloud.InstanceType, label(corev1.LabelTopologyZone), fakecloud.Zone, label(corev1.LabelTopologyRegion), fakecloud.Region),
			addressed(node),
		}
	}
	return Scenario{
		Name:        "cloud-node",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.CloudNode.Enabled} },
		Clock:       fast,
		Configure:   withCloud,
		Before:      emptyCloud,
		Kinds:       []schema.GroupVersionResource{nodes},
		Steps: []Step{
			{
				"nodes join, one of which was initialized before",
				[]Action{NodeOf("node-a", uninitialized), Node("node-b"), NodeOf("node-c", uninitialized)},
				slices.Concat(initialized("node-a"), []Condition{addressed("node-b")}, initialized("node-c")),
			},
			{
				"change a former label",
				[]Action{Patch("nodes", "node-b", `{"metadata":{"labels":{"beta.kubernetes.io/instance-type":"small"}}}`)},
				[]Condition{Has("nodes", "node-b", `{.metadata.labels.node\.kubernetes\.io/instance-type}`, "small")},
			},
			{"lose addresses", []Action{PatchStatus("nodes", "node-a", `{"status":{"addresses":null}}`)}, []Condition{addressed("node-a")}},
			{
				"a node leaves and comes again, and one is to be initialized again",
				[]Action{
					Delete("nodes", "node-c", metav1.DeletePropagationBackground), NodeOf("node-c", uninitialized),
					Patch("nodes", "node-b", `{"spec":{"taints":[{"key":"node.cloudprovider.kubernetes.io/uninitialized","effect":"NoSchedule"}]}}`),
				},
				append(initialized("node-c"), initialized("node-b")...),
			},
		},
	}
}

func cloudNodeLifecycle() Scenario {
	remove := func(node string) Action { return inCloud(func(c *fakecloud.Cloud) { c.Remove(node) }) }
	restore := func(node string) Action { return inCloud(func(c *fakecloud.Cloud) { c.Restore(node) }) }
	ready := func(node, status string) Action {
		return PatchStatus("nodes", node, fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, status))
	}
	return Scenario{
		Name:        "cloud-node-lifecycle",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.CloudNodeLifecycle.Enabled} },
		Configure:   withCloud,
		Before:      emptyCloud,
		Kinds:       []schema.GroupVersionResource{nodes},
		Steps: []Step{
			{
				"nodes join, one of which is ready",
				[]Action{Node("node-a"), Node("node-b"), Node("node-c"), Node("ready"), ready("node-c", "False"), ready("ready", "True")},
				[]Condition{Seen("nodes", "ready")},
			},
			{
				"remove instances, also of the node that is ready, and shut one down",
				[]Action{remove("node-b"), remove("ready"), inCloud(func(c *fakecloud.Cloud) { c.ShutDown("node-c") })},
				[]Condition{Gone("nodes", "node-b"), tainted("node-c", "shutdown", true)},
			},
			{
				"start it, and have the other come again",
				[]Action{restore("node-c"), ready("node-c", "True"), restore("node-b"), Node("node-b")},
				[]Condition{tainted("node-c", "shutdown", false), Count("nodes", "", 4)},
			},
			{
				"remove the instance again, and shut another one down",
				[]Action{Check(Count("nodes", "", 4)), remove("node-b"), inCloud(func(c *fakecloud.Cloud) { c.ShutDown("node-a") })},
				[]Condition{Gone("nodes", "node-b"), tainted("node-a", "shutdown", true), Count("nodes", "", 3)},
			},
		},
	}
}
