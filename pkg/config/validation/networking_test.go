package validation_test

import "testing"

// Pins IPAM-38 and IPAM-44.
func TestValidateNetworking(t *testing.T) {
	checkProblems(t, []problemTest{
		{"networking: {clusterCIDRs: [10.0.0.0/8], serviceCIDRs: [10.96.0.0/12]}", []string{
			"3:57: warning: networking.serviceCIDRs[0]: 10.96.0.0/12 overlaps with 10.0.0.0/8 of networking.clusterCIDRs[0]: node-ipam-controller gives no node a range that overlaps with it, but other allocators could",
		}},
		{"networking: {clusterCIDRs: [10.0.0.0/16, 10.1.0.0/16]}", []string{
			"3:42: networking.clusterCIDRs[1]: 10.0.0.0/16 and 10.1.0.0/16 have the same IP family: two ranges must be one IPv4 range and one IPv6 range",
		}},
		{"networking: {clusterCIDRs: [10.0.0.0/16, 'fd00::/56', 10.2.0.0/16]}", []string{
			"3:28: networking.clusterCIDRs: must be a list of at most 2 elements, not 3",
		}},
		{"networking: {clusterCIDRs: [10.0.0.1/16, hello, 10.0.0.0]}", []string{
			"3:28: networking.clusterCIDRs: must be a list of at most 2 elements, not 3",
		}},
		{"controllers: {node-ipam-controller: {allocateNodeCIDRs: true}}", []string{
			"3:57: controllers.node-ipam-controller.allocateNodeCIDRs: needs networking.clusterCIDRs",
		}},
		{"networking: {clusterCIDRs: [10.0.0.0/25]}\ncontrollers: {node-ipam-controller: {allocateNodeCIDRs: true, nodeCIDRMaskSizeIPv6: 80}}", []string{
			"3:29: networking.clusterCIDRs[0]: a node's range (/24, nodeCIDRMaskSizeIPv4) must not be larger than that of the cluster (10.0.0.0/25)",
			"4:85: controllers.node-ipam-controller.nodeCIDRMaskSizeIPv6: there is no IPv6 range in networking.clusterCIDRs to allocate from: remove it",
		}},
		{"networking: {clusterCIDRs: ['fd00::/40', '10.0.0.0/16']}\ncontrollers: {node-ipam-controller: {allocateNodeCIDRs: true, nodeCIDRMaskSizeIPv4: 12}}", []string{
			"3:29: networking.clusterCIDRs[0]: a node's range (/64, nodeCIDRMaskSizeIPv6) must be at most 16 bits longer than that of the cluster (fd00::/40)",
			"4:85: controllers.node-ipam-controller.nodeCIDRMaskSizeIPv4: a node's range (/12, nodeCIDRMaskSizeIPv4) must not be larger than that of the cluster (10.0.0.0/16)",
		}},
		{"controllers: {node-ipam-controller: {nodeCIDRMaskSizeIPv4: 33, enabled: true}}", []string{
			"3:60: controllers.node-ipam-controller.nodeCIDRMaskSizeIPv4: must be 1 to 32, not 33",
		}},
		{"networking: {serviceCIDRs: [10.96.0.0/12]}", nil},
		{"controllers: {node-ipam-controller: {nodeCIDRMaskSizeIPv4: 25}}", nil},
		{"networking: {clusterCIDRs: ['fd00::/48']}\ncontrollers: {node-ipam-controller: {allocateNodeCIDRs: true}}", nil},
		{"networking: {clusterCIDRs: ['fd00::/47']}\ncontrollers: {node-ipam-controller: {allocateNodeCIDRs: true}}", []string{
			"3:29: networking.clusterCIDRs[0]: a node's range (/64, nodeCIDRMaskSizeIPv6) must be at most 16 bits longer than that of the cluster (fd00::/47)",
		}},
		{"networking: {clusterCIDRs: [10.0.0.1/16, hello]}", []string{
			"3:29: warning: networking.clusterCIDRs[0]: 10.0.0.1/16 has bits set outside its mask: it is read as 10.0.0.0/16",
			"3:42: networking.clusterCIDRs[1]: must be a range in CIDR notation such as 10.244.0.0/16 or fd00:10:244::/56, not \"hello\"",
		}},
		{"networking: {clusterCIDRs: ['::ffff:10.0.0.0/112']}", []string{
			"3:29: networking.clusterCIDRs[0]: must be a range in CIDR notation such as 10.244.0.0/16 or fd00:10:244::/56, not \"::ffff:10.0.0.0/112\"",
		}},
	})
}
