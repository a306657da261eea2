package attachdetach

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/volumes/operations"
)

// doubt marks an attachment for verification if its VolumeAttachment does not confirm it.
func (c *attachDetachController) doubt(l *link) {
	if l.state != attached {
		return
	}
	plugin, _, _ := split(l.volume)
	switch plugin {
	case csiPlugin:
	case iscsiPlugin, fcPlugin:
		return
	default:
		c.world.doubtful[l.place] = true // only its driver knows
		return
	}
	va, found, err := reconcile.Found(c.attachments.Get(l.vaName))
	if confirmed := err == nil && found && va.Status.Attached; confirmed {
		delete(c.world.doubtful, l.place)
		return
	}
	c.world.doubtful[l.place] = true
}

// verify is called periodically. It examines the attachments that are in doubt, node by node; the others are
// confirmed.
func (c *attachDetachController) verify(ctx, working context.Context) {
	c.mu.Lock()
	byNode := map[string][]place{}
	for at := range c.world.doubtful {
		byNode[at.node] = append(byNode[at.node], at)
	}
	c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(byNode)) {
		began := c.Clock.Now()
		for _, at := range byNode[name] {
			if ctx.Err() != nil {
				return
			}
			c.verifyPlace(working, at)
		}
		c.metrics.operations.Observe(operations.Operation{Plugin: "<n/a>", Name: verifying}, c.Clock.Since(began), nil)
	}
}

// verifyPlace finds out whether a volume is still attached. It concludes only from a live answer that a
// VolumeAttachment is gone.
func (c *attachDetachController) verifyPlace(ctx context.Context, at place) {
	logger := klog.FromContext(ctx)
	known, ok := c.toVerify(at)
	if !ok {
		return
	}
	if known.IsZero() {
		logger.V(2).Info("Cannot verify whether a volume is attached: only its name is known",
			"volume", at.volume, "node", at.node)
		return
	}
	is, exists, err := c.stillAttached(ctx, at, known)
	if err != nil {
		logger.Error(err, "Could not verify that a volume is attached", "volume", at.volume, "node", at.node)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.world.links[at]
	if l == nil || l.state != attached || c.world.volumes[at.volume].running(at.node) != nil {
		return
	}
	if is {
		if known.plugin == csiPlugin && exists { // without one, it is in doubt as soon as the driver requires it
			delete(c.world.doubtful, at)
		}
		return
	}
	logger.Info("Volume is not attached any more", "volume", at.volume, "node", at.node)
	if exists {
		c.world.markUncertain(at, known) // so that the VolumeAttachment is removed once nobody wants it
	} else {
		c.world.markDetached(l)
	}
	c.enqueueReport(at.node, reportDelay)
	c.enqueueBlocked(at)
}

// toVerify returns what is known of a volume that should be attached. It returns false if the volume is not attached
// any more, or if an operation is about to find out.
func (c *attachDetachController) toVerify(at place) (known identified, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.world.links[at]
	if l == nil || l.state != attached || c.world.volumes[at.volume].running(at.node) != nil {
		return identified{}, false
	}
	return c.world.volumes[at.volume].known, true
}

// stillAttached finds out whether a volume is attached, and whether it has a VolumeAttachment.
func (c *attachDetachController) stillAttached(
	ctx context.Context, at place, known identified,
) (is, exists bool, err error) {
	if known.plugin != csiPlugin {
		is, err = c.plugins.flex.isAttached(ctx, known.Spec, at.node)
		return is, false, err
	}
	if required, _ := c.plugins.attachRequired(known.CSI().Driver); !required {
		return true, false, nil
	}
	va, found, err := reconcile.Found(c.attachments.Get(vaNameOf(at)))
	if err == nil && !found {
		va, err = c.Client.StorageV1().VolumeAttachments().Get(ctx, vaNameOf(at), metav1.GetOptions{})
	}
	switch {
	case controller.Absent(err):
		return false, false, nil
	case err != nil:
		return false, false, err
	}
	return va.Status.Attached, true, nil
}
