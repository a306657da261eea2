package v1beta1

import "net/netip"

// Network returns a range in CIDR notation without what makes no difference: bits outside its mask, and how an IPv6
// address is spelled. A text that is no range is returned unchanged.
func Network(cidr string) string {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return cidr
	}
	return prefix.Masked().String()
}
