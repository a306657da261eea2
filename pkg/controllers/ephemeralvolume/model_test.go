package ephemeralvolume

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world in which pods with ephemeral volumes come and go under the same names, and so do claims.
type model struct {
	*simulation.World
	t       *testing.T
	kubelet simulation.Kubelet
	// all has each pod that ever was, by its UID.
	all map[types.UID]*corev1.Pod
}

// refuse checks a claim that the controller creates.
func (m *model) refuse(o runtime.Object) error {
	c := o.(*corev1.PersistentVolumeClaim)
	owner := metav1.GetControllerOf(c)
	if owner == nil || m.all[owner.UID] == nil || m.all[owner.UID].Name != owner.Name {
		m.t.Errorf("claim %s is created for %v, which never was", c.Name, owner)
		return nil
	}
	for _, v := range m.all[owner.UID].Spec.Volumes {
		if v.Ephemeral == nil || c.Name != owner.Name+"-"+v.Name {
			continue
		}
		template := v.Ephemeral.VolumeClaimTemplate
		if !apiequality.Semantic.DeepEqual(c.Spec, template.Spec) || !apiequality.Semantic.DeepEqual(c.Labels, template.Labels) {
			m.t.Errorf("claim %s is not like the template of volume %s of pod %s", c.Name, v.Name, owner.UID)
		}
		return nil
	}
	m.t.Errorf("claim %s is created, which pod %s does not want", c.Name, owner.UID)
	return nil
}

func (m *model) newPod(name string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for _, volume := range []string{"data", "cache"} {
		if m.OneIn(2) {
			ephemeralVolume(volume)(pod)
			template := pod.Spec.Volumes[len(pod.Spec.Volumes)-1].Ephemeral.VolumeClaimTemplate
			template.Labels = map[string]string{"generation": fmt.Sprint(m.Rand.IntN(1000))}
		}
	}
	created := m.Create(pod).(*corev1.Pod)
	m.all[created.UID] = created
}

func (m *model) user() {
	n := m.Rand.IntN
	name := fmt.Sprint("p", n(3))
	pod, exists := simulation.Get[*corev1.Pod](m.World, namespace, name)
	switch {
	case !exists && n(2) == 0:
		m.newPod(name)
	case exists && pod.DeletionTimestamp == nil && n(6) == 0:
		m.Delete(pod, nil)
	default:
		m.actOnClaim(name + []string{"-data", "-cache"}[n(2)])
	}
}

func (m *model) actOnClaim(name string) {
	n := m.Rand.IntN
	switch c, ok := simulation.Get[*corev1.PersistentVolumeClaim](m.World, namespace, name); {
	case !ok && n(4) == 0:
		m.Create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	case !ok:
	case len(c.Finalizers) > 0 && c.DeletionTimestamp != nil:
		simulation.Change(m.World, c, func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil })
	case n(6) == 0:
		simulation.Change(m.World, c, func(c *corev1.PersistentVolumeClaim) { c.Finalizers = []string{"kubernetes.io/pvc-protection"} })
	default:
		m.Delete(c, nil)
		if n(2) == 0 {
			m.Relist(c) // the watch breaks, and no event shows the deletion
		}
	}
}

// others are kubelets, garbage collection and the protection of claims.
func (m *model) others(all bool) bool {
	did := m.kubelet.Act(all)
	if all && simulation.Release[*corev1.PersistentVolumeClaim](m.World, true) {
		did = true
	}
	return m.CollectGarbage() || did
}

// TestWhateverHappensPodsHaveTheirOwnClaimsInTheEnd has pods and claims deleted and created again, requests fail and
// the controller restarted, while the caches are behind and lack objects. Nobody else's claim is touched.
func TestWhateverHappensPodsHaveTheirOwnClaimsInTheEnd(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		(&model{World: w, t: t, all: map[types.UID]*corev1.Pod{}}).run()
	})
}

func (m *model) run() {
	m.kubelet = simulation.Kubelet{World: m.World, Unready: 3}
	m.Start = func(env controller.Env, _ any) simulation.Instance {
		c := must.Get(newController(env, config{workers: 1}))(m.t)
		queue := simulation.NewQueue(m.World, c.reconcile)
		queue.AnyOrder = true
		c.queue = queue
		return simulation.Instance{Runners: []simulation.Runner{queue}}
	}
	m.Refuse = m.refuse
	m.Validate = func(runtime.Object, runtime.Object) error { return fmt.Errorf("nothing is to be changed") }
	m.Deleted = func(o runtime.Object) { m.t.Errorf("%v is deleted", o) }
	m.Hasty = []int{0, 3, 10}[m.Rand.IntN(3)]
	if m.OneIn(2) {
		m.Lossy = func(runtime.Object) bool { return m.OneIn(3) }
	}
	for range 3 {
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
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		m.check(pod)
	}
}

// check checks the claims of a pod, up to the first one that the pod does not get since another of that name exists.
func (m *model) check(pod *corev1.Pod) {
	for _, v := range pod.Spec.Volumes {
		c, ok := simulation.Get[*corev1.PersistentVolumeClaim](m.World, namespace, pod.Name+"-"+v.Name)
		switch {
		case !ok:
			m.t.Errorf("pod %s has no claim for its volume %s", pod.Name, v.Name)
		case metav1.GetControllerOf(c) != nil && !metav1.IsControlledBy(c, pod):
			m.t.Errorf("claim %s stays, although its pod is gone", c.Name)
		case !metav1.IsControlledBy(c, pod):
			return
		}
	}
}
