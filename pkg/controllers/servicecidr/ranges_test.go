package servicecidr

import (
	"net/netip"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func newCIDR(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Finalizers: []string{string(finalizer)}},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
	}
}

func deletingRange(r serviceRange) serviceRange {
	r.deleting = true
	return r
}

// What one address is to a ServiceCIDR "is" of both families, next to others. Pins CIDR-18a.
func TestWhatDependsOnARange(t *testing.T) {
	is := deletingRange(rangeOf(newCIDR("is", "192.168.0.0/24", "2001:db2::/64")))
	for name, test := range map[string]struct {
		others         []serviceRange
		address        string
		covered, holds bool
	}{
		"CIDR-18b: in it":              {address: "192.168.0.24", holds: true},
		"CIDR-18b: in its other range": {address: "2001:db2::ffff:ffff:ffff:ffff", holds: true},
		"CIDR-18b: outside":            {address: "192.168.1.24"},
		"CIDR-29: the network":         {address: "192.168.0.0"},
		"CIDR-29: broadcast":           {address: "192.168.0.255"},
		"CIDR-18a: an equal one":       {others: []serviceRange{rangeOf(newCIDR("other", "192.168.0.0/24", "2001:db2::/64"))}, address: "192.168.0.24", covered: true},
		"CIDR-18a: larger ones": {
			others:  []serviceRange{rangeOf(newCIDR("four", "192.168.0.0/16")), rangeOf(newCIDR("six", "2001:db2::/48"))},
			address: "192.168.0.24", covered: true,
		},
		"CIDR-18a, CIDR-28: one family is not covered": {
			others: []serviceRange{rangeOf(newCIDR("four", "192.168.0.0/16"))}, address: "2001:db2::1", holds: true,
		},
		"CIDR-28: addresses of the other one do not count": {
			others: []serviceRange{rangeOf(newCIDR("four", "192.168.0.0/16"))}, address: "192.168.0.24",
		},
		"CIDR-18b: a smaller one with the address":    {others: []serviceRange{rangeOf(newCIDR("other", "192.168.0.0/26"))}, address: "192.168.0.23"},
		"CIDR-18b: a smaller one without the address": {others: []serviceRange{rangeOf(newCIDR("other", "192.168.0.0/28"))}, address: "192.168.0.23", holds: true},
		"CIDR-18a: itself does not count":             {others: []serviceRange{is}, address: "192.168.0.24", holds: true},
		"CIDR-42: one that goes and is later by name": {
			others: []serviceRange{deletingRange(rangeOf(newCIDR("later", "192.168.0.0/24", "2001:db2::/64")))}, address: "192.168.0.24", covered: true,
		},
		"CIDR-42: one that goes and is earlier by name": {
			others: []serviceRange{deletingRange(rangeOf(newCIDR("earlier", "192.168.0.0/24", "2001:db2::/64")))}, address: "192.168.0.24", holds: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			others := protectorsOf(is, test.others)
			if got := is.isCovered(others); got != test.covered {
				t.Errorf("covered: %t", got)
			}
			if got := is.holds(netip.MustParseAddr(test.address), others); got != test.holds {
				t.Errorf("holds: %t", got)
			}
		})
	}
	// A ServiceCIDR without ranges is covered.
	if none := rangeOf(newCIDR("none", "nonsense")); !none.isCovered(nil) || none.families() != nil {
		t.Error("one without ranges is held")
	}
}

func TestRangesThatAreShown(t *testing.T) {
	r := &ranges{all: map[string]serviceRange{}}
	for _, cidr := range []*networkingv1.ServiceCIDR{
		newCIDR("is", "10.0.0.0/24"), newCIDR("larger", "10.0.0.0/16"), newCIDR("smaller", "10.0.0.128/25"), newCIDR("other", "10.1.0.0/24"), newCIDR("six", "::/0"),
	} {
		r.show(rangeOf(cidr))
	}
	got := r.overlapping(rangeOf(newCIDR("is", "10.0.0.0/24")))
	slices.Sort(got)
	if want := []string{"larger", "smaller"}; !slices.Equal(got, want) {
		t.Errorf("overlapping are %q, want %q", got, want)
	}
	if got := r.deletingWith("10.0.0.7"); got != nil {
		t.Errorf("none is being deleted, got %q", got)
	}
	larger := deletingRange(rangeOf(newCIDR("larger", "10.0.0.0/16")))
	for range 2 { // an update must not count twice
		r.show(larger)
	}
	if got := r.deletingWith("10.0.0.7"); !slices.Equal(got, []string{"larger"}) {
		t.Errorf("got %q", got)
	}
	if got := r.deletingWith("10.1.0.7"); got != nil {
		t.Errorf("got %q", got)
	}
	if got := r.deletingWith("nonsense"); got != nil {
		t.Errorf("got %q", got)
	}
	r.delete("larger")
	if r.delete("larger"); r.deleting != 0 || len(r.list()) != 4 {
		t.Errorf("%d are being deleted, of %v", r.deleting, r.list())
	}
}
