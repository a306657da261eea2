package pvbinder

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// shares is a world with volumes that are emptied by pods when their claims are gone. A volume is on the share of its
// name, whatever its UID.
type shares struct {
	*simulation.World
	t       *testing.T
	running *simulation.Running
	c       *binderController
	watches []*podWatch
	// stored has the claim that has stored something on a share, by its UID; empty if there is nothing.
	stored map[string]types.UID
	// excused are shares that a user has freed while a pod was emptying them, until that is gone.
	excused map[string]bool
	// settles is set in the end: nothing fails any more, and watches show everything at once.
	settles bool
	// settled waits until the goroutines of the controller rest.
	settled func()
}

// podWatch is a watch of a recycler pod.
type podWatch struct {
	*watch.RaceFreeFakeWatcher
	key   types.NamespacedName
	shown *corev1.Pod
}

const recyclerPrefix = "recycler-for-"

func (m *shares) fail(format string, args ...any) {
	m.Note("FAILURE: "+format, args...)
	m.t.Errorf(format, args...)
}

// beginWatch answers the requests to watch a recycler pod, and the events about it, of which there are none.
func (m *shares) beginWatch(action clienttesting.Action) (bool, watch.Interface, error) {
	a := action.(clienttesting.WatchActionImpl)
	w := &podWatch{RaceFreeFakeWatcher: watch.NewRaceFreeFake()}
	if action.GetResource().Resource == "pods" {
		name, _ := a.WatchRestrictions.Fields.RequiresExactMatch("metadata.name")
		w.key = types.NamespacedName{Namespace: a.GetNamespace(), Name: name}
		m.feed(w)
	}
	m.watches = append(m.watches, w)
	return true, w, nil
}

// feed has a watch show what has become of its pod.
func (m *shares) feed(w *podWatch) {
	if w.IsStopped() || w.key.Name == "" {
		return
	}
	pod, ok := simulation.Get[*corev1.Pod](m.World, w.key.Namespace, w.key.Name)
	if w.shown != nil && (!ok || pod.UID != w.shown.UID) {
		w.Delete(w.shown)
		w.shown = nil
	}
	switch {
	case !ok || w.shown != nil && w.shown.ResourceVersion == pod.ResourceVersion:
	case w.shown == nil:
		w.shown = pod
		w.Add(pod)
	default:
		w.shown = pod
		w.Modify(pod)
	}
}

// feedAll feeds all watches, or some. Now and then they end.
func (m *shares) feedAll(all bool) {
	for _, w := range m.watches {
		if all || m.OneIn(2) {
			m.feed(w)
			m.settled() // what sees it rests again before anything else happens
		}
	}
	if all || !m.OneIn(30) {
		return
	}
	ended := m.watches
	m.watches = nil
	for _, w := range ended {
		w.Stop()
		m.settled()
	}
}

func (m *shares) volumeOf(name string) *pv {
	v, _ := simulation.Get[*pv](m.World, "", name)
	return v
}

// owner returns the claim that a volume belongs to, nil if there is none.
func (m *shares) owner(v *pv) *pvc {
	if v == nil || uidIn(v) == "" {
		return nil
	}
	for _, c := range simulation.All[*pvc](m.World) {
		if c.UID == uidIn(v) && c.Spec.VolumeName == v.Name && c.Status.Phase == corev1.ClaimBound {
			return c
		}
	}
	return nil
}

// others are the kubelets, the pods of users, and the protection of claims and volumes.
func (m *shares) others(all bool) bool {
	did := false
	for _, c := range simulation.All[*pvc](m.World) {
		v := m.volumeOf(c.Spec.VolumeName)
		if owner := m.owner(v); owner == c && m.stored[v.Name] != c.UID && (all || m.OneIn(2)) {
			m.Note("%s %s stores something on %s", c.Name, c.UID, v.Name)
			m.stored[v.Name] = c.UID
			did = true
		}
	}
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		if all || m.OneIn(3) {
			did = m.kubelet(pod, all) || did
		}
	}
	return did
}

// kubelet takes the next step with a recycler pod, which empties its share while it runs.
func (m *shares) kubelet(pod *corev1.Pod, all bool) bool {
	share := strings.TrimPrefix(pod.Name, recyclerPrefix)
	switch {
	case pod.DeletionTimestamp != nil:
		m.Delete(pod, ptr.To[int64](0))
	case pod.Spec.NodeName == "":
		simulation.Change(m.World, pod, func(p *corev1.Pod) { p.Spec.NodeName = "n" })
	case pod.Status.Phase == corev1.PodPending:
		simulation.Change(m.World, pod, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
	case pod.Status.Phase == corev1.PodRunning:
		m.Note("%s %s empties %s", pod.Name, pod.UID, share)
		if c := m.owner(m.volumeOf(share)); c != nil && m.stored[share] == c.UID && !m.excused[share] {
			m.fail("pod %s %s deletes what %s %s has stored on %s", pod.Name, pod.UID, c.Name, c.UID, share)
		}
		m.stored[share] = ""
		if !all && m.OneIn(2) {
			return true
		}
		phase := corev1.PodSucceeded
		if !all && m.OneIn(4) {
			phase = corev1.PodFailed
		}
		simulation.Change(m.World, pod, func(p *corev1.Pod) { p.Status.Phase = phase })
	default:
		return false
	}
	return true
}

func (m *shares) newVolume(name string) {
	v := aVolume(name, policy(corev1.PersistentVolumeReclaimRecycle), onNFS)
	v.UID, v.ResourceVersion = "", ""
	m.Create(v)
}

// user has claims and volumes come and go, frees volumes, and changes their policies.
func (m *shares) user() {
	n := m.Rand.IntN
	switch n(6) {
	case 0, 1, 2:
		name := fmt.Sprint("c", n(3))
		c, there := simulation.Get[*pvc](m.World, namespace, name)
		if there {
			m.Delete(c, nil)
		} else {
			c := aClaim()
			c.Name, c.UID, c.ResourceVersion = name, "", ""
			m.Create(c)
		}
	case 3:
		name := fmt.Sprint("v", n(2))
		v := m.volumeOf(name)
		switch {
		case v == nil:
			m.newVolume(name)
		case m.owner(v) == nil && n(3) == 0:
			m.Delete(v, nil)
			m.excused[name] = m.excused[name] || m.hasPod(name)
		}
	case 4:
		v := m.volumeOf(fmt.Sprint("v", n(2)))
		if v != nil && isOver(v) {
			m.Note("user frees %s", v.Name)
			m.excused[v.Name] = m.excused[v.Name] || m.hasPod(v.Name)
			m.stored[v.Name] = ""
			simulation.Change(m.World, v, func(v *pv) { v.Spec.ClaimRef = nil })
		}
	case 5:
		v := m.volumeOf(fmt.Sprint("v", n(2)))
		if v != nil {
			m.Note("user changes the policy of %s", v.Name)
			simulation.Change(m.World, v, policy([]corev1.PersistentVolumeReclaimPolicy{
				corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain,
			}[n(2)]))
		}
	}
}

func (m *shares) hasPod(share string) bool {
	_, ok := simulation.Get[*corev1.Pod](m.World, metav1.NamespaceDefault, recyclerPrefix+share)
	return ok
}

// validate checks that no volume is free that has not been emptied.
func (m *shares) validate(old, new runtime.Object) error {
	was, ok := old.(*pv)
	if !ok {
		return nil
	}
	is := new.(*pv)
	if uidIn(was) != "" && uidIn(is) == "" && m.stored[is.Name] != "" {
		return fmt.Errorf("%s is free, and has what %s stored", is.Name, m.stored[is.Name])
	}
	return nil
}

func (m *shares) start(env controller.Env, left any) simulation.Instance {
	if m.running != nil && left == nil {
		m.running.Kill()
		m.DropLate() // nobody knows of the pods of an instance that was killed
		for _, pod := range simulation.All[*corev1.Pod](m.World) {
			m.Delete(pod, ptr.To[int64](0))
		}
	}
	m.running = simulation.RunFree(m.World, env, func(env controller.Env) controller.Controller {
		m.c = must.Get(newController(env, defaults()))(m.t)
		m.SyncHandlers()
		return m.c
	})
	return simulation.Instance{HandOver: func() any {
		m.running.Stop()
		return m.c.HandOver()
	}}
}

func (m *shares) run() {
	m.settled = m.Rest
	m.Rest = func() {
		m.settled()
		for _, pod := range []string{"v0", "v1"} {
			if !m.hasPod(pod) {
				delete(m.excused, pod)
			}
		}
		m.feedAll(m.settles)
	}
	m.Fake.PrependWatchReactor("*", m.beginWatch)
	m.Validate = m.validate
	m.Admit = func(o runtime.Object) {
		switch o := o.(type) {
		case *pvc:
			o.Status.Phase = corev1.ClaimPending
		case *pv:
			o.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending}
		}
	}
	m.Start = m.start
	m.MayBeLossy(2)
	m.MayComeLate = simulation.AnyWrite
	m.newVolume("v0")
	m.newVolume("v1")
	m.Begin()
	m.Play(func() { m.others(false) }, func() {
		for range 1 + m.Rand.IntN(3) {
			m.user()
		}
	})
	m.Faulty, m.settles = false, true
	m.Settle(0, nil)
	for range 60 {
		m.Pass(15 * time.Second)
		m.Drain()
		m.others(true)
		m.Drain()
	}
	for _, v := range simulation.All[*pv](m.World) {
		if uidIn(v) != "" && m.owner(v) == nil && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
			m.fail("%s stays %s", v.Name, v.Status.Phase)
		}
	}
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		m.fail("%s stays", pod.Name)
	}
	m.running.Stop()
}

// TestWhateverHappensNoPodEmptiesAVolumeInUse has claims and volumes come and go, volumes freed and kept while pods
// empty them, watches end, requests fail and the controller restarted, while the caches are behind or incomplete. No
// pod deletes what the claim of a volume has stored, no volume is free before it is empty, and in the end no pod stays.
func TestWhateverHappensNoPodEmptiesAVolumeInUse(t *testing.T) {
	simulation.RunInBubbles(t, 40, func(t *testing.T, w *simulation.World) {
		(&shares{World: w, t: t, stored: map[string]types.UID{}, excused: map[string]bool{}}).run()
	})
}
