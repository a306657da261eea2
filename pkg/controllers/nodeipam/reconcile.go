package nodeipam

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/requests"
)

// tries is how often a write is tried before the key is retried with backoff.
const tries = 3

func (c *ipamController) reconcile(ctx context.Context, name string) error {
	node, found, err := reconcile.Found(c.nodes.Get(name))
	if err != nil {
		return err
	}
	var uid types.UID
	if found {
		uid = node.UID
	}
	if err := c.forget(ctx, name, uid); err != nil {
		return err
	}
	switch {
	case !found, node.DeletionTimestamp != nil:
		c.ranges.passOn(name)
		return nil
	case len(node.Spec.PodCIDRs) > 0:
		// The handlers have recorded them, or will. Here the node may be gone meanwhile, and what is recorded
		// after that would never be freed.
		if _, strange := c.ranges.prefixesOf(node.Spec.PodCIDRs); len(strange) > 0 {
			klog.FromContext(ctx).Info("Node has pod ranges that are not of the cluster", "node", name, "podCIDRs", strange)
		}
		c.ranges.passOn(name)
		return nil
	}
	blocks, err := c.ranges.choose(incarnationOf(node), c.Clock.Now())
	switch {
	case err != nil:
		c.Record(notAvailable(node))
		return err
	case len(blocks) == 0:
		return nil
	}
	return c.assign(ctx, node, blocks)
}

// forget frees what is held by incarnations of a node that the cache does not show with podCIDRs, other than the cached
// one, after a live read. They are rare: see rule 5. If one of them exists, it is read again later: it may be deleted
// before the cache has shown it, without an event.
func (c *ipamController) forget(ctx context.Context, name string, cached types.UID) error {
	unshown := c.ranges.unshown(name, cached)
	if len(unshown) == 0 {
		return nil
	}
	var lives types.UID
	node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		lives = node.UID
	case !controller.Absent(err):
		return fmt.Errorf("checking whether node %s exists: %w", name, err)
	}
	for _, who := range unshown {
		if who.uid != lives {
			c.ranges.abandon(who)
		} else {
			c.queue.AddAfter(name, reconcile.RecheckAfter)
		}
	}
	return nil
}

// assign writes the blocks that have been chosen for a node to it.
func (c *ipamController) assign(ctx context.Context, node *corev1.Node, blocks []netip.Prefix) error {
	body, err := patchOf(node.UID, blocks)
	if err != nil {
		return err
	}
	who, nodes := incarnationOf(node), c.Client.CoreV1().Nodes()
	for range tries {
		_, err = nodes.Patch(ctx, node.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{})
		if err == nil {
			c.ranges.wrote(who, c.Clock.Now())
			klog.FromContext(ctx).V(2).Info("Gave node its pod ranges", "node", node.Name, "podCIDRs", blocks)
			return nil
		}
		if apierrors.IsNotFound(err) {
			// The cache will show that it is gone, unless this is the answer of an admission webhook.
			c.ranges.refused(who)
			c.queue.AddAfter(node.Name, reconcile.RecheckAfter)
			return nil
		}
		if apierrors.IsConflict(err) {
			// Another node has its name, as the cache will show, or others change this one.
			c.ranges.refused(who)
			return fmt.Errorf("giving node %s the pod ranges %v: %w", node.Name, blocks, err)
		}
		if !requests.IsRefusal(err) {
			c.ranges.unsure(who)
		}
	}
	c.RecordFailure(ctx, assignmentFailed(node))
	c.ranges.refused(who)
	return fmt.Errorf("giving node %s the pod ranges %v: %w", node.Name, blocks, err)
}

type patch struct {
	Metadata patchMetadata `json:"metadata"`
	Spec     patchSpec     `json:"spec"`
}

type patchMetadata struct {
	UID types.UID `json:"uid"`
}

type patchSpec struct {
	PodCIDR  string   `json:"podCIDR"`
	PodCIDRs []string `json:"podCIDRs"`
}

// patchOf is the strategic merge patch that gives a node its ranges. It has no resource version:
// the status of a node changes often, and its podCIDRs at most once.
func patchOf(uid types.UID, blocks []netip.Prefix) ([]byte, error) {
	spec := patchSpec{PodCIDR: blocks[0].String()}
	for _, block := range blocks {
		spec.PodCIDRs = append(spec.PodCIDRs, block.String())
	}
	body, err := json.Marshal(patch{patchMetadata{uid}, spec})
	if err != nil {
		return nil, fmt.Errorf("encoding the pod ranges of a node: %w", err)
	}
	return body, nil
}
