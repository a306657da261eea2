package servicecidr

import (
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
)

// prefixesOf returns the ranges of a ServiceCIDR. It omits invalid ones.
func prefixesOf(cidr *networkingv1.ServiceCIDR) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range cidr.Spec.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			all = append(all, p.Masked())
		}
	}
	return all
}

// containsPrefix reports whether a range is part of another one, or equal to it.
func containsPrefix(whole, part netip.Prefix) bool {
	return whole.Overlaps(part) && whole.Bits() <= part.Bits()
}

// containsAddress reports whether an address can be allocated from a range. The address must be in
// the range, and must be neither the network address nor, for IPv4, the broadcast address.
func containsAddress(p netip.Prefix, address netip.Addr) bool {
	if !p.Contains(address) || address == p.Addr() {
		return false
	}
	// The broadcast address is the last address of the range, so its successor is not in the range.
	return address.Is6() || p.Contains(address.Next())
}
