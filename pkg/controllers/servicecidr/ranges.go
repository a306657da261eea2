package servicecidr

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// serviceRange holds the properties of a ServiceCIDR that the controller needs.
type serviceRange struct {
	name     string
	prefixes []netip.Prefix
	guarded  bool // whether it has the finalizer
	deleting bool
	since    metav1.Time // of its deletion
}

func rangeOf(cidr *networkingv1.ServiceCIDR) serviceRange {
	return serviceRange{
		name:     cidr.Name,
		prefixes: prefixesOf(cidr),
		guarded:  slices.Contains(cidr.Finalizers, string(finalizer)),
		deleting: cidr.DeletionTimestamp != nil,
		since:    ptr.Deref(cidr.DeletionTimestamp, metav1.Time{}),
	}
}

func (r serviceRange) contains(address netip.Addr) bool {
	return slices.ContainsFunc(r.prefixes, func(p netip.Prefix) bool { return containsAddress(p, address) })
}

// protects reports whether the addresses of another ServiceCIDR that is being deleted may rely on this
// one. That takes the finalizer: without it, this one is gone as soon as it is deleted, or another finalizer goes.
// If both are being deleted, only the one that was deleted first may rely on the other, by name if both
// were deleted in the same second: the request that releases it may be on its way for long, decided before the other
// one was deleted.
func (r serviceRange) protects(other serviceRange) bool {
	if r.name == other.name || !r.guarded {
		return false
	}
	return !r.deleting || cmp.Or(r.since.Compare(other.since.Time), cmp.Compare(r.name, other.name)) > 0
}

// protectorsOf returns the ServiceCIDRs that the addresses of r may rely on.
func protectorsOf(r serviceRange, all []serviceRange) []serviceRange {
	var others []serviceRange
	for _, other := range all {
		if other.protects(r) {
			others = append(others, other)
		}
	}
	return others
}

// includes reports whether all contains each of some ServiceCIDRs, with the same ranges.
func includes(all, some []serviceRange) bool {
	return !slices.ContainsFunc(some, func(one serviceRange) bool {
		return !slices.ContainsFunc(all, func(other serviceRange) bool {
			return other.name == one.name && slices.Equal(other.prefixes, one.prefixes)
		})
	})
}

// isCovered reports whether each range of a ServiceCIDR is part of a range of another one. If so, no
// address depends on the ServiceCIDR.
func (r serviceRange) isCovered(others []serviceRange) bool {
	return !slices.ContainsFunc(r.prefixes, func(p netip.Prefix) bool {
		return !slices.ContainsFunc(others, func(other serviceRange) bool {
			return slices.ContainsFunc(other.prefixes, func(whole netip.Prefix) bool { return containsPrefix(whole, p) })
		})
	})
}

// holds reports whether an address would be left without a range if the ServiceCIDR were removed.
func (r serviceRange) holds(address netip.Addr, others []serviceRange) bool {
	return r.contains(address) && !slices.ContainsFunc(others, func(other serviceRange) bool {
		return other.contains(address)
	})
}

// families returns the distinct IP families of the ranges.
func (r serviceRange) families() []corev1.IPFamily {
	var all []corev1.IPFamily
	for _, p := range r.prefixes {
		if family := familyOf(p.Addr()); !slices.Contains(all, family) {
			all = append(all, family)
		}
	}
	return all
}

func familyOf(address netip.Addr) corev1.IPFamily {
	if address.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// ranges stores the ranges of all ServiceCIDRs in the cache.
type ranges struct {
	mu  sync.Mutex
	all map[string]serviceRange // by name
	// deleting is the number of ServiceCIDRs that are being deleted.
	deleting int
}

// show stores the current state of a ServiceCIDR.
func (r *ranges) show(is serviceRange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(is.name)
	r.all[is.name] = is
	if is.deleting {
		r.deleting++
	}
}

// delete removes a ServiceCIDR that no longer exists.
func (r *ranges) delete(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(name)
}

func (r *ranges) forget(name string) {
	if r.all[name].deleting {
		r.deleting--
	}
	delete(r.all, name)
}

// list returns all ServiceCIDRs.
func (r *ranges) list() []serviceRange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.all))
}

// overlapping returns the names of the other ServiceCIDRs that overlap with the given one.
func (r *ranges) overlapping(with serviceRange) []string {
	var names []string
	for _, other := range r.list() {
		overlaps := slices.ContainsFunc(other.prefixes, func(p netip.Prefix) bool {
			return slices.ContainsFunc(with.prefixes, p.Overlaps)
		})
		if overlaps && other.name != with.name {
			names = append(names, other.name)
		}
	}
	return names
}

// deletingWith returns the names of the ServiceCIDRs that are being deleted and contain an
// address.
func (r *ranges) deletingWith(address string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deleting == 0 {
		return nil
	}
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		return nil
	}
	var names []string
	for name, is := range r.all {
		if is.deleting && is.contains(parsed) {
			names = append(names, name)
		}
	}
	return names
}
