package attachdetach

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// A list can lack VolumeAttachments that exist, or their PersistentVolumes, when an instance begins. And a create of
// which no answer came can be carried out after the detach has found nothing. Nobody would detach such a volume, and no
// other node could get it.

// findLost finds VolumeAttachments of this controller that no link stands for, by what the caches show now. Their
// attachments become uncertain, as if they had been found when the instance began. One whose PersistentVolume is not
// known is examined again later.
func (c *attachDetachController) findLost(ctx context.Context) {
	for _, name := range c.takeUnlinked() {
		va, found, err := reconcile.Found(c.attachments.Get(name))
		if !found || err != nil {
			continue
		}
		lacks := c.lacksVolume(va) // before placeOf: it may be shown in between
		at, what, ok := c.placeOf(ctx, va)
		c.mu.Lock()
		switch {
		case lacks:
			c.world.rememberUnlinked(name)
		case ok && vaNameOf(at) == name && c.world.links[at] == nil:
			klog.FromContext(ctx).Info("Found a lost attachment of a volume", "volume", at.volume, "node", at.node)
			c.world.markUncertain(at, what)
			c.placeQueue.Add(at)
		}
		c.mu.Unlock()
	}
}

// rememberAttachmentsOf remembers the VolumeAttachments of a CSI driver that no link stands for. They may have been
// left out because the driver attached nothing, which has changed.
func (c *attachDetachController) rememberAttachmentsOf(driver string) {
	attachments, err := c.attachments.List(labels.Everything())
	if err != nil {
		return // no lister returns an error
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, va := range attachments {
		if va.Spec.Attacher == driver && c.world.byVA[va.Name] == nil {
			c.world.rememberUnlinked(va.Name)
		}
	}
}

// takeUnlinked returns the names of VolumeAttachments that no link stands for, and forgets them. What an event adds
// while they are examined is kept.
func (c *attachDetachController) takeUnlinked() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := slices.Sorted(maps.Keys(c.world.unlinked))
	c.world.unlinked = map[string]bool{}
	return names
}
