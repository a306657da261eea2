package servicecidr

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// pageSize is the page size of live lists.
const pageSize = 500

// allocated selects the addresses of an IP family that API servers have allocated.
func allocated(family corev1.IPFamily) labels.Selector {
	return labels.SelectorFromSet(labels.Set{
		networkingv1.LabelIPAddressFamily: string(family), networkingv1.LabelManagedBy: allocator,
	})
}

// holders caches, by the name of each ServiceCIDR, one address that blocks its deletion. As long as that address still
// blocks it, the others are not examined: every address that is allocated or released triggers a reconcile of its
// ServiceCIDR, and a range can contain a million addresses.
type holders struct {
	mu     sync.Mutex
	byCIDR map[string]string
}

func (h *holders) of(cidr string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byCIDR[cidr]
}

// set caches an address for a ServiceCIDR. An empty address removes the entry.
func (h *holders) set(cidr, address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if address == "" {
		delete(h.byCIDR, cidr)
		return
	}
	h.byCIDR[cidr] = address
}

// held reports whether the caches contain an address that would be left without a range if the
// ServiceCIDR were removed.
func (c *cidrController) held(r serviceRange) (bool, error) {
	others := protectorsOf(r, c.ranges.list())
	if r.isCovered(others) {
		return false, nil
	}
	if c.stillHolds(r, c.holders.of(r.name), others) {
		return true, nil
	}
	holder, err := c.holder(r, others)
	if err != nil {
		return false, err
	}
	c.holders.set(r.name, holder)
	return holder != "", nil
}

// stillHolds reports whether the cache has an address, and it holds the ServiceCIDR.
func (c *cidrController) stillHolds(r serviceRange, name string, others []serviceRange) bool {
	cached, err := c.addresses.Get(name)
	if err != nil {
		return false
	}
	address, err := meta.Accessor(cached)
	if err != nil {
		return false
	}
	set := labels.Set(address.GetLabels())
	isAllocated := func(family corev1.IPFamily) bool { return allocated(family).Matches(set) }
	return slices.ContainsFunc(r.families(), isAllocated) && holds(r, name, others)
}

// holder returns the name of an address in the cache that holds the ServiceCIDR, empty if none does.
func (c *cidrController) holder(r serviceRange, others []serviceRange) (string, error) {
	for _, family := range r.families() {
		addresses, err := c.addresses.List(allocated(family))
		if err != nil {
			return "", err
		}
		for _, address := range addresses {
			if name := nameOf(address); holds(r, name, others) {
				return name, nil
			}
		}
	}
	return "", nil
}

// heldLive is like held, but lists ServiceCIDRs and addresses from the API server.
func (c *cidrController) heldLive(ctx context.Context, cidr *networkingv1.ServiceCIDR) (bool, error) {
	r, others, err := c.liveRanges(ctx, cidr)
	if err != nil || r.isCovered(others) {
		return false, err
	}
	for _, family := range r.families() {
		if held, err := c.anyHolds(ctx, r, family, others); held || err != nil {
			return held, err
		}
	}
	// Listing addresses can take longer than grace, and a ServiceCIDR that was deleted meanwhile may be gone.
	_, now, err := c.liveRanges(ctx, cidr)
	if err == nil && !includes(now, others) {
		err = reconcile.Requeue(errors.New("a ServiceCIDR that it relied on was deleted or changed meanwhile"))
	}
	return false, err
}

// liveRanges lists ServiceCIDRs from the API server. It returns one of them as listed, and those that its addresses may
// rely on.
func (c *cidrController) liveRanges(
	ctx context.Context, cidr *networkingv1.ServiceCIDR,
) (r serviceRange, others []serviceRange, err error) {
	cidrs, err := c.Client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return serviceRange{}, nil, err
	}
	r = rangeOf(cidr)
	all := make([]serviceRange, len(cidrs.Items))
	for i := range cidrs.Items {
		all[i] = rangeOf(&cidrs.Items[i])
		if cidrs.Items[i].UID == cidr.UID {
			r = all[i]
		}
	}
	return r, protectorsOf(r, all), nil
}

// anyHolds lists the addresses of an IP family page by page until one holds the ServiceCIDR.
func (c *cidrController) anyHolds(
	ctx context.Context, r serviceRange, family corev1.IPFamily, others []serviceRange,
) (bool, error) {
	options := metav1.ListOptions{Limit: pageSize, LabelSelector: allocated(family).String()}
	for {
		page, err := c.Client.NetworkingV1().IPAddresses().List(ctx, options)
		if err != nil {
			return false, err
		}
		for i := range page.Items {
			if holds(r, page.Items[i].Name, others) {
				return true, nil
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return false, nil
		}
	}
}

// holds calls serviceRange.holds for the name of an IPAddress. An invalid name holds nothing.
func holds(r serviceRange, name string, others []serviceRange) bool {
	address, err := netip.ParseAddr(name)
	if err != nil {
		klog.Background().Info("An IPAddress has a name that is no address", "ipAddress", name)
		return false
	}
	return r.holds(address, others)
}

func nameOf(object runtime.Object) string {
	if o, err := meta.Accessor(object); err == nil {
		return o.GetName()
	}
	return ""
}
