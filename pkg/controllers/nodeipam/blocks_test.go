package nodeipam

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/component-base/metrics"

	"kcmd.dev/test/must"
)

func set(t testing.TB, cluster string, bits int) *blockSet {
	t.Helper()
	s := must.Get(newBlockSet(netip.MustParsePrefix(cluster), bits))(t)
	return s
}

func TestBlocksAreNumbered(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster string
		bits    int
		number  int
		want    string
	}{
		"IPAM-21: the first":                      {"127.123.0.0/16", 24, 0, "127.123.0.0/24"},
		"IPAM-21: the last":                       {"127.123.0.0/16", 24, 255, "127.123.255.0/24"},
		"IPAM-21: one block is all":               {"10.1.2.0/24", 24, 0, "10.1.2.0/24"},
		"IPAM-21: single addresses":               {"10.1.2.0/24", 32, 77, "10.1.2.77/32"},
		"IPAM-21: across octets":                  {"192.168.0.0/16", 22, 63, "192.168.252.0/22"},
		"IPAM-23: before bit 64":                  {"2001:db8::/40", 56, 0xabcd, "2001:db8:ab:cd00::/56"},
		"IPAM-23: up to bit 64":                   {"2001:db8:1234::/48", 64, 0xfedc, "2001:db8:1234:fedc::/64"},
		"IPAM-23: across bit 64":                  {"2001:db8:1234:5600::/56", 72, 0xfedc, "2001:db8:1234:56fe:dc00::/72"},
		"IPAM-23: after bit 64":                   {"2001:db8:1234:5678::/64", 80, 0x0102, "2001:db8:1234:5678:102::/80"},
		"IPAM-23: far after bit 64":               {"2001:db8:0:0:ff00::/80", 96, 3, "2001:db8::ff00:3:0:0/96"},
		"IPAM-21: a range with bits set too many": {"10.1.2.3/16", 24, 1, "10.1.1.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, tc.cluster, tc.bits)
			got := s.block(tc.number)
			if got.String() != tc.want {
				t.Errorf("block %d is %s, want %s", tc.number, got, tc.want)
			}
			if n := s.number(got.Addr()); n != tc.number {
				t.Errorf("%s is block %d, want %d", got, n, tc.number)
			}
		})
	}
}

func TestNewBlockSet(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster string
		bits    int
		err     string
	}{
		"IPAM-23: 16 bits of IPv6":               {"fd00::/48", 64, ""},
		"IPAM-23: 17 bits of IPv6":               {"fd00::/47", 64, "New CIDR set failed; the node CIDR size is too big"},
		"IPAM-23: 17 bits of IPv4":               {"10.0.0.0/8", 25, ""},
		"IPAM-12: more bits than IPv4 has":       {"10.0.0.0/24", 33, "no block can have /33"},
		"IPAM-38: a block larger than the whole": {"10.0.0.0/24", 23, "blocks of /23 are larger than the whole"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newBlockSet(netip.MustParsePrefix(tc.cluster), tc.bits)
			if got := text(err); got != tc.err {
				t.Errorf("error is %q, want %q", got, tc.err)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A step is "take", "occupy <range>", "release <range>".
func TestBlocks(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster string
		bits    int
		steps   []string
		want    []string // the blocks taken, and the changes of those occupied and released
		used    int
	}{
		"IPAM-21: in order": {"10.0.0.0/22", 24, []string{"take", "take"}, []string{"10.0.0.0/24", "10.0.1.0/24"}, 2},
		"IPAM-21: one that is freed comes after all others": {
			"10.0.0.0/23", 25, []string{"take", "take", "release 10.0.0.0/25", "take", "take", "take"},
			[]string{"10.0.0.0/25", "10.0.0.128/25", "1", "10.0.1.0/25", "10.0.1.128/25", "10.0.0.0/25"}, 4,
		},
		"IPAM-21: the only one that is free": {
			"10.0.0.0/23", 25, []string{"take", "take", "take", "take", "release 10.0.1.0/25", "take"},
			[]string{"10.0.0.0/25", "10.0.0.128/25", "10.0.1.0/25", "10.0.1.128/25", "1", "10.0.1.0/25"}, 4,
		},
		"IPAM-22: what is occupied is skipped, and nothing else": {
			"10.0.0.0/22", 24, []string{"occupy 10.0.1.0/24", "take", "take"}, []string{"1", "10.0.0.0/24", "10.0.2.0/24"}, 3,
		},
		"IPAM-22: a range larger than all":           {"10.0.0.0/22", 24, []string{"occupy 10.0.0.0/8"}, []string{"4"}, 4},
		"IPAM-22: exactly all":                       {"10.0.0.0/22", 24, []string{"occupy 10.0.0.0/22"}, []string{"4"}, 4},
		"IPAM-22, IPAM-35: several blocks":           {"10.0.0.0/22", 24, []string{"occupy 10.0.2.0/23", "take", "take"}, []string{"2", "10.0.0.0/24", "10.0.1.0/24"}, 4},
		"IPAM-22, IPAM-35: less than a block":        {"10.0.0.0/22", 24, []string{"occupy 10.0.0.64/26", "take"}, []string{"1", "10.0.1.0/24"}, 2},
		"IPAM-22: outside":                           {"10.0.0.0/22", 24, []string{"occupy 10.0.4.0/24", "release 10.0.4.0/24", "occupy fd00::/64"}, []string{"0", "0", "0"}, 0},
		"IPAM-22: released twice":                    {"10.0.0.0/22", 24, []string{"take", "release 10.0.0.0/24", "release 10.0.0.0/24"}, []string{"10.0.0.0/24", "1", "0"}, 0},
		"IPAM-41: free when its last holder is gone": {"10.0.0.0/22", 24, []string{"occupy 10.0.0.0/25", "occupy 10.0.0.128/25", "occupy 10.0.0.0/22", "release 10.0.0.0/25", "release 10.0.0.128/25", "release 10.0.0.0/22"}, []string{"1", "0", "3", "0", "0", "4"}, 0},
		"IPAM-22, IPAM-23: IPv6":                     {"fd00::/48", 64, []string{"occupy fd00:0:0:0:8000::/65", "take", "occupy fd00:0:0:4::/62", "release fd00::/32"}, []string{"1", "fd00:0:0:1::/64", "4", "6"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, tc.cluster, tc.bits)
			var got []string
			for _, step := range tc.steps {
				what, cidr, _ := strings.Cut(step, " ")
				switch what {
				case "take":
					p, _ := s.take()
					got = append(got, p.String())
				case "occupy":
					got = append(got, decimal(s.occupy(netip.MustParsePrefix(cidr))))
				case "release":
					got = append(got, decimal(s.release(netip.MustParsePrefix(cidr))))
				}
			}
			if !slices.Equal(got, tc.want) || s.used != tc.used {
				t.Errorf("got %q with %d in use, want %q with %d", got, s.used, tc.want, tc.used)
			}
		})
	}
}

func decimal(n int) string { return string(rune('0' + n)) }

// Pins IPAM-21.
func TestABlockSetIsFull(t *testing.T) {
	for _, tc := range []struct {
		cluster string
		bits    int
		size    int
	}{{"10.0.0.0/24", 30, 64}, {"10.0.0.0/30", 31, 2}, {"10.0.0.0/8", 24, 1 << 16}, {"fd00::/60", 67, 128}} {
		s := set(t, tc.cluster, tc.bits)
		seen := map[netip.Prefix]bool{}
		for s.used < s.size {
			p, passed := s.take()
			if seen[p] || passed != 0 || !s.cluster.Overlaps(p) || p.Bits() != tc.bits {
				t.Fatalf("%s: took %s after %d blocks, seen %v", tc.cluster, p, passed, seen[p])
			}
			seen[p] = true
		}
		if len(seen) != tc.size {
			t.Errorf("%s has %d blocks, want %d", tc.cluster, len(seen), tc.size)
		}
		_, err := newRanges([]*blockSet{s}, newMetrics(metrics.NewKubeRegistry()), func(string) {}).choose(incarnation{"node", "uid"}, at)
		if !errors.Is(err, errFull) {
			t.Errorf("a full set gives %v", err)
		}
	}
}

// The ranges of the cluster were edited, and there are two now. Pins IPAM-48.
func TestABlockThatFitsIsKept(t *testing.T) {
	for name, tc := range map[string]struct {
		own, others, taken, rest string
	}{
		"both fit":               {"10.1.5.0/24 10.0.7.0/24", "", "10.0.7.0/24 10.1.5.0/24", ""},
		"one fits":               {"10.0.7.0/24", "", "10.0.7.0/24 10.1.0.0/24", ""},
		"it is of another size":  {"10.0.6.0/23", "", "10.0.0.0/24 10.1.0.0/24", "10.0.6.0/23"},
		"it is of other ranges":  {"10.2.7.0/24", "", "10.0.0.0/24 10.1.0.0/24", "10.2.7.0/24"},
		"others hold it as well": {"10.0.7.0/24", "10.0.7.0/25", "10.0.0.0/24 10.1.0.0/24", "10.0.7.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRanges([]*blockSet{set(t, "10.0.0.0/16", 24), set(t, "10.1.0.0/16", 24)}, newMetrics(metrics.NewKubeRegistry()), func(string) {})
			own := prefixes(tc.own)
			r.occupy(own)
			r.occupy(prefixes(tc.others))
			taken, rest, err := r.take(own)
			if err != nil || !slices.Equal(taken, prefixes(tc.taken)) || !slices.Equal(rest, prefixes(tc.rest)) {
				t.Errorf("took %v, and also holds %v, error %v", taken, rest, err)
			}
		})
	}
}

func prefixes(list string) (all []netip.Prefix) {
	for _, p := range strings.Fields(list) {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}
