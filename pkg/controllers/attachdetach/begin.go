package attachdetach

import (
	"context"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/volumes"
)

// begin rebuilds the state of the world from the caches, and completes it by what the predecessor in the
// process knew. Then every place is enqueued once.
func (c *attachDetachController) begin(ctx context.Context) error {
	left, ok := controller.TakeOver(c.Env, c)
	if !ok || c.Clock.Since(left.at) > gap {
		left = handover{}
	}
	if err := c.rebuild(ctx, left.reports); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expose()
	c.takeOver(left)
	for at := range c.world.links {
		c.placeQueue.Add(at)
	}
	for name, n := range c.world.nodes {
		if !c.world.isCurrent(n) {
			c.enqueueReport(name, reportDelay)
		}
	}
	return nil
}

// rebuild finds out what is attached, and then what is wanted. left are the reports of the predecessor.
func (c *attachDetachController) rebuild(ctx context.Context, left map[string]report) error {
	c.plugins.flex.prepare(klog.FromContext(ctx))
	if err := c.rebuildActual(ctx, left); err != nil {
		return err
	}
	pods, err := c.pods.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	for _, pod := range pods {
		if isBound(pod) {
			c.placePod(ctx, reconcile.KeyOf(pod), pod)
		}
	}
	return nil
}

// rebuildActual finds out what is attached. The cache may lack the last writes of the predecessor: what was withdrawn
// by one of them must not count as attached again.
func (c *attachDetachController) rebuildActual(ctx context.Context, left map[string]report) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun.Store(true) // handlers of later changes wait for the lock, earlier changes are in the caches
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	for _, n := range nodes {
		shown := n.Status.VolumesAttached
		if r, ok := left[n.Name]; ok {
			r = r.takenOver(n, c.Clock.Now())
			c.world.node(n.Name).report, shown = r, r.shown
		}
		for _, v := range shown {
			c.world.markAttached(place{v.Name, n.Name}, identified{}, v.DevicePath)
		}
		c.seeNode(n)
	}
	attachments, err := c.attachments.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing VolumeAttachments: %w", err)
	}
	for _, va := range attachments {
		lacks := c.lacksVolume(va) // before placeOf: it may be shown in between
		at, what, ok := c.placeOf(ctx, va)
		if ok && (c.world.links[at] == nil || c.world.links[at].state == detached) {
			c.world.markUncertain(at, what)
		}
		if lacks {
			c.world.rememberUnlinked(va.Name)
		}
	}
	for _, l := range c.world.links {
		c.doubt(l)
	}
	return nil
}

// lacksVolume reports whether the cache does not show the PersistentVolume of a VolumeAttachment.
func (c *attachDetachController) lacksVolume(va *storagev1.VolumeAttachment) bool {
	name := va.Spec.Source.PersistentVolumeName
	if name == nil {
		return false
	}
	_, found, err := reconcile.Found(c.volumes.Get(*name))
	return !found && err == nil
}

// placeOf returns what a VolumeAttachment attaches, whatever its own name. It returns false if the volume is
// defined in a pod, not known, or not to be attached.
func (c *attachDetachController) placeOf(
	ctx context.Context, va *storagev1.VolumeAttachment,
) (place, identified, bool) {
	if va.Spec.Source.PersistentVolumeName == nil {
		return place{}, identified{}, false
	}
	logger := klog.FromContext(ctx)
	pv, found, err := reconcile.Found(c.volumes.Get(*va.Spec.Source.PersistentVolumeName))
	if !found || err != nil {
		return place{}, identified{}, false
	}
	spec, err := volumes.Translate(logger, volumes.Spec{PV: pv}, "")
	if err != nil {
		logger.Error(err, "Leaving out a VolumeAttachment", "volumeAttachment", va.Name)
		return place{}, identified{}, false
	}
	what, ok, err := c.plugins.identify(ctx, spec)
	if spec.Migrated {
		what, ok = migrated(spec), true
	} else if err != nil {
		logger.Error(err, "Leaving out a VolumeAttachment", "volumeAttachment", va.Name)
		return place{}, identified{}, false
	}
	return place{what.name(), va.Spec.NodeName}, what, ok
}

// migrated identifies a volume of a type that has moved to CSI. Its CSIDriver is not consulted.
func migrated(spec volumes.Spec) identified {
	csi := spec.CSI()
	return identified{
		Spec:   spec,
		plugin: csiPlugin,
		id:     csi.Driver + "^" + csi.VolumeHandle,
		label:  csiPlugin + ":" + csi.Driver,
	}
}
