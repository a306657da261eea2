package pvcprotection

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/volumes"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

const (
	// waitsForClaims is a finalizer of pods that stay until their own claims are gone.
	waitsForClaims = "example.com/claims"
	unschedulable  = "unschedulable"
)

// model is a world in which claims and pods of the same names come and go.
type model struct {
	*simulation.World
	t       *testing.T
	kubelet simulation.Kubelet
	gate    bool
	// holds are the claims that a pod may write to, by the UID of the pod: those that existed, and were not being
	// deleted, when it was bound.
	holds map[types.UID]map[types.UID]bool
}

func (m *model) pods() []*corev1.Pod { return simulation.All[*corev1.Pod](m.World) }

// referTo returns the claims that exist under the names that a pod refers to.
func (m *model) referTo(pod *corev1.Pod) []*corev1.PersistentVolumeClaim {
	var all []*corev1.PersistentVolumeClaim
	for _, v := range pod.Spec.Volumes {
		name := pod.Name + "-" + v.Name
		if v.PersistentVolumeClaim != nil {
			name = v.PersistentVolumeClaim.ClaimName
		}
		c, ok := simulation.Get[*corev1.PersistentVolumeClaim](m.World, pod.Namespace, name)
		if ok && (v.Ephemeral == nil || metav1.IsControlledBy(c, pod)) {
			all = append(all, c)
		}
	}
	return all
}

// validate checks an update of the controller.
func (m *model) validate(old, new runtime.Object) error {
	was, is := old.(*corev1.PersistentVolumeClaim), new.(*corev1.PersistentVolumeClaim)
	if !slices.Contains(was.Finalizers, string(finalizer)) || slices.Contains(is.Finalizers, string(finalizer)) {
		return nil
	}
	if was.DeletionTimestamp == nil {
		return errors.New("the claim is not being deleted")
	}
	for _, pod := range m.pods() {
		isOver := metav1.IsControlledBy(was, pod) && isShutDown(pod)
		if m.holds[pod.UID][was.UID] && !isOver {
			m.t.Errorf("claim %s %s goes, which pod %s %s uses", was.Name, was.UID, pod.Name, pod.UID)
		}
	}
	return nil
}

// others are scheduler, kubelets and garbage collection.
func (m *model) others(all bool) bool {
	did := m.kubelet.Act(all)
	for _, pod := range m.pods() {
		if pod.Spec.NodeName != "" && m.holds[pod.UID] == nil {
			m.holds[pod.UID] = map[types.UID]bool{}
			for _, c := range m.referTo(pod) {
				m.holds[pod.UID][c.UID] = c.DeletionTimestamp == nil
			}
		}
		if isShutDown(pod) && m.endsWithItsClaims(pod) {
			did = true
		}
	}
	return m.CollectGarbage() || did
}

// endsWithItsClaims deletes the claims that a pod controls, as foreground deletion does, and then has the pod go.
func (m *model) endsWithItsClaims(pod *corev1.Pod) bool {
	did, stays := false, false
	for _, c := range m.referTo(pod) {
		if !metav1.IsControlledBy(c, pod) {
			continue
		}
		stays = true
		if c.DeletionTimestamp == nil {
			m.Delete(c, nil)
			did = true
		}
	}
	if !stays {
		simulation.Change(m.World, pod, func(p *corev1.Pod) { p.Finalizers = nil })
	}
	return did || !stays
}

func (m *model) newPod(namespace, name string) {
	n := m.Rand.IntN
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}}}
	if n(2) == 0 {
		referring(fmt.Sprint("c", n(3)))(p)
	}
	if n(3) == 0 {
		referring(fmt.Sprint("c", 3))(p)
	}
	if n(2) == 0 {
		ephemeral("v")(p)
	}
	if n(4) == 0 {
		p.Labels[unschedulable] = ""
	}
	if n(4) == 0 {
		p.Finalizers = []string{waitsForClaims}
	}
	pod := m.Create(p).(*corev1.Pod)
	if _, exists := simulation.Get[*corev1.PersistentVolumeClaim](m.World, namespace, name+"-v"); !exists && n(4) > 0 {
		m.newClaim(namespace, name+"-v", madeFor(pod))
	}
}

func (m *model) newClaim(namespace, name string, changes ...func(*corev1.PersistentVolumeClaim)) {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if m.Rand.IntN(4) > 0 {
		c.Finalizers = []string{string(finalizer)}
	}
	for _, change := range changes {
		change(c)
	}
	m.Create(c)
}

func (m *model) user() {
	n := m.Rand.IntN
	namespace := []string{"a", "a", "b"}[n(3)]
	if all := m.pods(); len(all) > 0 && n(3) == 0 {
		for _, c := range m.referTo(all[n(len(all))]) {
			if c.DeletionTimestamp == nil {
				m.Delete(c, nil)
			}
		}
		return
	}
	if n(2) == 0 {
		name := fmt.Sprint("p", n(4))
		switch pod, ok := simulation.Get[*corev1.Pod](m.World, namespace, name); {
		case !ok:
			m.newPod(namespace, name)
		case pod.DeletionTimestamp == nil:
			m.Delete(pod, nil)
		}
		return
	}
	name := []string{"c0", "c1", "c2", "c3", "p0-v", "p1-v"}[n(6)]
	switch c, ok := simulation.Get[*corev1.PersistentVolumeClaim](m.World, namespace, name); {
	case !ok:
		m.newClaim(namespace, name)
	case c.DeletionTimestamp == nil && n(3) > 0:
		m.Delete(c, nil)
	case n(2) == 0:
		simulation.Change(m.World, c, func(c *corev1.PersistentVolumeClaim) {
			c.Labels = map[string]string{"changed": fmt.Sprint(n(100))}
		})
	}
}

// TestWhateverHappensNoClaimGoesBeforeItsPods has claims and pods deleted and created again, requests fail and the
// controller restarted, while the caches are behind and lack objects. No claim goes while a pod uses it, and in the end
// no claim stays that nothing holds.
func TestWhateverHappensNoClaimGoesBeforeItsPods(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		(&model{World: w, t: t, holds: map[types.UID]map[types.UID]bool{}}).run()
	})
}

func (m *model) run() {
	m.gate = m.OneIn(2)
	m.kubelet = simulation.Kubelet{World: m.World, Unready: 3, Waits: func(pod *corev1.Pod) bool {
		_, waits := pod.Labels[unschedulable]
		return isShutDown(pod) || waits && pod.Spec.NodeName == ""
	}}
	m.Start = func(env controller.Env, _ any) simulation.Instance {
		c := must.Get(newController(env, config{unusedSince: m.gate}))(m.t)
		queue := simulation.NewQueue(m.World, c.reconcile)
		queue.AnyOrder = true
		c.queue = queue
		return simulation.Instance{Runners: []simulation.Runner{queue}}
	}
	m.Validate = m.validate
	m.Hasty = []int{0, 3, 10}[m.Rand.IntN(3)]
	if m.OneIn(2) {
		m.Lossy = func(runtime.Object) bool { return m.OneIn(3) }
	}
	for range 4 {
		m.user()
	}
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Play(func() {
		if m.OneIn(2) {
			m.user()
		} else {
			m.others(false)
		}
	}, m.user)
	m.Settle(10*time.Minute, func() bool { return m.others(true) })
	for _, c := range simulation.All[*corev1.PersistentVolumeClaim](m.World) {
		m.check(c)
	}
}

func (m *model) check(c *corev1.PersistentVolumeClaim) {
	isHeld, isUsed := false, false
	for _, pod := range m.pods() {
		for _, of := range m.referTo(pod) {
			isHeld = isHeld || of == c && pod.Spec.NodeName != ""
			isUsed = isUsed || of == c && !volumes.IsTerminated(pod)
		}
	}
	switch {
	case c.DeletionTimestamp != nil && !isHeld:
		m.t.Errorf("claim %s/%s stays, although no pod holds it", c.Namespace, c.Name)
	case c.DeletionTimestamp == nil && !slices.Contains(c.Finalizers, string(finalizer)):
		m.t.Errorf("claim %s/%s is not protected", c.Namespace, c.Name)
	case m.gate && c.DeletionTimestamp == nil && (unusedCondition(c) == nil || isShownUnused(c) == isUsed):
		m.t.Errorf("claim %s/%s is used: %v, and has the conditions %+v", c.Namespace, c.Name, isUsed, c.Status.Conditions)
	}
}
