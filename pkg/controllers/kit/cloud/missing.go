package cloud

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// A node that the cache no longer shows stays a host until a live list confirms that it is gone:
//
//  1. The library does not get the event of its deletion yet (hostHandler). It goes on with the host as it was, and the
//     provider with the node as it was last seen, so that nothing happens to any Service.
//  2. One goroutine confirms it (ConfirmHosts). The library gets the event if the node is gone, or no longer serves.
//  3. A node that exists is kept as the API server has it, and read again after reconcile.RecheckAfter for as long as
//     the cache lacks it: there may be no event of its deletion. So it is when the list fails.
//  4. The next instance takes the hosts over, and confirms that those are gone that its cache lacks.

// missing is a node that the cache no longer shows.
type missing struct {
	// node is the node as it was last seen, nil if that is not known.
	node *corev1.Node
	// exists is whether a live list has shown it since.
	exists bool
}

// hostHandler keeps events of deletion from the library.
type hostHandler struct {
	cache.ResourceEventHandler
	hosts *hosts
}

// OnDelete implements cache.ResourceEventHandler.
func (h hostHandler) OnDelete(obj any) {
	last := obj
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		last = tombstone.Obj
	}
	if node, ok := last.(*corev1.Node); !ok || !h.hosts.miss(node) {
		h.ResourceEventHandler.OnDelete(obj)
	}
}

// miss has it confirmed that a host is gone of whose name a node was deleted. It returns false if there is none, or
// none that load balancers still have.
func (h *hosts) miss(node *corev1.Node) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	host, known := h.known[node.Name]
	if !known {
		return false
	}
	// This may be the late event of a former node, or that of a later one that was never listed.
	isHost := host.UID == node.UID
	if isHost && !serves(node) || !isHost && !serves(host.Node) {
		h.forget(node.Name)
		return false
	}
	if was, ok := h.missing[node.Name]; isHost {
		h.hostFor(node)
		h.missing[node.Name] = missing{node: node}
	} else if !ok {
		h.missing[node.Name] = was
	}
	h.confirmSoon()
	return true
}

// leftHost is a host of a former instance, and the node as it was last seen, nil if that is not known.
type leftHost struct {
	host
	last *corev1.Node
}

// leave returns the hosts by name.
func (h *hosts) leave() map[string]leftHost {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := make(map[string]leftHost, len(h.known))
	for name, host := range h.known {
		last, err := h.Get(name)
		if err != nil {
			last = h.missing[name].node
		}
		left[name] = leftHost{host, last}
	}
	return left
}

// inherit makes the hosts of a former instance known. Those that the cache lacks are missing.
func (h *hosts) inherit(left map[string]leftHost) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, is := range left {
		if !serves(is.Node) {
			continue
		}
		h.known[name] = is.host
		if _, err := h.Get(name); err != nil {
			h.missing[name] = missing{node: is.last}
			h.confirmSoon()
		}
	}
}

// confirmSoon wakes ConfirmHosts up.
func (h *hosts) confirmSoon() {
	select {
	case h.due <- struct{}{}:
	default:
	}
}

// forget forgets a host. The lock is held.
func (h *hosts) forget(name string) {
	delete(h.known, name)
	delete(h.missing, name)
}

// ConfirmHosts is the part of a controller of load balancers that confirms that nodes are gone.
func (s *Session) ConfirmHosts(ctx context.Context) error {
	h := s.guard.hosts
	due, again := h.due, (<-chan time.Time)(nil) // one of them is nil
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-due:
		case <-again:
		}
		due, again = h.due, nil
		if h.confirm(ctx) { // the next read is for all that are missing by then
			due, again = nil, h.clock.After(reconcile.RecheckAfter)
		}
	}
}

// confirm reads the nodes that are missing, and passes on to the library what has become of them. It reports whether
// any is still missing.
func (h *hosts) confirm(ctx context.Context) bool {
	names := h.lacking()
	if len(names) == 0 {
		return false
	}
	live, err := h.read(ctx, names)
	switch {
	case err != nil && ctx.Err() != nil:
		return false
	case err != nil:
		klog.FromContext(ctx).Error(err, "Keeping nodes behind load balancers: it is not known whether they are gone",
			"nodes", names)
		return true
	}
	for _, name := range names {
		h.settle(ctx, name, live[name])
	}
	return len(h.lacking()) > 0
}

// lacking returns the names of the missing nodes. Those that the cache shows again are not missing.
func (h *hosts) lacking() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range h.missing {
		if _, err := h.Get(name); err == nil {
			delete(h.missing, name)
		}
	}
	return slices.Sorted(maps.Keys(h.missing))
}

// fewNodes is how many nodes are read one by one. More are read by a list of all nodes.
const fewNodes = 5

// read returns the nodes of the names that exist, and possibly others. The role of the controller permits lists only.
func (h *hosts) read(ctx context.Context, names []string) (map[string]*corev1.Node, error) {
	only := []metav1.ListOptions{{}}
	if len(names) <= fewNodes {
		only = only[:0]
		for _, name := range names {
			selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
			only = append(only, metav1.ListOptions{FieldSelector: selector})
		}
	}
	live := map[string]*corev1.Node{}
	for _, options := range only {
		list, err := h.live.List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			live[list.Items[i].Name] = &list.Items[i]
		}
	}
	return live, nil
}

// settle passes on to the library what has become of a missing node, nil if it is gone.
func (h *hosts) settle(ctx context.Context, name string, is *corev1.Node) {
	was, isNew := h.record(name, is)
	switch {
	case was == nil:
		return
	case is == nil || !serves(is):
		h.library.OnDelete(was)
		return
	case isNew:
		klog.FromContext(ctx).Info("Keeping a node behind load balancers: it exists, but the cache does not show it",
			"node", klog.KObj(is))
	}
	h.library.OnUpdate(was, is)
}

// record records what has become of a missing node. It returns the host that it was, and whether it was not known
// before that the node exists; nil if it is not missing any more.
func (h *hosts) record(name string, is *corev1.Node) (was *corev1.Node, isNew bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	state, ok := h.missing[name]
	if _, err := h.Get(name); !ok || err == nil {
		return nil, false
	}
	was = h.known[name].Node
	if is == nil || !serves(is) {
		h.forget(name)
		return was, false
	}
	is = is.DeepCopy() // which does not keep the list
	h.hostFor(is)
	h.missing[name] = missing{is, true}
	return was, !state.exists
}
