package deployment

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/simulation"
)

// TestARecreationNeverRunsTwoVersions has caches of a Deployment with the strategy Recreate lack pods and ReplicaSets
// that exist, while its template and its replicas are edited. No ReplicaSet is given its first pods while one of
// another ReplicaSet of the Deployment may be running. A pause and a rollback by annotation, which do not wait for old
// pods, are left out, and so are late writes: nothing can stop a late create. Pins DEP-72.
func TestARecreationNeverRunsTwoVersions(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		m := &model{World: w}
		m.Hasty = []int{0, 30}[m.Rand.IntN(2)]
		m.Lossy = func(o runtime.Object) bool {
			_, ok := o.(*corev1.Pod)
			return ok || m.OneIn(3)
		}
		m.Refuse = func(created runtime.Object) error { return m.checkAlone(t, nil, created) }
		m.Validate = func(old, changed runtime.Object) error { return m.checkAlone(t, old, changed) }
		m.play(t, m.recreatingDeployment, m.editor)
		m.check(t)
	})
}

func (m *model) recreatingDeployment() *appsv1.Deployment {
	d := m.randomDeployment()
	d.Spec.Paused = false
	return controllertest.Changed(d, recreating)
}

// editor is a user who edits a Deployment with the strategy Recreate.
func (m *model) editor() {
	n := m.Rand.IntN
	d, ok := m.deployment()
	switch {
	case !ok:
		m.Create(m.recreatingDeployment())
	case n(2) == 0:
		v := fmt.Sprint("v", 1+n(3))
		m.Note("user sets image %s", v)
		simulation.Change(m.World, d, image(v))
	case n(2) == 0:
		k := int32(n(4))
		m.Note("user scales to %d", k)
		simulation.Change(m.World, d, func(d *appsv1.Deployment) { d.Spec.Replicas = &k })
	case n(8) == 0:
		m.Delete(d, nil)
	default:
		if all := simulation.All[*corev1.Pod](m.World); len(all) > 0 {
			if pod := all[n(len(all))]; pod.DeletionTimestamp == nil {
				m.Delete(pod, nil)
			}
		}
	}
}

// checkAlone checks a write of a ReplicaSet: whether a pod of another one of its Deployment may be running while it is
// given its first pods. old is nil if it is created.
func (m *model) checkAlone(t *testing.T, old, changed runtime.Object) error {
	rs, ok := changed.(*appsv1.ReplicaSet)
	if !ok || sizeOf(rs) == 0 {
		return nil
	}
	if was, ok := old.(*appsv1.ReplicaSet); ok && sizeOf(was) > 0 {
		return nil
	}
	ref := metav1.GetControllerOfNoCopy(rs)
	for _, other := range simulation.All[*appsv1.ReplicaSet](m.World) {
		if owner := metav1.GetControllerOfNoCopy(other); other.Name == rs.Name || owner == nil || owner.UID != ref.UID {
			continue
		}
		for _, pod := range simulation.All[*corev1.Pod](m.World) {
			if metav1.IsControlledBy(pod, other) && !pods.IsTerminal(pod) {
				t.Errorf("%s is given pods while %s of %s runs", rs.Name, pod.Name, other.Name)
			}
		}
	}
	return nil
}
