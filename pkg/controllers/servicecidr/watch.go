package servicecidr

import (
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// allocator is the managed-by label of the addresses that API servers allocate.
const allocator = "ipallocator.k8s.io"

// watch enqueues ServiceCIDRs. A new ServiceCIDR, or one with new ranges or that has got the finalizer, may release
// others that overlap with it, so watch enqueues these too. An address event enqueues the ServiceCIDRs that contain the
// address and are being deleted.
func (c *cidrController) watch(cidrs, addresses cache.SharedIndexInformer) {
	watch.Objects(cidrs, watch.Funcs[*networkingv1.ServiceCIDR]{
		Add:    c.addCIDR,
		Update: c.updateCIDR,
		Delete: c.deleteCIDR,
	})
	watch.ObjectsEvery(addresses, 0, watch.Funcs[*metav1.PartialObjectMetadata]{
		Add:    c.addAddress,
		Delete: c.addressChanged,
	})
}

func (c *cidrController) addCIDR(lane reconcile.Lane, cidr *networkingv1.ServiceCIDR) {
	is := rangeOf(cidr)
	c.ranges.show(is)
	c.queue.Enqueue(lane, cidr.Name)
	for _, name := range c.ranges.overlapping(is) {
		c.queue.Enqueue(lane, name)
	}
}

func (c *cidrController) updateCIDR(lane reconcile.Lane, old, cidr *networkingv1.ServiceCIDR) {
	was, is := rangeOf(old), rangeOf(cidr)
	isOther := old.UID != cidr.UID || !slices.Equal(was.prefixes, is.prefixes) // seen as one update if it was recreated
	if isOther || is.guarded && !was.guarded {
		c.addCIDR(lane, cidr)
		return
	}
	c.ranges.show(is)
	c.queue.Enqueue(lane, cidr.Name)
}

func (c *cidrController) deleteCIDR(cidr *networkingv1.ServiceCIDR) {
	c.ranges.delete(cidr.Name)
	c.queue.Enqueue(reconcile.Gone(cidr), cidr.Name)
}

// addAddress ignores replayed addresses, because the informer replays every ServiceCIDR too.
func (c *cidrController) addAddress(lane reconcile.Lane, address *metav1.PartialObjectMetadata) {
	if !lane.IsBacklog() {
		c.addressChanged(address)
	}
}

func (c *cidrController) addressChanged(address *metav1.PartialObjectMetadata) {
	if address.Labels[networkingv1.LabelManagedBy] != allocator {
		return
	}
	for _, name := range c.ranges.deletingWith(address.Name) {
		c.queue.Enqueue(reconcile.Fresh, name)
	}
}
