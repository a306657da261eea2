package attachdetach

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// gap is how long after the end of an instance its handover can be used. Within a longer time, a pod may have needed
// a volume again, or somebody may have attached it, unnoticed.
const gap = 10 * time.Second

// handover is what an instance leaves to the next: what the API does not show.
type handover struct {
	at         time.Time
	links      map[place]leftLink
	operations map[corev1.UniqueVolumeName][]operation
	reports    map[string]report // of nodes
}

type leftLink struct {
	state         attachState
	wanted        identified
	pods          map[types.UID]podRef
	known         identified
	devicePath    string
	mounted       bool
	unwantedSince time.Time
	deleted       types.UID
	multiAttach   bool
	seen          bool
	late          time.Time
	usedUnseen    bool
}

// HandOver implements controller.HandsOver: without it the wait for nodes would begin again, failed
// operations would be repeated at once, and events about pods would be repeated.
func (c *attachDetachController) HandOver() handover {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := handover{c.Clock.Now(), map[place]leftLink{}, map[corev1.UniqueVolumeName][]operation{}, map[string]report{}}
	for at, l := range c.world.links {
		v := c.world.volumes[at.volume]
		left.links[at] = leftLink{
			l.state, l.wanted, maps.Clone(l.pods), v.known, v.devicePath, c.world.nodes[at.node].inUse[at.volume],
			l.unwantedSince, l.deleted, l.multiAttach, l.seen, l.late, l.usedUnseen,
		}
	}
	for name, v := range c.world.volumes {
		for _, o := range v.operations {
			left.operations[name] = append(left.operations[name], *o)
		}
	}
	for name, n := range c.world.nodes {
		left.reports[name] = n.report.left()
	}
	return left
}

// takeOver completes the state of the world by what the predecessor left.
func (c *attachDetachController) takeOver(left handover) {
	c.takeOverAttaches(left.operations)
	for at, was := range left.links {
		c.takeOverPods(at, was)
		c.takeOverLink(at, was)
	}
	for name, all := range left.operations {
		v := c.world.volumes[name]
		if v == nil {
			continue
		}
		for _, o := range all {
			if o.running && (!o.waiting || v.links[o.node] == nil) {
				continue
			}
			v.operations = append(v.operations, &o)
		}
	}
}

// takeOverPods has pods go on wanting a volume of which the caches do not show any more what their volumes are, and
// those that the caches lack, until a live list shows that they are gone. A claim loses its PersistentVolume if that is
// deleted by force, also while pods use it.
func (c *attachDetachController) takeOverPods(at place, was leftLink) {
	if n := c.world.nodes[at.node]; n == nil || !n.managed {
		return
	}
	for _, pod := range was.pods {
		key := pod.NamespacedName
		_, found, err := reconcile.Found(c.pods.Pods(key.Namespace).Get(key.Name))
		if !found && err == nil && c.world.pods[key] == nil {
			c.world.pods[key] = &podState{
				uid: pod.UID, node: at.node, wants: map[corev1.UniqueVolumeName]bool{}, missed: true,
			}
			c.podQueue.Add(key)
		}
		state := c.world.pods[key]
		if state == nil || state.uid != pod.UID || state.node != at.node || !state.missed && !c.world.incomplete[key] {
			continue
		}
		state.wants[at.volume] = true
		c.world.want(at, was.wanted, pod)
	}
}

// takeOverAttaches makes attachments uncertain of which nothing else is known: nobody wants a volume any more that is
// being attached, and the cache does not show its VolumeAttachment yet.
func (c *attachDetachController) takeOverAttaches(left map[corev1.UniqueVolumeName][]operation) {
	for name, all := range left {
		for i := range all {
			at := place{name, all[i].node}
			if all[i].running && all[i].kind == attaching && c.world.links[at] == nil {
				c.world.markUncertain(at, all[i].what)
			}
		}
	}
}

// takeOverLink completes what is known of an attachment. One whose operation failed stays uncertain; one that was
// attached, but not yet reported to its node, stays attached if its VolumeAttachment confirms that.
func (c *attachDetachController) takeOverLink(at place, was leftLink) {
	l := c.world.links[at]
	now := detached
	if l != nil {
		now = l.state
	}
	switch takenOver(now, was.state, c.isConfirmed(at, was.deleted)) {
	case attached:
		l = c.world.markAttached(at, was.known, was.devicePath)
	case uncertain:
		if now != uncertain {
			l = c.world.markUncertain(at, was.known)
		}
	case detached:
	}
	if l == nil {
		return
	}
	l.deleted, l.late = was.deleted, was.late
	l.seen = l.seen || was.seen
	n := c.world.nodes[at.node]
	if now != attached && !was.mounted && l.state != detached && !c.showsInUse(at) {
		delete(n.inUse, at.volume)
	}
	if !l.isWanted() {
		l.unwantedSince, l.usedUnseen = was.unwantedSince, was.usedUnseen
	}
	l.multiAttach = was.multiAttach && l.isWanted()
}

// takenOver is the state of an attachment that is in one state by the API, and was in another for the predecessor.
func takenOver(now, was attachState, confirmed bool) attachState {
	switch {
	case now == was || was == detached:
		return now
	case was == uncertain:
		return uncertain
	case confirmed:
		return attached
	}
	return uncertain
}

// isConfirmed reports whether a volume is attached by its VolumeAttachment, or needs none.
func (c *attachDetachController) isConfirmed(at place, deleted types.UID) bool {
	name := vaNameOf(at)
	if name == "" {
		return true
	}
	va, found, err := reconcile.Found(c.attachments.Get(name))
	return found && err == nil && va.Status.Attached && va.DeletionTimestamp == nil && va.UID != deleted
}

// showsInUse reports whether the status of a node names a volume as in use.
func (c *attachDetachController) showsInUse(at place) bool {
	n, found, err := reconcile.Found(c.nodes.Get(at.node))
	return found && err == nil && slices.Contains(n.Status.VolumesInUse, at.volume)
}
