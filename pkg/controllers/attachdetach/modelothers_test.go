package attachdetach

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/volumes"
	"kcmd.dev/test/simulation"
)

// attacher carries out what VolumeAttachments ask for. With all, nothing fails.
func (m *model) attacher(all bool) bool {
	did := false
	for _, va := range simulation.All[*storagev1.VolumeAttachment](m.World) {
		if (all || m.OneIn(2)) && m.attachOrDetach(va, !all && m.OneIn(5)) {
			did = true
		}
	}
	return did
}

func (m *model) attachOrDetach(va *storagev1.VolumeAttachment, fails bool) bool {
	handle, name := handleOf(va), va.Spec.NodeName
	on := m.stored[handle]
	failure := &storagev1.VolumeError{Message: "no"}
	change := func(what string, change func(*storagev1.VolumeAttachment)) bool {
		m.Note("attacher: %s@%s %s", handle, name, what)
		simulation.Change(m.World, va, change)
		return true
	}
	switch {
	case va.DeletionTimestamp != nil && fails:
		return change("cannot be detached", func(va *storagev1.VolumeAttachment) { va.Status.DetachError = failure })
	case va.DeletionTimestamp != nil:
		if m.machines[name].uses(handle) && !m.excused[va.UID] {
			m.fail("%s is taken away from %s, which has mounted it", handle, name)
		}
		delete(on, name)
		return change("is detached", func(va *storagev1.VolumeAttachment) { va.Finalizers = nil })
	case len(va.Finalizers) == 0:
		return change("has a finalizer", func(va *storagev1.VolumeAttachment) { va.Finalizers = []string{driver} })
	case va.Status.Attached:
		return false
	case fails || isExclusive(handle) && len(on) > 0 && !on[name]:
		if va.Status.AttachError != nil {
			return false
		}
		return change("cannot be attached", func(va *storagev1.VolumeAttachment) { va.Status.AttachError = failure })
	}
	on[name] = true
	return change("is attached", func(va *storagev1.VolumeAttachment) {
		va.Status = storagev1.VolumeAttachmentStatus{Attached: true}
	})
}

// kubelets take steps with some nodes, or with all.
func (m *model) kubelets(all bool) bool {
	did := false
	for _, name := range modelNodes {
		if (all || m.OneIn(2)) && m.kubelet(name) {
			did = true
		}
	}
	return did
}

// kubelet takes the next step on a node. What is to be mounted is named in volumesInUse first.
func (m *model) kubelet(name string) bool {
	on := m.machines[name]
	n, exists := m.nodeOf(name)
	if !exists || on.off || on.cut {
		return false
	}
	var used []corev1.UniqueVolumeName
	wanted := m.look()
	for _, handle := range modelVolumes {
		if on.mounted[handle] || wanted[place{volumeName(handle), name}] {
			used = append(used, volumeName(handle))
		} else {
			delete(on.mounting, handle)
		}
	}
	if !slices.Equal(used, n.Status.VolumesInUse) || !conditionOf(n).healthy {
		m.Note("kubelet %s: uses %v", name, used)
		simulation.Change(m.World, n, isReady, func(n *corev1.Node) { n.Status.VolumesInUse = used })
		return true
	}
	for _, handle := range modelVolumes {
		va, ok := m.attachmentOf(handle, name)
		isThere := ok && va.Status.Attached && va.DeletionTimestamp == nil
		switch wants := wanted[place{volumeName(handle), name}]; {
		case on.mounted[handle] && !wants:
			m.Note("kubelet %s: unmounts %s", name, handle)
			delete(on.mounted, handle)
			return true
		case !on.mounted[handle] && wants && lists(n, handle) && isThere:
			m.Note("kubelet %s: mounts %s", name, handle)
			on.mounted[handle] = true
			return true
		}
	}
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		if pod.Spec.NodeName == name && m.advance(pod, on) {
			return true
		}
	}
	return false
}

// advance has a pod run once its volumes are mounted, stop once it is deleted, and vanish once they are unmounted.
func (m *model) advance(pod *corev1.Pod, on *machine) bool {
	mounted := 0
	for _, handle := range handlesOf(pod) {
		if on.mounted[handle] {
			mounted++
		}
	}
	isOver := volumes.IsTerminated(pod)
	switch {
	case pod.DeletionTimestamp != nil && !isOver:
		simulation.Change(m.World, pod, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	case pod.DeletionTimestamp != nil && mounted == 0:
		m.Delete(pod, ptr.To[int64](0))
	case pod.Status.Phase == corev1.PodPending && mounted == len(pod.Spec.Volumes):
		simulation.Change(m.World, pod, func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: running}}
		})
	default:
		return false
	}
	m.Note("kubelet: %s", pod.Name)
	return true
}

// others are the kubelets, the attacher, node lifecycle and pod garbage collection.
func (m *model) others(all bool) bool {
	did := m.attacher(all)
	did = m.kubelets(all) || did
	for _, name := range modelNodes {
		on := m.machines[name]
		if n, exists := m.nodeOf(name); exists && (on.off || on.cut) && conditionOf(n).healthy && m.OneIn(3) {
			m.Note("node %s is not ready", name)
			simulation.Change(m.World, n, notReady)
		}
	}
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		n, exists := m.nodeOf(pod.Spec.NodeName)
		if !exists || conditionOf(n).outOfService && pod.DeletionTimestamp != nil {
			m.look()
			m.Delete(pod, ptr.To[int64](0))
			did = true
		}
	}
	return did
}

func (m *model) start(name string) {
	n := aNode(name)
	for _, handle := range modelVolumes {
		if m.machines[name].uses(handle) {
			n.Status.VolumesInUse = append(n.Status.VolumesInUse, volumeName(handle))
		}
	}
	m.Create(n)
}

func (m *model) user() {
	m.look()
	n := m.Rand.IntN
	name := modelNodes[n(3)]
	node, exists := m.nodeOf(name)
	on := m.machines[name]
	pods := simulation.All[*corev1.Pod](m.World)
	switch k := n(21); {
	case k < 8:
		pod := aPod(fmt.Sprint("p", n(5)), name, modelVolumes[n(3)])
		if _, there := simulation.Get[*corev1.Pod](m.World, "ns", pod.Name); !there && exists && conditionOf(node).healthy {
			pod.Status = corev1.PodStatus{}
			m.Create(pod)
		}
	case k < 13:
		if len(pods) > 0 {
			m.Delete(pods[n(len(pods))], []*int64{nil, ptr.To[int64](0)}[n(2)])
		}
	case k == 13:
		if len(pods) > 0 {
			if pod := pods[n(len(pods))]; pod.Status.Phase == corev1.PodRunning && !m.machines[pod.Spec.NodeName].off {
				m.Note("%s succeeds", pod.Name)
				simulation.Change(m.World, pod, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
			}
		}
	case k == 18:
		if all := simulation.All[*storagev1.VolumeAttachment](m.World); len(all) > 0 {
			m.disturb(all[n(len(all))])
		}
	case k == 14:
		m.Drain() // no cache is behind for minutes
		m.Note("minutes pass")
		m.Clock.Step(time.Duration(1+n(4)) * 2 * time.Minute)
	case !exists:
		m.start(name)
	case k == 15:
		m.Note("machine %s is replaced or loses its Node", name)
		for _, handle := range modelVolumes {
			on.mounting[handle] = on.mounting[handle] || !on.off && lists(node, handle) && isUsed(node, handle)
		}
		if n(2) == 0 {
			*on = newMachine()
		}
		m.Delete(node, nil)
		if n(2) == 0 {
			m.start(name)
		}
	case k == 16:
		m.Note("machine %s is off", name)
		*on = newMachine()
		on.off = true
	case k == 17:
		m.Note("machine %s is cut off: %v", name, !on.cut)
		on.cut = !on.cut
	case on.off && !conditionOf(node).outOfService:
		m.Note("node %s is out of service", name)
		simulation.Change(m.World, node, outOfService)
	default:
		m.heal(name)
	}
}

// disturb has somebody delete a VolumeAttachment, or its status tell that the volume is not attached any more.
func (m *model) disturb(va *storagev1.VolumeAttachment) {
	m.disturbed[handleOf(va)], m.excused[va.UID] = true, true
	if m.OneIn(2) {
		m.Delete(va, nil)
		return
	}
	m.Note("%s@%s is not attached any more", handleOf(va), va.Spec.NodeName)
	simulation.Change(m.World, va, func(va *storagev1.VolumeAttachment) { va.Status.Attached = false })
}

// heal ends what ails a node.
func (m *model) heal(name string) {
	on := m.machines[name]
	on.off, on.cut = false, false
	for handle := range on.mounted {
		if !m.stored[handle][name] {
			delete(on.mounted, handle) // it was taken away
		}
	}
	n, exists := m.nodeOf(name)
	if !exists {
		m.start(name)
	} else if conditionOf(n).outOfService {
		simulation.Change(m.World, n, func(n *corev1.Node) { n.Spec.Taints = nil })
	}
}
