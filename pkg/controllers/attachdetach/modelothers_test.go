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
	did = m.binder(all) || did
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
	if len(m.machines[name].mounted)+len(m.machines[name].mounting) == 0 && m.OneIn(4) {
		unmanaged(n) // its kubelet has not begun
	}
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
	switch k := n(25); {
	case k == 21:
		m.replace(modelVolumes[n(3)])
	case k == 22:
		m.requireAttach(n(2) == 0)
	case k >= 23:
		if exists {
			m.manage(node)
		}
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
	if _, exists := m.nodeOf(name); !exists {
		m.start(name)
	}
	n, _ := m.nodeOf(name)
	m.manage(n)
	if n, _ = m.nodeOf(name); conditionOf(n).outOfService {
		simulation.Change(m.World, n, func(n *corev1.Node) { n.Spec.Taints = nil })
	}
}

// manage has the kubelet of a node have its volumes attached by the controller.
func (m *model) manage(n *corev1.Node) {
	if n.Annotations == nil {
		m.Note("node %s is managed", n.Name)
		simulation.Change(m.World, n, func(n *corev1.Node) { n.Annotations = aNode("").Annotations })
	}
}

// requireAttach has the volumes of the driver be such that are attached, or that need not be.
func (m *model) requireAttach(is bool) {
	m.optional = m.optional || !is
	object, ok := simulation.Get[*storagev1.CSIDriver](m.World, "", driver)
	switch {
	case ok && m.OneIn(2):
		simulation.Change(m.World, object, func(d *storagev1.CSIDriver) { d.Spec.AttachRequired = &is })
		return
	case ok:
		m.Delete(object, nil)
	}
	if !is || m.OneIn(2) {
		m.Create(aDriver(is))
	}
}

// replace has somebody delete a claim that no pod uses, with its volume, and create another one of its name.
func (m *model) replace(handle string) {
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		if slices.Contains(handlesOf(pod), handle) {
			return
		}
	}
	for _, on := range m.machines {
		if on.uses(handle) {
			return
		}
	}
	if claim, ok := simulation.Get[*corev1.PersistentVolumeClaim](m.World, "ns", handle); ok {
		m.Delete(claim, nil)
	}
	if pv, ok := simulation.Get[*corev1.PersistentVolume](m.World, "", handle); ok && m.OneIn(2) {
		m.Delete(pv, nil)
	}
	claim := aClaim(handle)
	claim.Spec.VolumeName, claim.Status.Phase = "", corev1.ClaimPending
	m.Create(claim)
}

// binder binds claims to their volumes, which it creates, one step at a time.
func (m *model) binder(all bool) bool {
	for _, claim := range simulation.All[*corev1.PersistentVolumeClaim](m.World) {
		if !all && !m.OneIn(3) {
			continue
		}
		pv, ok := simulation.Get[*corev1.PersistentVolume](m.World, "", claim.Name)
		switch {
		case !ok:
			mode := corev1.ReadWriteMany
			if isExclusive(claim.Name) {
				mode = once
			}
			pv := aVolume(claim.Name, mode)
			pv.Spec.ClaimRef = nil
			m.Create(pv)
		case claimUID(pv) != claim.UID:
			m.Note("binder: %s", claim.Name)
			simulation.Change(m.World, pv, func(pv *corev1.PersistentVolume) {
				pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: claim.Name, UID: claim.UID}
			})
		case !isBoundClaim(claim):
			m.Note("binder: %s is bound", claim.Name)
			simulation.Change(m.World, claim, func(c *corev1.PersistentVolumeClaim) {
				c.Spec.VolumeName, c.Status.Phase = c.Name, corev1.ClaimBound
			})
		default:
			continue
		}
		return true
	}
	return false
}
