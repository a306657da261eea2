package attachdetach

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// place is a volume on a node.
type place struct {
	volume corev1.UniqueVolumeName
	node   string
}

// attachState is what is known of an attachment.
type attachState int

const (
	// detached: nothing says that the volume is attached.
	detached attachState = iota
	// uncertain: the volume may be attached. It is not reported as attached.
	uncertain
	// attached: the volume is attached.
	attached
)

// link is everything about a volume on a node: who wants it there, and what is known of its attachment.
// It exists as long as the volume is wanted or may be attached there.
type link struct {
	place
	vaName string // of its VolumeAttachment; empty if its plugin uses none

	// wanted is the desired state: the volume as the first pod defined it, and the pods.
	wanted      identified
	pods        map[types.UID]podRef
	multiAttach bool // the conflict with other nodes was reported
	countedAs   [2]string

	state attachState
	// listed reports whether the volume belongs in node.status.volumesAttached.
	listed bool
	// unwantedSince is when the volume was first found to be attached although nobody wants it; zero if that is
	// not so.
	unwantedSince time.Time
	// usedUnseen is set while unwantedSince does not count: a live list has shown a pod that wants the volume there, and
	// that the caches do not show.
	usedUnseen bool
	// deleted is the UID of the VolumeAttachment whose deletion was requested. That one is never
	// taken for an attachment again, not even while the cache does not show the deletion.
	deleted types.UID
	// late is until when that deletion may be executed, if it had no answer.
	late time.Time
	// released is when the node was last seen to have released the volume. Only an unwanted link has it.
	released release
	// seen reports whether this process has seen a pod that wanted the volume there. It is false if the link was
	// made because the volume is attached, and the cache does not show such a pod, or not yet.
	seen bool
}

func (l *link) isWanted() bool { return len(l.pods) > 0 }

// volume is a volume wherever it is wanted or attached.
type volume struct {
	// known is the volume as it was last attached. It is zero if only the status of a node names it.
	known      identified
	devicePath string
	// exclusive reports whether it was ever found to be for one node only.
	exclusive  bool
	links      map[string]*link
	operations []*operation
}

// node is a node by its name, whatever its UID: volumes are attached to names.
type node struct {
	// managed reports whether volumes are attached to the node; exists whether the cache has it.
	managed, exists bool
	links           map[corev1.UniqueVolumeName]*link
	// inUse are the volumes that are mounted, or that may be.
	inUse  map[corev1.UniqueVolumeName]bool
	report report
	// podsKnown is set once a live list of the node's pods was compared with the links: from then on, no volume
	// that was wanted when this process began is missing.
	podsKnown bool
}

func (n *node) hasWanted() bool {
	for _, l := range n.links {
		if l.isWanted() {
			return true
		}
	}
	return false
}

// world is the desired and the actual state. It is guarded by the lock of the controller.
type world struct {
	links   map[place]*link
	volumes map[corev1.UniqueVolumeName]*volume
	nodes   map[string]*node
	byVA    map[string]*link
	pods    map[types.NamespacedName]*podState
	// incomplete are pods with a volume that is not known yet.
	incomplete map[types.NamespacedName]bool
	// doubtful are attachments that VolumeAttachments do not confirm.
	doubtful map[place]bool
	// unlinked are names of VolumeAttachments that no link stands for: those of others, and lost ones.
	unlinked map[string]bool
	counts   counts
}

func newWorld(counts counts) *world {
	return &world{
		links:      map[place]*link{},
		volumes:    map[corev1.UniqueVolumeName]*volume{},
		nodes:      map[string]*node{},
		byVA:       map[string]*link{},
		pods:       map[types.NamespacedName]*podState{},
		incomplete: map[types.NamespacedName]bool{},
		doubtful:   map[place]bool{},
		unlinked:   map[string]bool{},
		counts:     counts,
	}
}

// node returns the node of a name, which is made if nothing is known of it.
func (w *world) node(name string) *node {
	n := w.nodes[name]
	if n == nil {
		n = &node{links: map[corev1.UniqueVolumeName]*link{}, inUse: map[corev1.UniqueVolumeName]bool{}}
		w.nodes[name] = n
	}
	return n
}

// link returns the link of a place, which is made if there is none.
func (w *world) link(at place) *link {
	if l := w.links[at]; l != nil {
		return l
	}
	l := &link{place: at, vaName: vaNameOf(at), pods: map[types.UID]podRef{}}
	w.links[at] = l
	if l.vaName != "" {
		w.byVA[l.vaName] = l
	}
	v := w.volumes[at.volume]
	if v == nil {
		v = &volume{links: map[string]*link{}}
		w.volumes[at.volume] = v
	}
	v.links[at.node] = l
	w.node(at.node).links[at.volume] = l
	return l
}

// tidy drops a link that is neither wanted nor attached, and what exists only because of it.
func (w *world) tidy(l *link) {
	v := w.volumes[l.volume]
	if w.links[l.place] != l || l.isWanted() || l.state != detached || v.running(l.node) != nil {
		return
	}
	delete(w.links, l.place)
	delete(w.byVA, l.vaName)
	w.rememberUnlinked(l.vaName)
	delete(w.doubtful, l.place)
	delete(v.links, l.node)
	if len(v.links) == 0 {
		delete(w.volumes, l.volume)
	}
	delete(w.nodes[l.node].links, l.volume)
	w.tidyNode(l.node)
}

// rememberUnlinked remembers the name of a VolumeAttachment that no link stands for, if there is one.
func (w *world) rememberUnlinked(name string) {
	if name != "" {
		w.unlinked[name] = true
	}
}

// tidyNode drops a node that is gone and without volumes. It stays managed as long as a pod wants a volume there.
func (w *world) tidyNode(name string) {
	n := w.nodes[name]
	if n == nil || n.exists {
		return
	}
	if !n.hasWanted() {
		n.managed = false
	}
	if len(n.links) == 0 && !n.report.sending {
		delete(w.nodes, name)
	}
}

// want adds a pod to those that want a volume on a node, and reports whether it is the first.
func (w *world) want(at place, what identified, pod podRef) (first bool) {
	l := w.link(at)
	if _, known := l.pods[pod.UID]; known {
		return false
	}
	first = !l.isWanted()
	if first {
		l.wanted = what
	}
	l.seen = true
	l.pods[pod.UID] = pod
	w.volumes[at.volume].exclusive = w.volumes[at.volume].exclusive || !what.allowsMultiple()
	w.recount(l)
	return first
}

// unwant removes a pod from those that want a volume on a node, and reports whether it was the last.
func (w *world) unwant(at place, uid types.UID) (last bool) {
	l := w.links[at]
	if l == nil || !l.isWanted() {
		return false
	}
	delete(l.pods, uid)
	if l.isWanted() {
		return false
	}
	l.wanted, l.multiAttach = identified{}, false
	w.recount(l)
	w.tidy(l)
	w.tidyNode(at.node)
	return true
}

// markAttached records that a volume is attached to a node, and is to be reported there.
func (w *world) markAttached(at place, what identified, devicePath string) *link {
	l := w.mark(at, attached, what, devicePath)
	l.listed = true
	l.deleted = ""
	return l
}

// markUncertain records that a volume may be attached to a node.
func (w *world) markUncertain(at place, what identified) *link {
	l := w.mark(at, uncertain, what, "")
	l.listed = false
	delete(w.doubtful, at)
	return l
}

// mark changes the state of an attachment. A volume that was not known to be attached counts as mounted until the
// node reports otherwise.
func (w *world) mark(at place, state attachState, what identified, devicePath string) *link {
	l := w.link(at)
	if l.state == detached {
		w.node(at.node).inUse[at.volume] = true
	}
	l.state, l.released = state, release{}
	v := w.volumes[at.volume]
	v.devicePath = devicePath
	w.learn(v, what)
	w.recount(l)
	return l
}

// learn records what a volume is.
func (w *world) learn(v *volume, what identified) {
	before := v.known
	v.known, v.exclusive = what, v.exclusive || !what.allowsMultiple()
	if before.label == what.label {
		return
	}
	for _, l := range v.links {
		w.recount(l)
	}
}

// markDetached records that a volume is not attached to a node.
func (w *world) markDetached(l *link) {
	l.state, l.listed, l.unwantedSince, l.usedUnseen, l.deleted = detached, false, time.Time{}, false, ""
	delete(w.doubtful, l.place)
	w.recount(l)
	w.tidy(l)
}

// recount updates the metrics after a change of a link.
func (w *world) recount(l *link) {
	var now [2]string
	if l.isWanted() {
		now[0] = l.wanted.label
	}
	if l.state != detached {
		now[1] = w.volumes[l.volume].known.label
	}
	for i, state := range [2]string{stateDesired, stateActual} {
		if now[i] != l.countedAs[i] {
			w.counts.volumes(l.countedAs[i], state, -1)
			w.counts.volumes(now[i], state, 1)
		}
	}
	l.countedAs = now
}
