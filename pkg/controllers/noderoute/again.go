package noderoute

import (
	"context"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	nodeutil "k8s.io/component-helpers/node/util"
)

// again begins another round after one in which something has failed, and when the condition of a node is lost, where
// rounds begin with changes of nodes. The library logs such failures, and waits for the next change of what it reads, or
// for a resync. It queues a round for any event of a node, at most one in ten seconds: again sends it one.
type again struct {
	handler atomic.Pointer[cache.ResourceEventHandler]
	// once sends the event for the round that began last, and is nil before the first one.
	once atomic.Pointer[sync.Once]
}

// check is called with the outcome of each attempt. The library repeats one that ends with a conflict within the round;
// another round follows even if the repetition succeeds.
func (a *again) check(err error) {
	once, handler := a.once.Load(), a.handler.Load()
	if err == nil || once == nil || handler == nil {
		return
	}
	once.Do(func() { (*handler).OnAdd(nil, false) })
}

// nodes returns nodes from which again learns when a round begins, and the handler of the library.
func (a *again) nodes(of coreinformers.NodeInformer) coreinformers.NodeInformer {
	return followedNodes{of, a}
}

type followedNodes struct {
	coreinformers.NodeInformer
	again *again
}

// Informer implements coreinformers.NodeInformer.
func (f followedNodes) Informer() cache.SharedIndexInformer {
	return followedInformer{f.NodeInformer.Informer(), f.again}
}

// Lister implements coreinformers.NodeInformer.
func (f followedNodes) Lister() corelisters.NodeLister {
	return followedLister{f.NodeInformer.Lister(), f.again}
}

type followedInformer struct {
	cache.SharedIndexInformer
	again *again
}

// AddEventHandler implements cache.SharedInformer.
func (f followedInformer) AddEventHandler(
	h cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	f.again.handler.Store(&h)
	return f.SharedIndexInformer.AddEventHandler(conditionHandler{h})
}

// conditionHandler also begins a round when a node loses its condition: a request that is late, or somebody else, may
// have replaced it after the last round.
type conditionHandler struct{ cache.ResourceEventHandler }

// OnUpdate implements cache.ResourceEventHandler.
func (h conditionHandler) OnUpdate(old, new any) {
	h.ResourceEventHandler.OnUpdate(old, new)
	was, okOld := old.(*corev1.Node)
	is, okNew := new.(*corev1.Node)
	if okOld && okNew && isReachable(was) && !isReachable(is) {
		h.OnAdd(is, false)
	}
}

func isReachable(node *corev1.Node) bool {
	_, unavailable := nodeutil.GetNodeCondition(&node.Status, corev1.NodeNetworkUnavailable)
	return unavailable != nil && unavailable.Status == corev1.ConditionFalse
}

type followedLister struct {
	corelisters.NodeLister
	again *again
}

// List implements corelisters.NodeLister. The library lists the nodes once a round, before anything that is checked.
func (f followedLister) List(selector labels.Selector) ([]*corev1.Node, error) {
	f.again.once.Store(&sync.Once{})
	return f.NodeLister.List(selector)
}

// routes returns routes that are checked.
func (a *again) routes(of cloudprovider.Routes) cloudprovider.Routes { return checkedRoutes{of, a} }

type checkedRoutes struct {
	cloudprovider.Routes
	again *again
}

// CreateRoute implements cloudprovider.Routes.
func (r checkedRoutes) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	err := r.Routes.CreateRoute(ctx, cluster, hint, route)
	r.again.check(err)
	return err
}

// DeleteRoute implements cloudprovider.Routes.
func (r checkedRoutes) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	err := r.Routes.DeleteRoute(ctx, cluster, route)
	r.again.check(err)
	return err
}

// client returns a client that checks whether the conditions of nodes are written.
func (a *again) client(of kubernetes.Interface) kubernetes.Interface { return checkedClient{of, a} }

type checkedClient struct {
	kubernetes.Interface
	again *again
}

// CoreV1 implements kubernetes.Interface.
func (c checkedClient) CoreV1() typedcorev1.CoreV1Interface {
	return checkedCore{c.Interface.CoreV1(), c.again}
}

type checkedCore struct {
	typedcorev1.CoreV1Interface
	again *again
}

// Nodes implements typedcorev1.CoreV1Interface.
func (c checkedCore) Nodes() typedcorev1.NodeInterface {
	return checkedNodes{c.CoreV1Interface.Nodes(), c.again}
}

type checkedNodes struct {
	typedcorev1.NodeInterface
	again *again
}

// PatchStatus implements typedcorev1.NodeExpansion.
func (n checkedNodes) PatchStatus(ctx context.Context, name string, data []byte) (*corev1.Node, error) {
	node, err := n.NodeInterface.PatchStatus(ctx, name, data)
	n.again.check(err)
	return node, err
}
