package endpointslicemirroring

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/services/slicewrites"
)

// handover is what an instance leaves to its successor in the same process.
type handover struct {
	unseen   slicewrites.Unseen
	mirrored []types.NamespacedName
}

// nameSet has the names of the Endpoints that were mirrored, here or by a predecessor, until their slices are deleted.
// The cache may lack some of these Endpoints: they are being created again, or gone.
type nameSet struct {
	mu  sync.Mutex
	all sets.Set[types.NamespacedName]
}

func (n *nameSet) add(ids ...types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all.Insert(ids...)
}

func (n *nameSet) forget(id types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all.Delete(id)
}

func (n *nameSet) list() []types.NamespacedName {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all.UnsortedList()
}

// begin takes over the writes of the predecessor that the caches do not show. Endpoints that it mirrored, and that are
// gone, are queued: nobody saw their deletion.
func (c *mirroringController) begin(context.Context) error {
	left, _ := controller.TakeOver(c.Env, c) // nothing if there is no predecessor
	c.mirrored.add(left.mirrored...)
	for _, id := range left.mirrored {
		if _, err := c.endpoints.Endpoints(id.Namespace).Get(id.Name); apierrors.IsNotFound(err) {
			c.queue.Enqueue(reconcile.Backlog, id)
		}
	}
	return c.written.Expect(left.unseen, c.slices)
}

// HandOver implements controller.HandsOver.
func (c *mirroringController) HandOver() handover {
	left := handover{mirrored: c.mirrored.list()}
	unseen, err := c.unseen(left.mirrored)
	if err != nil {
		klog.Background().Error(err, "handing over without the unseen writes to EndpointSlices")
	}
	left.unseen = unseen
	return left
}

// unseen collects the writes that the caches do not show, for the Endpoints in the cache and those of some more names.
func (c *mirroringController) unseen(more []types.NamespacedName) (slicewrites.Unseen, error) {
	endpoints, err := c.endpoints.List(labels.Everything())
	if err != nil {
		return slicewrites.Unseen{}, fmt.Errorf("listing Endpoints: %w", err)
	}
	all := sets.New(more...)
	for _, e := range endpoints {
		all.Insert(reconcile.KeyOf(e))
	}
	return c.written.Unseen(all.UnsortedList(), c.slices)
}
