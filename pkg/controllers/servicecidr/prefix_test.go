package servicecidr

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAddressesOfARange(t *testing.T) {
	for name, test := range map[string]struct {
		prefix, address string
		want            bool
	}{
		"CIDR-9: in it":                            {"192.168.0.0/24", "192.168.0.63", true},
		"CIDR-9: outside":                          {"192.168.0.0/24", "192.168.1.63", false},
		"CIDR-9, CIDR-29: network":                 {"192.168.0.0/24", "192.168.0.0", false},
		"CIDR-9, CIDR-29: broadcast":               {"192.168.0.0/24", "192.168.0.255", false},
		"CIDR-9: broadcast of a part":              {"192.168.0.0/26", "192.168.0.63", false},
		"CIDR-9: the last one of all":              {"255.255.255.0/24", "255.255.255.255", false},
		"CIDR-9: the last but one":                 {"255.255.255.0/24", "255.255.255.254", true},
		"CIDR-9: two addresses":                    {"192.168.0.0/31", "192.168.0.1", false},
		"CIDR-9: one address":                      {"192.168.0.0/32", "192.168.0.0", false},
		"CIDR-9: IPv6":                             {"2001:db2::/64", "2001:db2::1", true},
		"CIDR-9: IPv6 has no broadcasts":           {"2001:db2::/64", "2001:db2::ffff:ffff:ffff:ffff", true},
		"CIDR-9: the same in a part":               {"2001:db2::/96", "2001:db2::ffff:ffff:ffff:ffff", false},
		"CIDR-9, CIDR-29: the network of IPv6":     {"2001:db2::/64", "2001:db2::", false},
		"CIDR-9: one address of IPv6":              {"2001:db2::1/128", "2001:db2::1", false},
		"CIDR-9: another family":                   {"0.0.0.0/0", "2001:db2::1", false},
		"CIDR-9: the last address of IPv6 and all": {"::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := containsAddress(netip.MustParsePrefix(test.prefix), netip.MustParseAddr(test.address)); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestPartsOfARange(t *testing.T) {
	for name, test := range map[string]struct {
		whole, part string
		want        bool
	}{
		"CIDR-9: a part":                   {"192.168.0.0/16", "192.168.1.0/24", true},
		"CIDR-9: equal":                    {"192.168.1.0/24", "192.168.1.0/24", true},
		"CIDR-9: the whole is no part":     {"192.168.1.0/24", "192.168.0.0/16", false},
		"CIDR-9: another":                  {"192.168.1.0/24", "192.168.2.0/24", false},
		"CIDR-9: all of IPv4, and of IPv6": {"0.0.0.0/0", "::/0", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := containsPrefix(netip.MustParsePrefix(test.whole), netip.MustParsePrefix(test.part)); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// Pins CIDR-9.
func TestWhatIsNoRangeIsLeftOut(t *testing.T) {
	got := prefixesOf(newCIDR("a", "192.168.1.7/24", "nonsense", "2001:db2::/64"))
	want := []netip.Prefix{netip.MustParsePrefix("192.168.1.0/24"), netip.MustParsePrefix("2001:db2::/64")}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
