package faults

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/manager"
)

// ranged is a scenario in which nodes get ranges.
func ranged(name string, clusters, services []string, maskIPv4, maskIPv6 *int32, flags []string, before []Action, steps ...Step) Scenario {
	return Scenario{
		Name: name, Bare: true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.NodeIPAM.Enabled} },
		Configure: func(c *manager.Config) {
			c.Networking.ClusterCIDRs, c.Networking.ServiceCIDRs = clusters, services
			c.Controllers.NodeIPAM.AllocateNodeCIDRs = ptr.To(true)
			c.Controllers.NodeIPAM.NodeCIDRMaskSizeIPv4, c.Controllers.NodeIPAM.NodeCIDRMaskSizeIPv6 = maskIPv4, maskIPv6
		},
		Flags:  append([]string{"--allocate-node-cidrs=true"}, flags...),
		Before: before,
		Kinds:  []schema.GroupVersionResource{nodes},
		Steps:  steps,
	}
}

// getsRange creates a node, and waits until it has ranges.
func getsRange(name, ranges string) Action {
	return func(ctx context.Context, w *world) error {
		return InTurn(Node(name), Repeat(Check(hasRanges(name, ranges))))(ctx, w)
	}
}

// hasRanges is that a node has ranges, separated by spaces.
func hasRanges(name, ranges string) Condition {
	return Has("nodes", name, "{.spec.podCIDRs[*]}", ranges)
}

// nodeRanges is about ranges of one family: some nodes have theirs already, and Services have some.
func nodeRanges() Scenario {
	const finalizers = "finalizers: [faults.kcmd.dev/hold]"
	remove := func(name string) Action { return Delete("nodes", name, metav1.DeletePropagationBackground) }
	return ranged("node-ranges", []string{"10.64.0.0/16"}, []string{"10.64.0.0/19"}, ptr.To[int32](19), nil,
		[]string{"--cluster-cidr=10.64.0.0/16", "--service-cluster-ip-range=10.64.0.0/19", "--node-cidr-mask-size=19"},
		[]Action{
			nodeLike("had", "", "podCIDR: 10.64.64.0/19, podCIDRs: [10.64.64.0/19]"), nodeLike("part", "", "podCIDR: 10.64.96.0/24, podCIDRs: [10.64.96.0/24]"),
			nodeLike("leaving", finalizers, ""), remove("leaving"), nodeLike("held", finalizers+", labels: {a: b}", "podCIDR: 10.64.128.0/19"), remove("held"),
		},
		Step{
			"nodes join, until there are no ranges left",
			[]Action{getsRange("n-1", "10.64.32.0/19"), getsRange("n-2", "10.64.160.0/19"), getsRange("n-3", "10.64.192.0/19"), getsRange("n-4", "10.64.224.0/19"), Node("n-5"), Rest(time.Second)},
			[]Condition{hasRanges("leaving", ""), hasRanges("held", "10.64.128.0/19"), hasRanges("n-5", "")},
		},
		Step{"one leaves", []Action{remove("n-3")}, []Condition{hasRanges("n-5", "10.64.192.0/19")}},
		Step{
			"one is there until its finalizer is gone",
			[]Action{Node("n-6"), Rest(time.Second), Check(hasRanges("n-6", "")), Patch("nodes", "held", `{"metadata":{"finalizers":null}}`)},
			[]Condition{hasRanges("n-6", "10.64.128.0/19")},
		},
		Step{
			"one that has a part of a range leaves, and one that had its own comes again",
			[]Action{remove("part"), getsRange("n-7", "10.64.96.0/19"), remove("had"), nodeLike("had", "", ""), Rest(2 * time.Second)},
			[]Condition{hasRanges("had", "10.64.64.0/19")},
		},
	)
}

// nodeRangesDual is about ranges of both families.
func nodeRangesDual() Scenario {
	s := ranged("node-ranges-dual", []string{"10.64.0.0/16", "fd00:64::/48"}, []string{"fd00:64::/63", "10.64.0.0/20"}, ptr.To[int32](20), ptr.To[int32](64),
		[]string{"--cluster-cidr=10.64.0.0/16,fd00:64::/48", "--service-cluster-ip-range=fd00:64::/63,10.64.0.0/20", "--node-cidr-mask-size-ipv4=20", "--node-cidr-mask-size-ipv6=64"},
		[]Action{nodeLike("had-one", "", "podCIDR: 10.64.16.0/20, podCIDRs: [10.64.16.0/20]"), nodeLike("had-both", "", "podCIDR: 10.64.48.0/20, podCIDRs: ['10.64.48.0/20', 'fd00:64:0:3::/64']")},
		Step{
			"nodes join",
			[]Action{getsRange("n-1", "10.64.32.0/20 fd00:64:0:2::/64"), getsRange("n-2", "10.64.64.0/20 fd00:64:0:4::/64")}, []Condition{hasRanges("had-one", "10.64.16.0/20")},
		},
		Step{"another one joins", []Action{getsRange("n-3", "10.64.80.0/20 fd00:64:0:5::/64")}, nil},
		Step{
			"nodes come with ranges that do not fit", []Action{
				nodeLike("other-order", "", "podCIDR: 'fd00:64:0:6::/64', podCIDRs: ['fd00:64:0:6::/64', 10.64.96.0/20]"), nodeLike("outside", "", "podCIDR: 10.99.0.0/20, podCIDRs: [10.99.0.0/20]"), Rest(time.Second),
				Node("n-4"),
			}, []Condition{Contains("nodes", "n-4", "{.spec.podCIDRs[0]}", "10.64.")},
		},
	)
	s.Differs = map[string]string{`nodes/n-4 differs: .spec.podCIDRs`: "IPAM-40"} // the range of other-order that is not in its place
	return s
}

// nodeRangesSix is about ranges of which the first is of IPv6, and about masks by default.
func nodeRangesSix() Scenario {
	return ranged("node-ranges-six", []string{"fd00:65:0:f000::/63", "10.65.0.0/22"}, nil, nil, nil,
		[]string{"--cluster-cidr=fd00:65:0:f000::/63,10.65.0.0/22"}, nil,
		Step{"nodes join", []Action{getsRange("n-1", "fd00:65:0:f000::/64 10.65.0.0/24")}, nil},
		Step{
			"more than there are ranges of one family",
			[]Action{getsRange("n-2", "fd00:65:0:f001::/64 10.65.1.0/24"), Node("n-3"), Rest(time.Second)}, []Condition{hasRanges("n-3", "")},
		},
	)
}

// nodeRangesFew is about a single range that is as small as those of nodes, and is that of Services in part.
func nodeRangesFew() Scenario {
	return ranged("node-ranges-few", []string{"fd00:66::/64"}, []string{"fd00:67::/108"}, nil, nil,
		[]string{"--cluster-cidr=fd00:66::/64", "--service-cluster-ip-range=fd00:67::/108"}, nil,
		Step{"a node joins", []Action{getsRange("n-1", "fd00:66::/64"), Node("n-2"), Rest(time.Second)}, []Condition{hasRanges("n-2", "")}},
		Step{"it is made again", []Action{Delete("nodes", "n-2", metav1.DeletePropagationBackground), Delete("nodes", "n-1", metav1.DeletePropagationBackground), Node("n-1")}, []Condition{hasRanges("n-1", "fd00:66::/64")}},
	)
}

// ttlSizes is about the annotation of nodes in clusters of two sizes.
func ttlSizes() Scenario {
	const path = `{.metadata.annotations.node\.alpha\.kubernetes\.io/ttl}`
	name := func(i int) string { return fmt.Sprintf("n-%03d", i) }
	var join, touch, leave []Action
	for i := range 100 {
		join = append(join, Node(name(i)))
	}
	for i := range 101 {
		touch = append(touch, says(name(i), "Ready=True"))
		if i >= 88 {
			leave = append(leave, Delete("nodes", name(i), metav1.DeletePropagationBackground))
		}
	}
	annotate := func(node, value string) Action {
		return Patch("nodes", node, `{"metadata":{"annotations":{"node.alpha.kubernetes.io/ttl":`+value+`,"other":"kept"}}}`)
	}
	every := func(value string, names ...string) (all []Condition) {
		for _, one := range names {
			all = append(all, Has("nodes", one, path, value))
		}
		return all
	}
	return Scenario{
		Name: "ttl-sizes", Bare: true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.TTL.Enabled} },
		Kinds:       []schema.GroupVersionResource{nodes},
		Steps: []Step{
			{"a hundred nodes join", join, every("0", name(0), name(50), name(99))},
			{"one more does, and all report", slices.Concat([]Action{Node(name(100)), Repeat(Check(Has("nodes", name(100), path, "15")))}, touch), every("15", name(0), name(37), name(99), name(100))},
			{
				"annotations are changed", []Action{annotate(name(1), `"no number"`), annotate(name(2), `"16"`), annotate(name(3), "null"), annotate(name(4), `"015"`), annotate(name(5), `" 15"`), annotate(name(6), `"+15"`)},
				every("15", name(1), name(2), name(3), name(5)),
			},
			{"some leave, and the others report", slices.Concat(leave, []Action{Rest(time.Second)}, touch[:88]), every("0", name(0), name(37), name(87))},
		},
	}
}
