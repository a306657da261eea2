package nodeipam

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	netutils "k8s.io/utils/net"

	"kcmd.dev/pkg/controllers/kit/writes"
)

// ranges records who holds which blocks of the ranges of the cluster, and who waits for one.
// It is safe for concurrent use.
type ranges struct {
	metrics controllerMetrics
	retry   func(node string)

	mu   sync.Mutex
	sets []*blockSet
	// holdings are those of the incarnations of a node by its name; rarely of more than one.
	holdings map[string][]holding
	waiting  waiting
}

// incarnation is one of successive nodes with the same name.
type incarnation struct {
	name string
	uid  types.UID
}

func incarnationOf(node *corev1.Node) incarnation { return incarnation{node.Name, node.UID} }

// holding is what an incarnation of a node holds.
type holding struct {
	incarnation
	prefixes []netip.Prefix
	// former are those that may have been written before, when the ranges of the cluster were others.
	former []netip.Prefix
	// shown is set once the cache has shown them.
	shown bool
	// written is when they were written to the node; zero if that is not known to have happened.
	written time.Time
	// unknown is set if they may have been written, since a write had no answer.
	unknown bool
}

// awaited reports whether the cache is to show soon what was written.
func (h holding) awaited(now time.Time) bool {
	return h.shown || !h.written.IsZero() && now.Sub(h.written) < writes.Timeout
}

// isUnsettled reports whether the prefixes may be those of the node.
func (h holding) isUnsettled() bool { return h.unknown || !h.written.IsZero() }

// lose says that the cache does not show the prefixes any more.
func (h *holding) lose() { h.shown, h.written, h.unknown = false, time.Time{}, true }

func (h holding) all() []netip.Prefix { return slices.Concat(h.former, h.prefixes) }

// newRanges returns ranges that call retry with a waiting node for each block that is freed.
// retry must not call back.
func newRanges(sets []*blockSet, m controllerMetrics, retry func(node string)) *ranges {
	for _, s := range sets {
		m.created(s)
	}
	return &ranges{sets: sets, metrics: m, retry: retry, holdings: map[string][]holding{}}
}

// reserve holds, for ever, the blocks that a range overlaps.
func (r *ranges) reserve(p netip.Prefix) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.occupy([]netip.Prefix{p})
}

// observe records the podCIDRs of a node. It returns those that are not a range within that
// of the cluster; blocks that they overlap nevertheless are held.
func (r *ranges) observe(node *corev1.Node) (strange []string) {
	if len(node.Spec.PodCIDRs) == 0 {
		return nil
	}
	prefixes, strange := r.prefixesOf(node.Spec.PodCIDRs)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting.remove(node.Name)
	who := incarnationOf(node)
	i := r.find(who)
	if i >= 0 && slices.Equal(r.holdings[node.Name][i].prefixes, prefixes) {
		r.holdings[node.Name][i].shown = true
		r.dropFormer(who, i)
		return strange
	}
	// Occupied before the others are released, so that blocks in both are never free.
	r.occupy(prefixes)
	if i >= 0 {
		r.drop(who)
	}
	r.add(holding{incarnation: who, prefixes: prefixes, shown: true})
	return strange
}

// prefixesOf parses podCIDRs, as leniently as the API server does. It also returns those that are not a
// range within that of the cluster.
func (r *ranges) prefixesOf(cidrs []string) (prefixes []netip.Prefix, strange []string) {
	for _, cidr := range cidrs {
		_, parsed, err := netutils.ParseCIDRSloppy(cidr)
		if err != nil {
			strange = append(strange, cidr)
			continue
		}
		address, _ := netip.AddrFromSlice(parsed.IP)
		bits, _ := parsed.Mask.Size()
		prefixes = append(prefixes, netip.PrefixFrom(address, bits))
	}
	for _, p := range prefixes {
		if !slices.ContainsFunc(r.sets, func(s *blockSet) bool { return s.cluster.Overlaps(p) }) {
			strange = append(strange, p.String())
		}
	}
	return prefixes, strange
}

// choose returns the blocks to write to a node without podCIDRs: those that it holds already,
// or free ones, which it holds from now on. There are none if they have been written. What may have been written out of
// other ranges stays held.
func (r *ranges) choose(who incarnation, now time.Time) ([]netip.Prefix, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var former []netip.Prefix
	i := r.find(who)
	if i >= 0 {
		held := r.holdings[who.name][i]
		switch {
		case held.awaited(now):
			return nil, nil
		case r.fit(held.prefixes):
			return held.prefixes, nil
		case held.isUnsettled(): // chosen by a predecessor, out of other ranges
			former = held.all()
		default:
			r.drop(who)
			i = -1
		}
	}
	prefixes, rest, err := r.take(former)
	if err != nil {
		r.waiting.add(who.name)
		return nil, err
	}
	r.waiting.remove(who.name)
	if i >= 0 {
		r.holdings[who.name][i] = holding{incarnation: who, prefixes: prefixes, former: rest, unknown: true}
	} else {
		r.add(holding{incarnation: who, prefixes: prefixes})
	}
	return prefixes, nil
}

// take returns a block of each set that no other holds: one that a node holds already, or else one that it holds from
// now on. There is one of each set, or none at all. rest is what else the node holds.
func (r *ranges) take(own []netip.Prefix) (taken, rest []netip.Prefix, err error) {
	taken, rest = make([]netip.Prefix, len(r.sets)), slices.Clone(own)
	for i, s := range r.sets {
		if n := slices.IndexFunc(rest, func(p netip.Prefix) bool { return s.gives(p) && s.isFreeBut(rest, p) }); n >= 0 {
			taken[i] = rest[n]
			rest = slices.Delete(rest, n, n+1)
			continue
		}
		full := false
		s.without(rest, func() { full = s.used == s.size })
		if full {
			return nil, nil, fmt.Errorf("failed to allocate cidr from cluster cidr at idx:%d: %w", i, errFull)
		}
	}
	for i, s := range r.sets {
		if taken[i].IsValid() {
			continue
		}
		used, passed := s.used, 0
		s.without(rest, func() { taken[i], passed = s.take() })
		r.metrics.passed(s, passed)
		r.metrics.changed(s, s.used-used, 0)
	}
	return taken, rest, nil
}

// firstFull returns the first set in which no block is free, negative if there is none.
func (r *ranges) firstFull() int {
	return slices.IndexFunc(r.sets, func(s *blockSet) bool { return s.used == s.size })
}

// fit reports whether blocks are one of each set, in their order.
func (r *ranges) fit(prefixes []netip.Prefix) bool {
	if len(prefixes) != len(r.sets) {
		return false
	}
	for i, p := range prefixes {
		if !r.sets[i].gives(p) {
			return false
		}
	}
	return true
}

// wrote records that the blocks of a node have been written to it. So no others have been, or can be any more.
func (r *ranges) wrote(who incarnation, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := r.find(who); i >= 0 {
		r.holdings[who.name][i].written = now
		r.dropFormer(who, i)
	}
}

// unsure records that the blocks of a node may have been written to it.
func (r *ranges) unsure(who incarnation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := r.find(who); i >= 0 {
		r.holdings[who.name][i].unknown = true
	}
}

// lost records that the cache does not show the podCIDRs of a node any more: a list lacked the node, or the node has
// lost them, which only a restore of the cluster from a backup does to it. It holds them still, and is given them again
// if it has none.
func (r *ranges) lost(who incarnation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := r.find(who); i >= 0 {
		r.holdings[who.name][i].lose()
	}
}

// settled reports whether nothing is to be done for a node without podCIDRs: they have been
// written, or it waits for a block.
func (r *ranges) settled(who incarnation, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.find(who)
	return i >= 0 && r.holdings[who.name][i].awaited(now) || r.waiting.has(who.name)
}

// refused frees the blocks whose write to a node was refused, unless an earlier write of them may have
// been executed: only the node itself tells.
func (r *ranges) refused(who incarnation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.find(who)
	if i < 0 {
		return
	}
	if h := r.holdings[who.name][i]; !h.shown && !h.unknown && h.written.IsZero() {
		r.drop(who)
	}
}

// abandon frees the blocks that were chosen for a node that is gone.
func (r *ranges) abandon(who incarnation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := r.find(who); i >= 0 && !r.holdings[who.name][i].shown {
		r.drop(who)
	}
}

// passOn retries another node that waits, if blocks are free: the node that may have been
// retried for them needs none.
func (r *ranges) passOn(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting.remove(name)
	if r.firstFull() >= 0 {
		return
	}
	if next, ok := r.waiting.pop(); ok {
		r.retry(next)
	}
}

// gone frees the blocks of a node that has been deleted.
func (r *ranges) gone(who incarnation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.find(who) >= 0 {
		r.drop(who)
	}
	if len(r.holdings[who.name]) == 0 {
		r.waiting.remove(who.name)
	}
}

// unshown are the incarnations of a name, other than that with the UID, that hold blocks which
// the cache has not shown.
func (r *ranges) unshown(name string, except types.UID) []incarnation {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []incarnation
	for _, h := range r.holdings[name] {
		if !h.shown && h.uid != except {
			all = append(all, h.incarnation)
		}
	}
	return all
}

func (r *ranges) find(who incarnation) int {
	return slices.IndexFunc(r.holdings[who.name], func(h holding) bool { return h.uid == who.uid })
}

func (r *ranges) add(h holding) { r.holdings[h.name] = append(r.holdings[h.name], h) }

// occupy adds a holder of blocks.
func (r *ranges) occupy(prefixes []netip.Prefix) {
	for _, s := range r.sets {
		for _, p := range prefixes {
			r.metrics.changed(s, s.occupy(p), 0)
		}
	}
}

// drop removes the existing holding of an incarnation, and retries waiting nodes.
func (r *ranges) drop(who incarnation) {
	all, i := r.holdings[who.name], r.find(who)
	released := all[i].all()
	if all = slices.Delete(all, i, i+1); len(all) == 0 {
		delete(r.holdings, who.name)
	} else {
		r.holdings[who.name] = all
	}
	r.release(released)
}

// dropFormer removes what a holding has besides its prefixes, and retries waiting nodes.
func (r *ranges) dropFormer(who incarnation, i int) {
	h := &r.holdings[who.name][i]
	former := h.former
	h.former = nil
	r.release(former)
}

// release undoes one occupy, and retries waiting nodes.
func (r *ranges) release(prefixes []netip.Prefix) {
	freed := 0
	for _, s := range r.sets {
		for _, p := range prefixes {
			n := s.release(p)
			r.metrics.changed(s, 0, n)
			freed += n
		}
	}
	for ; freed > 0; freed-- {
		name, ok := r.waiting.pop()
		if !ok {
			return
		}
		r.retry(name)
	}
}
