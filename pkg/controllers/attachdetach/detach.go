package attachdetach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/requests"
)

// unconfirmed is why a detach was not requested: the API server does not confirm what was decided from the
// cache, or cannot be reached.
type unconfirmed struct{ error }

// questions are what has to be confirmed by live reads before a volume is detached that nobody wants by the cache.
type questions struct {
	// pods is whether the cache lacks a pod that wants a volume on the node. It is set if no pod was ever seen that
	// wants the volume.
	pods bool
	// users is whether the cache lacks a pod that wants the volume. It is set if the time forces the detach.
	users bool
	// node is whether the node still permits the detach. It is set unless the answer to the last write of the node's
	// status shows that.
	node bool
}

// confirm asks these questions, and returns an unconfirmed error unless the answers permit the detach, and nobody has
// come to want the volume meanwhile.
func (c *attachDetachController) confirm(ctx context.Context, at place, why forced, ask questions) error {
	if ask.pods || ask.users {
		if err := c.confirmPods(ctx, at, ask); err != nil {
			return err
		}
	}
	if ask.users {
		if err := c.confirmWaited(at); err != nil {
			return err
		}
	}
	if ask.node {
		if err := c.confirmNode(ctx, at, why); err != nil {
			return err
		}
	}
	return c.confirmUnwanted(at)
}

// confirmUnwanted returns an unconfirmed error if a pod wants the volume since the detach was decided.
func (c *attachDetachController) confirmUnwanted(at place) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.world.links[at]; l != nil && l.isWanted() {
		return unconfirmed{fmt.Errorf("volume %q is wanted on node %q again", at.volume, at.node)}
	}
	return nil
}

// confirmNode reads the node, and returns an unconfirmed error unless it still permits the detach.
func (c *attachDetachController) confirmNode(ctx context.Context, at place, why forced) error {
	node, err := c.Client.CoreV1().Nodes().Get(ctx, at.node, metav1.GetOptions{})
	if controller.Absent(err) {
		node, err = nil, nil
	}
	switch {
	case err != nil:
		return unconfirmed{fmt.Errorf("reading node %s: %w", at.node, err)}
	case !isSafe(node, at.volume, why):
		return unconfirmed{fmt.Errorf("DetachVolume failed for volume %q on node %q : "+
			"volume is still in use by node, according to Node status", at.volume, at.node)}
	case node == nil && why == notForced && c.mayHaveUsed(at):
		return unconfirmed{fmt.Errorf("node %s is gone, and may have used volume %q", at.node, at.volume)}
	case node != nil && reports(node, at.volume):
		c.reportAgain(at.node)
		return unconfirmed{fmt.Errorf("DetachVolume failed for volume %q on node %q : "+
			"the node still reports that it is attached", at.volume, at.node)}
	}
	return nil
}

// detach requests that a volume be detached, and reports whether its completion has to be waited for.
func (c *attachDetachController) detach(
	ctx context.Context, at place, o *operation, plugin string, why forced, ask questions,
) (waits bool, err error) {
	if err := c.confirm(ctx, at, why, ask); err != nil {
		return false, err
	}
	switch plugin {
	case csiPlugin:
		return c.deleteVA(ctx, at, o)
	case iscsiPlugin, fcPlugin:
		return false, nil
	default:
		id := o.what.id
		if id == "" {
			_, id, _ = split(at.volume) // only the name is known
		}
		return false, c.plugins.flex.detach(ctx, plugin, id, at.node)
	}
}

// mayHaveUsed reports whether a node that the API server does not have may have used a volume: by its last state, or
// because the event with that has not come yet.
func (c *attachDetachController) mayHaveUsed(at place) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.world.nodes[at.node]
	return n != nil && (n.exists || n.inUse[at.volume])
}

// reports reports whether the status of a node still tells the kubelet that a volume is attached. That is
// possible only if the cache does not show the node, or shows an older state of it for long.
func reports(n *corev1.Node, volume corev1.UniqueVolumeName) bool {
	return slices.ContainsFunc(n.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == volume })
}

// deleteVA deletes the VolumeAttachment of a place, unless there is none, it is being deleted, or it is replaced
// meanwhile. One that the cache does not show may exist.
func (c *attachDetachController) deleteVA(ctx context.Context, at place, o *operation) (waits bool, err error) {
	name := vaNameOf(at)
	if name == "" {
		return false, errors.New("volumeName missing expected data")
	}
	client := c.Client.StorageV1().VolumeAttachments()
	va, found, err := reconcile.Found(c.attachments.Get(name))
	if err == nil && !found {
		va, err = client.Get(ctx, name, metav1.GetOptions{})
	}
	switch {
	case controller.Absent(err):
		return false, nil
	case err != nil:
		return false, unconfirmed{fmt.Errorf("reading VolumeAttachment %s: %w", name, err)}
	}
	c.rememberDeletion(at, va.UID)
	o.uid = va.UID
	if va.DeletionTimestamp == nil {
		err = client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(va.UID))})
	}
	if err != nil && requests.MayHaveCreated(err) {
		c.rememberLate(at)
	}
	switch {
	case found && apierrors.IsNotFound(err):
		return true, nil // until the cache drops it, an attach could take it for its own
	case err != nil: // also NotFound, which proves nothing here: the next attempt reads it again
		return false, fmt.Errorf("kubernetes.io/csi: detacher.Detach failed to delete VolumeAttachment [%s]: %w", name, err)
	case !found: // the cache cannot show that it is gone
		return false, fmt.Errorf("waiting for the deletion of VolumeAttachment %s: the cache does not show it yet", name)
	}
	return true, nil
}

// rememberDeletion records that the deletion of a VolumeAttachment is requested. It is called before the
// request, since the answer may be lost.
func (c *attachDetachController) rememberDeletion(at place, uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.world.links[at]; l != nil {
		if l.deleted != uid {
			l.late = time.Time{}
		}
		l.deleted = uid
	}
}

// rememberLate records that the deletion of a VolumeAttachment had no answer.
func (c *attachDetachController) rememberLate(at place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.world.links[at]; l != nil {
		l.late = c.Clock.Now().Add(requests.LateWithin)
	}
}
