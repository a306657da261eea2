package attachdetach

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/volumes"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

var (
	modelNodes   = []string{"a", "b", "c"}
	modelVolumes = []string{"v", "w", "x"} // x is for many nodes, the others are for one
)

// machine is what a node is in truth, whatever its Node says.
type machine struct {
	off, cut bool
	// mounted are volumes that are mounted, mounting those that were in use when they were withdrawn: the kubelet may have
	// read before that they are attached.
	mounted, mounting map[string]bool
}

func newMachine() machine {
	return machine{mounted: map[string]bool{}, mounting: map[string]bool{}}
}

// uses reports whether a volume must not be taken away.
func (on *machine) uses(handle string) bool { return on.mounted[handle] || on.mounting[handle] }

// model is a world with nodes, pods and volumes. It plays the kubelets, the attacher with its storage, and users.
type model struct {
	*simulation.World
	t             *testing.T
	flexDirectory string
	c             *attachDetachController
	machines      map[string]*machine
	// stored are the nodes that a volume is attached to in the storage.
	stored map[string]map[string]bool
	// wanted is when a pod last wanted a volume on a node, and could use it.
	wanted map[place]time.Time
	// excused are VolumeAttachments whose volume may be taken away from a node that uses it.
	excused map[types.UID]bool
	// disturbed are volumes whose VolumeAttachments somebody else has changed.
	disturbed map[string]bool
	// requested are VolumeAttachments that the controller has deleted.
	requested map[types.UID]bool
}

func isExclusive(handle string) bool { return handle != "x" }

func (m *model) nodeOf(name string) (*corev1.Node, bool) {
	return simulation.Get[*corev1.Node](m.World, "", name)
}

func (m *model) attachmentOf(handle, node string) (*storagev1.VolumeAttachment, bool) {
	return simulation.Get[*storagev1.VolumeAttachment](m.World, "", vaOf(handle, node))
}

func handleOf(va *storagev1.VolumeAttachment) string { return *va.Spec.Source.PersistentVolumeName }

func handlesOf(pod *corev1.Pod) []string {
	var all []string
	for _, v := range pod.Spec.Volumes {
		all = append(all, v.Name)
	}
	return all
}

func (m *model) fail(format string, args ...any) {
	m.t.Helper()
	m.Note("FAILURE: "+format, args...)
	m.t.Errorf(format, args...)
}

// look finds out which volumes are wanted where.
func (m *model) look() map[place]bool {
	now := map[place]bool{}
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		for _, handle := range handlesOf(pod) {
			if at := (place{volumeName(handle), pod.Spec.NodeName}); !volumes.IsTerminated(pod) {
				now[at] = true
				if n, exists := m.nodeOf(at.node); exists && (pod.Status.Phase == corev1.PodRunning || conditionOf(n).healthy) {
					m.wanted[at] = m.Clock.Now()
				}
			}
		}
	}
	return now
}

func lists(n *corev1.Node, handle string) bool { return reports(n, volumeName(handle)) }

func isUsed(n *corev1.Node, handle string) bool {
	return slices.Contains(n.Status.VolumesInUse, volumeName(handle))
}

// admit checks that no volume for one node is to be attached to another one while the first one is told that it has it.
func (m *model) admit(o runtime.Object) {
	va, ok := o.(*storagev1.VolumeAttachment)
	if !ok || !isExclusive(handleOf(va)) || m.disturbed[handleOf(va)] {
		return
	}
	handle := handleOf(va)
	for _, name := range modelNodes {
		other, attached := m.attachmentOf(handle, name)
		n, exists := m.nodeOf(name)
		if attached && exists && other.Status.Attached && other.DeletionTimestamp == nil && lists(n, handle) {
			m.fail("%s is to be attached to %s while %s has it", handle, va.Spec.NodeName, name)
		}
	}
}

// deleted checks that a volume is not detached that is in use, unless that is forced by the rules.
func (m *model) deleted(o runtime.Object) {
	va := o.(*storagev1.VolumeAttachment)
	m.requested[va.UID] = true
	handle, name := handleOf(va), va.Spec.NodeName
	at := place{volumeName(handle), name}
	wanted := m.look()
	n, exists := m.nodeOf(name)
	if exists && lists(n, handle) {
		m.fail("%s is detached from %s, which is told that it has it", handle, name)
	}
	if !m.machines[name].uses(handle) {
		return
	}
	is := conditionOf(n)
	m.excused[va.UID] = true
	if is.outOfService || !is.healthy && !wanted[at] && m.Clock.Since(m.wanted[at]) > maxWait {
		m.Note("forced: %s from %s", handle, name)
		return
	}
	m.fail("%s is detached from %s, which uses it: %+v, wanted %v", handle, name, is, wanted[at])
}

// validate checks that no node is told of a volume whose detach was requested.
func (m *model) validate(old, new runtime.Object) error {
	was, ok := old.(*corev1.Node)
	if !ok {
		return nil
	}
	for _, handle := range modelVolumes {
		if lists(was, handle) && !lists(new.(*corev1.Node), handle) && isUsed(was, handle) {
			m.machines[was.Name].mounting[handle] = true
		}
		if lists(was, handle) || !lists(new.(*corev1.Node), handle) {
			continue
		}
		if va, ok := m.attachmentOf(handle, was.Name); (!ok || m.requested[va.UID]) && !m.disturbed[handle] {
			m.fail("%s is told that it has %s", was.Name, handle)
		}
	}
	return nil
}

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

func (m *model) run() {
	for _, handle := range modelVolumes {
		claim := m.Create(aClaim(handle)).(*corev1.PersistentVolumeClaim)
		mode := corev1.ReadWriteMany
		if isExclusive(handle) {
			mode = once
		}
		pv := aVolume(handle, mode)
		pv.Spec.ClaimRef.UID = claim.UID
		m.Create(pv)
		m.stored[handle] = map[string]bool{}
	}
	for _, name := range modelNodes {
		m.machines[name] = ptr.To(newMachine())
		m.start(name)
	}
	m.Admit, m.Validate, m.Deleted = m.admit, m.validate, m.deleted
	m.Start = m.begin
	m.Hasty = m.Rand.IntN(4)
	m.Begin()
	m.Play(func() {
		if m.OneIn(3) {
			m.user()
		} else {
			m.others(false)
		}
	}, m.user)
	m.look()
	for _, name := range modelNodes {
		m.heal(name)
	}
	taken := map[string]string{}
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		for _, handle := range handlesOf(pod) {
			if on := taken[handle]; isExclusive(handle) && on != "" && on != pod.Spec.NodeName {
				m.Delete(pod, nil)
				break
			}
			taken[handle] = pod.Spec.NodeName
		}
	}
	m.Settle(30*time.Minute, func() bool { return m.others(true) })
	for _, name := range modelNodes { // its kubelet reports at least every five minutes
		n, _ := m.nodeOf(name)
		simulation.Change(m.World, n, func(n *corev1.Node) {
			n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(m.Clock.Now())
		})
	}
	m.Settle(30*time.Minute, func() bool { return m.others(true) })
	m.check()
}

func (m *model) begin(env controller.Env, _ any) simulation.Instance {
	c := must.Get(newController(env, config{verifyPeriod: time.Minute, flexDirectory: m.flexDirectory}))(m.t)
	places, nodes := simulation.NewQueue(m.World, c.reconcile), simulation.NewQueue(m.World, c.reconcileNode)
	pods, claims := simulation.NewQueue(m.World, c.reconcilePod), simulation.NewQueue(m.World, c.reconcileClaim)
	c.placeQueue, c.nodeQueue, c.podQueue, c.claimQueue = places, nodes, pods, claims
	var passes *simulation.Queue[string]
	passes = simulation.NewQueue(m.World, func(ctx context.Context, _ string) error {
		c.verify(ctx, ctx)
		passes.AddAfter("pass", time.Minute)
		return nil
	})
	passes.AddAfter("pass", time.Minute)
	must.Succeed(m.t, c.begin(m.Context()))
	m.c = c
	places.AnyOrder, nodes.AnyOrder, pods.AnyOrder, claims.AnyOrder = true, true, true, true
	return simulation.Instance{
		Runners: []simulation.Runner{places, nodes, pods, claims, passes}, HandOver: func() any { return c.HandOver() },
	}
}

func (m *model) check() {
	wanted := m.look()
	for _, name := range modelNodes {
		n, _ := m.nodeOf(name)
		for _, handle := range modelVolumes {
			at := place{volumeName(handle), name}
			va, there := m.attachmentOf(handle, name)
			switch {
			case wanted[at] && !(there && va.Status.Attached && lists(n, handle) && m.machines[name].mounted[handle]):
				m.fail("%s@%s is not there: %v, %v", handle, name, there, n.Status)
			case !wanted[at] && (there || lists(n, handle)):
				m.fail("%s@%s stays: %v, %v", handle, name, there, n.Status)
			}
		}
	}
	if len(m.c.world.links) != len(wanted) || len(m.c.world.doubtful) > 0 || len(m.c.world.incomplete) > 0 {
		m.fail("remembers %v, %v, %v", m.c.world.links, m.c.world.doubtful, m.c.world.incomplete)
	}
}

// TestWhateverHappensNoVolumeIsTakenAway has nodes fail, recreated and cut off, pods moved, attaches and requests fail
// and the controller restarted, while the caches are behind. No volume is taken away from a node that uses it, and in
// the end each is where it is wanted, and nowhere else.
func TestWhateverHappensNoVolumeIsTakenAway(t *testing.T) {
	simulation.Run(t, 30, func(t *testing.T, w *simulation.World) {
		m := &model{
			World: w, t: t, flexDirectory: t.TempDir(), machines: map[string]*machine{}, stored: map[string]map[string]bool{},
			wanted: map[place]time.Time{}, excused: map[types.UID]bool{}, requested: map[types.UID]bool{},
			disturbed: map[string]bool{},
		}
		m.run()
	})
}
