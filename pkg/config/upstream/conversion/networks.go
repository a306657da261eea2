package conversion

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/utils/ptr"
)

const (
	clusterCIDRPath = "KubeCloudShared.ClusterCIDR"
	maskPath        = "NodeIPAMController.NodeCIDRMaskSize"
	ipamBlock       = "controllers.node-ipam-controller."
)

// networksToHub converts the ranges, which upstream keeps as text.
func (c *converter) networksToHub() {
	if list := SplitList(c.in.KubeCloudShared.ClusterCIDR); len(list) > 0 {
		c.out.Networking.ClusterCIDRs = list
		c.origin("networking.clusterCIDRs", clusterCIDRPath)
	}
	ipam := c.in.NodeIPAMController
	if list := SplitList(ipam.ServiceCIDR + "," + ipam.SecondaryServiceCIDR); len(list) > 0 {
		c.out.Networking.ServiceCIDRs = list
		c.origin("networking.serviceCIDRs", "NodeIPAMController.ServiceCIDR")
	}
	c.masksToHub()
}

// masksToHub applies the size for either family to the family of the one range there is, and
// leaves the sizes for single families alone.
func (c *converter) masksToHub() {
	in, out := c.in.NodeIPAMController, &c.out.Controllers.NodeIPAM
	if in.NodeCIDRMaskSizeIPv4 != 0 {
		out.NodeCIDRMaskSizeIPv4 = ptr.To(in.NodeCIDRMaskSizeIPv4)
		c.origin(ipamBlock+"nodeCIDRMaskSizeIPv4", maskPath+"IPv4")
	}
	if in.NodeCIDRMaskSizeIPv6 != 0 {
		out.NodeCIDRMaskSizeIPv6 = ptr.To(in.NodeCIDRMaskSizeIPv6)
		c.origin(ipamBlock+"nodeCIDRMaskSizeIPv6", maskPath+"IPv6")
	}
	if in.NodeCIDRMaskSize == 0 {
		return
	}
	ranges := c.out.Networking.ClusterCIDRs
	conflicts := in.NodeCIDRMaskSizeIPv4 != 0 || in.NodeCIDRMaskSizeIPv6 != 0 || len(ranges) > 1
	switch {
	case conflicts && !c.allocates():
		c.note(maskPath, fmt.Sprintf("%d is left out: node-ipam-controller, which would refuse it, "+
			"allocates no ranges, and upstream does not read it either", in.NodeCIDRMaskSize))
	case in.NodeCIDRMaskSizeIPv4 != 0 || in.NodeCIDRMaskSizeIPv6 != 0:
		c.errs.addf(maskPath, "cannot be combined with a size for one family: upstream rejects it too")
	case len(ranges) > 1:
		c.errs.addf(maskPath, "must be a size for each family with two ranges in %s: upstream rejects it too",
			clusterCIDRPath)
	case len(ranges) == 1 && isIPv6(ranges[0]):
		out.NodeCIDRMaskSizeIPv6 = ptr.To(in.NodeCIDRMaskSize)
		c.origin(ipamBlock+"nodeCIDRMaskSizeIPv6", maskPath)
	default:
		out.NodeCIDRMaskSizeIPv4 = ptr.To(in.NodeCIDRMaskSize)
		c.origin(ipamBlock+"nodeCIDRMaskSizeIPv4", maskPath)
	}
}

// allocates reports whether ranges are allocated to nodes. Without that upstream does not look at their sizes.
func (c *converter) allocates() bool {
	enabled := cmp.Or(c.out.Controllers.NodeIPAM.Enabled, c.out.ControllerDefaults.Enabled)
	return c.in.KubeCloudShared.AllocateNodeCIDRs && *enabled
}

func isIPv6(text string) bool {
	prefix, err := netip.ParsePrefix(text)
	return err == nil && prefix.Addr().Is6()
}

// SplitList splits text at commas and drops what is blank.
func SplitList(text string) []string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func (c *exporter) networksFromHub() {
	c.out.KubeCloudShared.ClusterCIDR = strings.Join(c.in.Networking.ClusterCIDRs, ",")
	ipam, services := &c.out.NodeIPAMController, c.in.Networking.ServiceCIDRs
	if len(services) > 0 {
		ipam.ServiceCIDR = services[0]
	}
	if len(services) > 1 {
		ipam.SecondaryServiceCIDR = services[1]
	}
	block := c.in.Controllers.NodeIPAM
	if size := *block.NodeCIDRMaskSizeIPv4; size != defaultMaskIPv4 {
		ipam.NodeCIDRMaskSizeIPv4 = size
	}
	if size := *block.NodeCIDRMaskSizeIPv6; size != defaultMaskIPv6 {
		ipam.NodeCIDRMaskSizeIPv6 = size
	}
}

// The sizes of 0.
const (
	defaultMaskIPv4 = 24
	defaultMaskIPv6 = 64
)
