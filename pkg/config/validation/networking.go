package validation

import (
	"net/netip"

	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/problem"
)

const (
	clusterCIDRs = "networking.clusterCIDRs"
	serviceCIDRs = "networking.serviceCIDRs"
	ipamBlock    = "controllers.node-ipam-controller."

	// maxNodeBits is how many more bits an IPv6 range of a node may fix than that of the
	// cluster: 65536 nodes, whose ranges are recorded in memory.
	maxNodeBits = 16
)

// cidr is a range of the configuration and its path.
type cidr struct {
	path   string
	prefix netip.Prefix
}

// validateNetworking checks the ranges, alone, against each other and against the sizes of
// the ranges of nodes.
func (v *validator) validateNetworking() {
	cluster := v.cidrs(clusterCIDRs, v.cfg.Networking.ClusterCIDRs)
	service := v.cidrs(serviceCIDRs, v.cfg.Networking.ServiceCIDRs)
	for _, c := range cluster {
		for _, s := range service {
			if c.prefix.Overlaps(s.prefix) {
				v.warnf(s.path, "%s overlaps with %s of %s: "+
					"node-ipam-controller gives no node a range that overlaps with it, but other allocators could",
					s.prefix, c.prefix, c.path)
			}
		}
	}
	v.validateNodeIPAM(cluster)
}

// cidrs returns the valid ranges of a list, after reporting the others.
func (v *validator) cidrs(list string, texts []string) []cidr {
	if !v.decoded(list) {
		return nil
	}
	var good []cidr
	for i, text := range texts {
		path := fieldpath.Element(list, i)
		if !v.decoded(path) {
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil || prefix.Addr().Is4In6() {
			v.errorf(path, "must be a range in CIDR notation such as 10.244.0.0/16 or fd00:10:244::/56, not %s",
				problem.Quote(text))
			continue
		}
		if prefix != prefix.Masked() {
			v.warnf(path, "%s has bits set outside its mask: it is read as %s", text, prefix.Masked())
			prefix = prefix.Masked()
		}
		if len(good) == 1 && good[0].prefix.Addr().Is4() == prefix.Addr().Is4() {
			v.errorf(path, "%s and %s have the same IP family: two ranges must be one IPv4 range and one IPv6 range",
				good[0].prefix, prefix)
			continue
		}
		good = append(good, cidr{path, prefix})
	}
	return good
}

// validateNodeIPAM checks that the cluster's ranges can be divided as the block specifies. While
// the controller is disabled, nothing divides them: what is wrong is a warning.
func (v *validator) validateNodeIPAM(cluster []cidr) {
	c := v.cfg.Controllers.NodeIPAM
	if !*c.AllocateNodeCIDRs {
		return
	}
	if len(v.cfg.Networking.ClusterCIDRs) == 0 && v.decoded(clusterCIDRs, ipamBlock+"allocateNodeCIDRs") {
		v.ipamf(ipamBlock+"allocateNodeCIDRs", "needs %s", clusterCIDRs)
	}
	v.nodeMask(ipv4, *c.NodeCIDRMaskSizeIPv4, cluster)
	v.nodeMask(ipv6, *c.NodeCIDRMaskSizeIPv6, cluster)
}

// The IP families, as they end the names of fields.
const (
	ipv4 = "IPv4"
	ipv6 = "IPv6"
)

// ipamf reports what keeps node-ipam-controller from working.
func (v *validator) ipamf(path, format string, args ...any) {
	if v.cfg.ControllerEnabled("node-ipam-controller") {
		v.errorf(path, format, args...)
		return
	}
	v.warnf(path, format, args...)
}

// nodeMask checks the size of a node's range of an IP family against the cluster's range of that family.
func (v *validator) nodeMask(family string, bits int32, cluster []cidr) {
	field := "nodeCIDRMaskSize" + family
	path := ipamBlock + field
	if !v.decoded(path) {
		return
	}
	found := false
	for _, c := range cluster {
		if c.prefix.Addr().Is4() != (family == ipv4) {
			continue
		}
		found = true
		at := v.firstSet(path, c.path)
		switch {
		case int(bits) < c.prefix.Bits():
			v.ipamf(at, "a node's range (/%d, %s) must not be larger than that of the cluster (%s)", bits, field, c.prefix)
		case family == ipv6 && int(bits)-c.prefix.Bits() > maxNodeBits:
			v.ipamf(at, "a node's range (/%d, %s) must be at most %d bits longer than that of the cluster (%s)",
				bits, field, maxNodeBits, c.prefix)
		}
	}
	if !found && len(cluster) > 0 && v.changed(path) {
		v.ipamf(path, "there is no %s range in %s to allocate from: remove it", family, clusterCIDRs)
	}
}
