package cloud

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// fewNodes is how many nodes are read one by one. More are read by a list of all nodes.
const fewNodes = 5

// unshown finds out whether nodes behind load balancers that the cache no longer shows are gone. A cache may lack nodes
// that exist, and every load balancer would lose them. One that exists is passed to the library and to the provider as
// the API server has it, and is read again after reconcile.RecheckAfter for as long as the cache lacks it: there may be
// no event of its deletion.
type unshown struct {
	live    typedcorev1.NodeInterface
	working context.Context
	clock   clock.WithTicker
	// again is the handler of the library, which queues a node that is deleted.
	again atomic.Pointer[cache.ResourceEventHandler]
	// due has an entry when there are nodes to be read again.
	due chan struct{}

	mu sync.Mutex
	// exists has the nodes that existed when they were read, by name.
	exists map[string]read
	// failed is the last failure.
	failed struct {
		at  time.Time
		err error
	}
}

// read is a node as the API server had it.
type read struct {
	node *corev1.Node
	at   time.Time
}

func newUnshown(s *Session) *unshown {
	return &unshown{
		live: s.Client.CoreV1().Nodes(), working: s.guard.working, clock: s.Clock,
		due: make(chan struct{}, 1), exists: map[string]read{},
	}
}

// find returns those nodes of the names that exist. A failure is the answer to all calls within the next second,
// as there may be thousands of Services.
func (u *unshown) find(names []string) ([]*corev1.Node, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.clock.Now()
	var unknown []string
	for _, name := range names {
		if was, ok := u.exists[name]; !ok || now.Sub(was.at) >= reconcile.RecheckAfter {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		if err := u.read(unknown, now); err != nil {
			return nil, err
		}
	}
	var nodes []*corev1.Node
	for _, name := range names {
		if is, ok := u.exists[name]; ok {
			nodes = append(nodes, is.node)
		}
	}
	return nodes, nil
}

// read reads nodes.
func (u *unshown) read(names []string, now time.Time) error {
	if u.failed.err != nil && now.Sub(u.failed.at) < recheck {
		return u.failed.err
	}
	live, err := u.list(names)
	if err != nil {
		u.failed.at, u.failed.err = u.clock.Now(), fmt.Errorf("reading nodes that the cache does not show: %w", err)
		return u.failed.err
	}
	u.failed.err = nil
	byName := make(map[string]*corev1.Node, len(live))
	for i := range live {
		byName[live[i].Name] = &live[i]
	}
	for _, name := range names {
		was, known := u.exists[name]
		delete(u.exists, name)
		node, exists := byName[name]
		if !exists {
			if known { // there may be no event, and other Services have not been updated
				u.deleted(was.node)
			}
			continue
		}
		if !known {
			klog.FromContext(u.working).Info("Keeping a node behind load balancers: it exists, but the cache does not show it",
				"node", klog.KObj(node))
		}
		u.exists[name] = read{node.DeepCopy(), now}
		select {
		case u.due <- struct{}{}:
		default:
		}
	}
	return nil
}

// list lists nodes, and possibly others. The role of the controller permits lists only.
func (u *unshown) list(names []string) ([]corev1.Node, error) {
	if len(names) > fewNodes {
		all, err := u.live.List(u.working, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return all.Items, nil
	}
	var nodes []corev1.Node
	for _, name := range names {
		only := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		one, err := u.live.List(u.working, metav1.ListOptions{FieldSelector: only})
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, one.Items...)
	}
	return nodes, nil
}

// shown records that the cache shows all nodes that there were.
func (u *unshown) shown() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.exists)
}

// RecheckHosts is the part of a controller of load balancers that has the library list the nodes again while there are
// some that the cache does not show.
func (s *Session) RecheckHosts(ctx context.Context) error {
	u := s.guard.unshown
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-u.due:
		}
		timer := u.clock.NewTimer(reconcile.RecheckAfter)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
			u.relist()
		}
	}
}

// relist has the library list the nodes, if any is still to be read again.
func (u *unshown) relist() {
	if node := u.any(); node != nil {
		u.deleted(node)
	}
}

// deleted has the library list the nodes, as when a node is deleted.
func (u *unshown) deleted(node *corev1.Node) {
	if handler := u.again.Load(); handler != nil {
		(*handler).OnDelete(node)
	}
}

// any returns a node that existed when it was read, nil if there is none.
func (u *unshown) any() *corev1.Node {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, is := range u.exists {
		return is.node
	}
	return nil
}
