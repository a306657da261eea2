package servicecidr

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// notice is how long an API server allocates from a ServiceCIDR that is being deleted: less than grace, of which the
// time of the deletion, in whole seconds, may take one.
const notice = 8 * time.Second

// ranges that users choose from. Some are part of others.
var chosen = [][]string{
	{"10.0.0.0/29"}, {"10.0.0.8/29"}, {"10.0.0.0/28"}, {"10.0.0.0/28"}, {"10.0.0.0/29", "fd00::/125"}, {"fd00::/124"},
}

// model is a world in which API servers allocate addresses from ServiceCIDRs.
type model struct {
	*simulation.World
	t *testing.T
}

// coverage returns the ServiceCIDRs that an address can be allocated from, except for one.
func (m *model) coverage(address *networkingv1.IPAddress, but string) (all []*networkingv1.ServiceCIDR) {
	for _, cidr := range simulation.All[*networkingv1.ServiceCIDR](m.World) {
		if cidr.Name != but && rangeOf(cidr).contains(netip.MustParseAddr(address.Name)) {
			all = append(all, cidr)
		}
	}
	return all
}

// validate checks that a ServiceCIDR is released only if no address loses its range with it.
func (m *model) validate(old, new runtime.Object) error {
	was, is := old.(*networkingv1.ServiceCIDR), new.(*networkingv1.ServiceCIDR)
	if was.DeletionTimestamp == nil || !finalizer.Blocks(was) || finalizer.Blocks(is) {
		return nil
	}
	for _, address := range simulation.All[*networkingv1.IPAddress](m.World) {
		isIn := rangeOf(was).contains(netip.MustParseAddr(address.Name))
		if isIn && len(m.coverage(address, was.Name)) == 0 {
			m.t.Errorf("%s is released, and %s has no range any more", was.Name, address.Name)
		}
	}
	return nil
}

// allocate has an API server allocate an address, or release one.
func (m *model) allocate() {
	all := simulation.All[*networkingv1.IPAddress](m.World)
	if len(all) > 0 && m.OneIn(2) {
		m.Delete(all[m.Rand.IntN(len(all))], nil)
		return
	}
	for _, cidr := range simulation.All[*networkingv1.ServiceCIDR](m.World) {
		isOpen := cidr.DeletionTimestamp == nil || m.Clock.Since(cidr.DeletionTimestamp.Time) < notice
		if !has(cidr, ready) || !isOpen || !m.OneIn(3) {
			continue
		}
		prefixes := rangeOf(cidr).prefixes
		prefix := prefixes[m.Rand.IntN(len(prefixes))]
		address := prefix.Addr()
		for range 1 + m.Rand.IntN(6) {
			address = address.Next()
		}
		if _, taken := simulation.Get[*networkingv1.IPAddress](m.World, "", address.String()); !taken {
			m.Note("an address of %s", cidr.Name)
			m.Create(newAddress(address.String(), familyOf(address), allocator))
		}
		return
	}
}

func (m *model) user() {
	name := fmt.Sprint("range", m.Rand.IntN(4))
	cidr, ok := simulation.Get[*networkingv1.ServiceCIDR](m.World, "", name)
	switch {
	case !ok:
		m.Create(&networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       networkingv1.ServiceCIDRSpec{CIDRs: chosen[m.Rand.IntN(len(chosen))]},
		})
	case cidr.Spec.CIDRs[0] == "10.0.0.0/28" && len(cidr.Spec.CIDRs) == 1 && m.OneIn(4):
		m.Note("user adds a family to %s", name)
		simulation.Change(m.World, cidr, func(c *networkingv1.ServiceCIDR) {
			c.Spec.CIDRs = []string{"10.0.0.0/28", "fd00::/125"}
		})
	default:
		m.Delete(cidr, nil)
	}
}

// TestWhateverHappensNoAddressLosesItsRange has ServiceCIDRs deleted and created again while addresses come and go,
// requests fail and the controller restarted, while the caches are behind, or lack objects.
func TestWhateverHappensNoAddressLosesItsRange(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		m := &model{World: w, t: t}
		w.Validate = m.validate
		w.Start = func(env controller.Env, _ any) simulation.Instance {
			c := must.Get(newController(env))(t)
			queue := simulation.NewQueue(w, c.reconcile)
			c.queue = queue
			return simulation.Instance{Runners: []simulation.Runner{queue}}
		}
		for range 3 {
			m.user()
		}
		w.MayComeLate = simulation.AnyWrite
		w.Begin()
		w.Hasty = []int{0, 3}[w.Rand.IntN(2)]
		w.MayBeLossy(3)
		w.Play(func() {
			m.allocate()
			if w.OneIn(3) {
				m.user()
			}
		}, m.user)
		w.Drain()
		w.Settle(time.Minute, nil)
		m.check()
	})
}

// check checks that what is deleted stays if and only if an address needs it, and that everything else is ready.
func (m *model) check() {
	addresses := simulation.All[*networkingv1.IPAddress](m.World)
	for _, address := range addresses {
		if len(m.coverage(address, "")) == 0 {
			m.t.Errorf("%s has no range", address.Name)
		}
	}
	for _, cidr := range simulation.All[*networkingv1.ServiceCIDR](m.World) {
		if cidr.DeletionTimestamp == nil {
			if finalizer.IsMissing(cidr) || !has(cidr, ready) {
				m.t.Errorf("%s is not ready: %+v", cidr.Name, cidr)
			}
			continue
		}
		isNeeded := false
		for _, address := range addresses {
			isIn := rangeOf(cidr).contains(netip.MustParseAddr(address.Name))
			for _, other := range m.coverage(address, cidr.Name) {
				isIn = isIn && other.DeletionTimestamp != nil
			}
			isNeeded = isNeeded || isIn
		}
		if !isNeeded || !has(cidr, terminating) {
			m.t.Errorf("%s stays: %+v", cidr.Name, cidr)
		}
	}
}
