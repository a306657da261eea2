package attachdetach

import (
	"context"
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
	"kcmd.dev/pkg/controllers/kit/reconcile"
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
	// mounted has the volumes that are mounted; mounting has those that were withdrawn from volumesAttached while in use,
	// which the kubelet may yet mount: it may have read them before.
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
	// hidden are VolumeAttachments that an instance could not know of when it began: the lists lacked them, and the nodes
	// that report their volumes.
	hidden map[types.UID]bool
	// optional is set once the driver has required no attach. What is not wanted then may be detached by force.
	optional bool
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
		if attached && exists && other.Status.Attached && other.DeletionTimestamp == nil && lists(n, handle) && !m.isHidden(other) {
			m.fail("%s is to be attached to %s while %s has it", handle, va.Spec.NodeName, name)
		}
	}
}

// isHidden reports whether the controller cannot know of a VolumeAttachment. The storage refuses to attach its volume
// to another node meanwhile.
func (m *model) isHidden(va *storagev1.VolumeAttachment) bool {
	return m.hidden[va.UID] && m.c.world.links[place{volumeName(handleOf(va)), va.Spec.NodeName}] == nil
}

// hide finds out which VolumeAttachments an instance that begins cannot know of.
func (m *model) hide(from *attachDetachController) {
	clear(m.hidden)
	for _, va := range simulation.All[*storagev1.VolumeAttachment](m.World) {
		_, isShown, err := reconcile.Found(from.attachments.Get(va.Name))
		must.Succeed(m.t, err)
		n, _, err := reconcile.Found(from.nodes.Get(va.Spec.NodeName))
		must.Succeed(m.t, err)
		m.hidden[va.UID] = !isShown && (n == nil || !lists(n, handleOf(va)))
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
	since := m.Clock.Since(m.wanted[at])
	if is.outOfService || !is.healthy && (m.optional || !wanted[at] && since > maxWait) {
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
		if m.IsLateWrite() {
			continue // a report has no resource version, and is corrected when the cache shows it
		}
		if va, ok := m.attachmentOf(handle, was.Name); (!ok || m.requested[va.UID]) && !m.disturbed[handle] {
			m.fail("%s is told that it has %s", was.Name, handle)
		}
	}
	return nil
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
	m.MayBeLossy(2)
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Play(func() {
		if m.OneIn(3) {
			m.user()
		} else {
			m.others(false)
		}
	}, m.user)
	m.look()
	m.requireAttach(true)
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

func (m *model) begin(env controller.Env, left any) simulation.Instance {
	if left == nil {
		m.DropLate() // nobody knows of the deletions that an instance which was killed has sent
	}
	c := must.Get(newController(env, config{verifyPeriod: time.Minute, flexDirectory: m.flexDirectory}))(m.t)
	places, nodes := simulation.NewQueue(m.World, c.reconcile), simulation.NewQueue(m.World, c.reconcileNode)
	pods, claims := simulation.NewQueue(m.World, c.reconcilePod), simulation.NewQueue(m.World, c.reconcileClaim)
	c.placeQueue, c.nodeQueue, c.podQueue, c.claimQueue = places, nodes, pods, claims
	passes := simulation.NewPasses(m.World, time.Minute, time.Minute, func(ctx context.Context) { c.verify(ctx, ctx) })
	retries := simulation.NewPasses(m.World, retryPeriod, retryPeriod, func(ctx context.Context) { c.retry(ctx, ctx) })
	must.Succeed(m.t, c.begin(m.Context()))
	m.hide(c)
	m.c = c
	places.AnyOrder, nodes.AnyOrder, pods.AnyOrder, claims.AnyOrder = true, true, true, true
	return simulation.Instance{
		Runners: []simulation.Runner{places, nodes, pods, claims, passes, retries}, HandOver: func() any { return c.HandOver() },
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
// and the controller restarted, while the caches are behind or incomplete. No volume is taken away from a node that
// uses it, and in the end each is where it is wanted, and nowhere else.
func TestWhateverHappensNoVolumeIsTakenAway(t *testing.T) {
	simulation.Run(t, 30, func(t *testing.T, w *simulation.World) {
		m := &model{
			World: w, t: t, flexDirectory: t.TempDir(), machines: map[string]*machine{}, stored: map[string]map[string]bool{},
			wanted: map[place]time.Time{}, excused: map[types.UID]bool{}, requested: map[types.UID]bool{},
			disturbed: map[string]bool{}, hidden: map[types.UID]bool{},
		}
		m.run()
	})
}
