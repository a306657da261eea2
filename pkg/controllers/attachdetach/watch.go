package attachdetach

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/volumes"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// Events before the state of the world is rebuilt are ignored: the caches show them by then.

// watchPods queues pods that were bound, have ended or are gone, and those with a volume that was not
// known before. Other updates change nothing.
func (c *attachDetachController) watchPods(pods cache.SharedIndexInformer) {
	watch.Objects(pods, watch.Funcs[*corev1.Pod]{
		Add:    c.enqueuePod,
		Update: c.podUpdated,
		Delete: c.podGone,
		Missed: c.podMissed,
	})
}

func (c *attachDetachController) podGone(pod *corev1.Pod) {
	c.expectPod(pod, false)
	c.enqueuePod(reconcile.Gone(pod), pod)
}

// podMissed queues a pod that only a list lacked. If it is known to want volumes, it is read live before it counts as
// gone.
func (c *attachDetachController) podMissed(pod *corev1.Pod) {
	c.expectPod(pod, true)
	c.enqueuePod(reconcile.Gone(pod), pod)
}

// expectPod records whether a pod that the cache lacks may exist.
func (c *attachDetachController) expectPod(pod *corev1.Pod, mayExist bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state := c.world.pods[reconcile.KeyOf(pod)]; state != nil && state.uid == pod.UID {
		state.missed = mayExist
	}
}

func (c *attachDetachController) podUpdated(lane reconcile.Lane, old, pod *corev1.Pod) {
	switch {
	case old.UID != pod.UID:
		c.enqueuePod(lane, old)
		c.enqueuePod(lane, pod)
	case old.Spec.NodeName != pod.Spec.NodeName,
		volumes.IsTerminated(old) != volumes.IsTerminated(pod),
		isBound(pod) && c.isIncomplete(pod):
		c.enqueuePod(lane, pod)
	}
}

func (c *attachDetachController) enqueuePod(lane reconcile.Lane, pod *corev1.Pod) {
	if isBound(pod) && c.begun.Load() {
		c.podQueue.Enqueue(lane, reconcile.KeyOf(pod))
	}
}

func (c *attachDetachController) isIncomplete(pod *corev1.Pod) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.world.incomplete[reconcile.KeyOf(pod)]
}

func (c *attachDetachController) watchClaims(claims cache.SharedIndexInformer) {
	enqueue := func(lane reconcile.Lane, claim *corev1.PersistentVolumeClaim) {
		if isBoundClaim(claim) && c.begun.Load() {
			c.claimQueue.Enqueue(lane, reconcile.KeyOf(claim))
		}
	}
	watch.Objects(claims, watch.Funcs[*corev1.PersistentVolumeClaim]{
		AddOrUpdate: enqueue,
	})
}

// watchVolumes queues the claim that a PersistentVolume is bound to: the cache may show it later than
// the claim.
func (c *attachDetachController) watchVolumes(pvs cache.SharedIndexInformer) {
	watch.ObjectsEvery(pvs, 0, watch.Funcs[*corev1.PersistentVolume]{
		Add: c.enqueueClaimOf,
		Update: func(lane reconcile.Lane, old, pv *corev1.PersistentVolume) {
			if claimUID(old) != claimUID(pv) {
				c.enqueueClaimOf(lane, pv)
			}
		},
	})
}

func claimUID(pv *corev1.PersistentVolume) types.UID {
	if pv.Spec.ClaimRef == nil {
		return ""
	}
	return pv.Spec.ClaimRef.UID
}

func (c *attachDetachController) enqueueClaimOf(lane reconcile.Lane, pv *corev1.PersistentVolume) {
	if claimUID(pv) != "" && c.begun.Load() {
		c.claimQueue.Enqueue(lane, types.NamespacedName{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name})
	}
}

// watchDrivers queues what may use a CSI driver when its volumes begin or cease to be attached, and remembers the
// VolumeAttachments that were left out until then.
func (c *attachDetachController) watchDrivers(drivers cache.SharedIndexInformer) {
	watch.ObjectsEvery(drivers, 0, watch.Funcs[*storagev1.CSIDriver]{
		Add: func(_ reconcile.Lane, driver *storagev1.CSIDriver) { c.enqueueUsersOf(driver) },
		Update: func(_ reconcile.Lane, old, driver *storagev1.CSIDriver) {
			if ptr.Deref(old.Spec.AttachRequired, true) != ptr.Deref(driver.Spec.AttachRequired, true) {
				c.enqueueUsersOf(driver)
			}
		},
		Delete: c.enqueueUsersOf,
	})
}

func (c *attachDetachController) enqueueUsersOf(driver *storagev1.CSIDriver) {
	if !c.begun.Load() {
		return
	}
	// It cannot fail: newController adds the index.
	pvs, _ := index.Append[*corev1.PersistentVolume](nil, c.byDriver, volumesByDriver, driver.Name)
	for _, pv := range pvs {
		c.enqueueClaimOf(reconcile.Backlog, pv)
	}
	pods, _ := index.Append[*corev1.Pod](nil, c.inlineByDriver, podsByInlineDriver, driver.Name)
	for _, pod := range pods {
		c.enqueuePod(reconcile.Backlog, pod)
	}
	c.rememberAttachmentsOf(driver.Name)
}

// The names of indexes: PersistentVolumes by CSI driver, and pods by the drivers of the volumes that are
// defined in them and whose types have moved to CSI.
const (
	volumesByDriver    = "csi-driver"
	podsByInlineDriver = "csi-driver-of-migrated-volumes"
)

func driverKeys(obj any) ([]string, error) {
	pv, ok := obj.(*corev1.PersistentVolume)
	if !ok || volumes.Driver(pv) == "" {
		return nil, nil
	}
	return []string{volumes.Driver(pv)}, nil
}

func inlineDriverKeys(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	var keys []string
	for i := range pod.Spec.Volumes {
		if driver := volumes.InlineDriver(&pod.Spec.Volumes[i]); driver != "" && !slices.Contains(keys, driver) {
			keys = append(keys, driver)
		}
	}
	return keys, nil
}

func (c *attachDetachController) watchNodes(nodes cache.SharedIndexInformer) {
	watch.Objects(nodes, watch.Funcs[*corev1.Node]{
		AddOrUpdate: func(_ reconcile.Lane, n *corev1.Node) { c.nodeChanged(n) },
		Delete:      c.nodeChanged,
	})
}

// nodeChanged takes over what the cache shows of a node. last is the node in the event: the last state if the
// node is gone.
func (c *attachDetachController) nodeChanged(last *corev1.Node) {
	if !c.begun.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	current, found, err := reconcile.Found(c.nodes.Get(last.Name))
	if err != nil {
		return // no lister returns another error
	}
	if !found {
		c.nodeGone(last)
		return
	}
	if c.seeNode(current) {
		pods, _ := c.podsOn.On(current.Name) // it cannot fail: newController adds the index
		for _, pod := range pods {
			c.enqueuePod(reconcile.Fresh, pod)
		}
	}
	n := c.world.nodes[current.Name]
	if n == nil {
		return
	}
	if (len(n.links) > 0 || len(n.report.shown) > 0) && !c.world.isCurrent(n) {
		c.enqueueReport(current.Name, gatherPeriod)
	}
	c.judgeUnwanted(n)
}

// seeNode takes over what a node shows, and reports whether it has just become managed.
func (c *attachDetachController) seeNode(current *corev1.Node) (began bool) {
	_, annotated := current.Annotations[managedAnnotation]
	if c.world.nodes[current.Name] == nil && !annotated {
		return false
	}
	n := c.world.node(current.Name)
	n.exists = true
	began = annotated && !n.managed
	n.managed = n.managed || annotated
	n.setInUse(current.Status.VolumesInUse)
	n.report.see(current, c.Clock.Now())
	return began
}

// setInUse replaces the volumes that may be mounted by those that the node names.
func (n *node) setInUse(names []corev1.UniqueVolumeName) {
	clear(n.inUse)
	for _, name := range names {
		n.inUse[name] = true
	}
}

// nodeGone records that a node is gone. Volumes that were mounted there are nevertheless waited for.
func (c *attachDetachController) nodeGone(last *corev1.Node) {
	n := c.world.nodes[last.Name]
	if n == nil {
		return
	}
	n.exists = false
	n.setInUse(last.Status.VolumesInUse)
	if n.report.sending || n.report.failing {
		n.report.known = false
	} else {
		n.report = report{known: true}
	}
	c.judgeUnwanted(n)
	c.world.tidyNode(last.Name)
}

// judgeUnwanted enqueues the attachments of a node that no pod needs.
func (c *attachDetachController) judgeUnwanted(n *node) {
	for _, l := range n.links {
		if !l.isWanted() && l.state != detached {
			c.enqueueBlocked(l.place)
		}
	}
}

// watchAttachments enqueues operations that wait for a VolumeAttachment, and uncertain attachments that nobody
// wants, which may be detached once there is one. Attachments that are no longer confirmed are marked for
// verification, and VolumeAttachments that no link stands for are remembered.
func (c *attachDetachController) watchAttachments(attachments cache.SharedIndexInformer) {
	watch.ObjectsEvery(attachments, 0, watch.Funcs[*storagev1.VolumeAttachment]{
		AddOrUpdate: func(_ reconcile.Lane, va *storagev1.VolumeAttachment) { c.attachmentChanged(va.Name) },
		Delete:      func(va *storagev1.VolumeAttachment) { c.attachmentChanged(va.Name) },
	})
}

func (c *attachDetachController) attachmentChanged(name string) {
	if !c.begun.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.world.byVA[name]
	if l == nil {
		c.world.rememberUnlinked(name)
		return
	}
	c.doubt(l)
	o := c.world.volumes[l.volume].running(l.node)
	if o != nil && o.waiting || l.state == uncertain && !l.isWanted() {
		c.placeQueue.Add(l.place)
	}
}
