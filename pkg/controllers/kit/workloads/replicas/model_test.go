package replicas

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/simulation"
)

// model is a world with an owner.
type model struct {
	*simulation.World
	// most is the largest number of pods that was ever wanted.
	most int32
	// faulty is set once requests have failed, or may have: they may be carried out when nothing fails any more.
	faulty bool
	// strict is whether the controller waits for a cache that is behind however long.
	strict bool
}

func (m *model) owner() (*appsv1.ReplicaSet, bool) {
	return simulation.Get[*appsv1.ReplicaSet](m.World, key.Namespace, key.Name)
}

func (m *model) users() {
	n := m.Rand.IntN
	rs, ok := m.owner()
	if !ok {
		m.create()
		return
	}
	all := simulation.All[*corev1.Pod](m.World)
	switch n(8) {
	case 0, 1:
		m.scale(rs)
	case 2:
		if m.OneIn(4) {
			m.Delete(rs, nil)
		}
	case 3:
		if len(all) > 0 {
			m.Delete(all[n(len(all))], nil)
		}
	case 4, 5:
		if len(all) > 0 {
			pod := all[n(len(all))]
			m.Note("user changes labels or owners of %s", pod.Name)
			change := orphan
			if m.OneIn(2) {
				change = controllertest.Labeled(map[string]string{"app": []string{"a", "b"}[n(2)]})
			}
			simulation.Change(m.World, pod, change)
		}
	case 6:
		m.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, GenerateName: "bare-", Labels: appLabels}})
	case 7:
		if m.scale(rs); m.strict {
			m.Stall(&corev1.Pod{}, 2*writes.Timeout)
		}
	}
}

func (m *model) scale(rs *appsv1.ReplicaSet) {
	m.Note("user scales")
	m.most = max(m.most, *rs.Spec.Replicas)
	simulation.Change(m.World, rs, func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = ptr.To(int32(m.Rand.IntN(6))) })
	rs, _ = m.owner()
	m.most = max(m.most, *rs.Spec.Replicas)
}

func (m *model) create() {
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	rs.Spec.Replicas, rs.Spec.Selector = ptr.To(int32(m.Rand.IntN(6))), &metav1.LabelSelector{MatchLabels: appLabels}
	rs.Spec.Template.Labels = appLabels
	if m.OneIn(2) {
		rs.Spec.MinReadySeconds = int32(m.Rand.IntN(20))
	}
	m.most = max(m.most, *rs.Spec.Replicas)
	m.Create(rs)
}

// TestWhateverHappensThereAreAsManyPodsInTheEnd has pods fail, adopted and released, the owner scaled and recreated,
// requests fail and the controller restarted, while the caches are behind, even for long, or lack objects that exist. In
// a history in which no request fails and nothing is lacking, there are never more pods than once were wanted. In others
// there may be for a while, which is not checked: the answer to a create is lost, and the cache does not show the pod in
// time.
func TestWhateverHappensThereAreAsManyPodsInTheEnd(t *testing.T) {
	simulation.Run(t, 60, func(t *testing.T, w *simulation.World) { (&model{World: w}).run(t) })
}

func (m *model) run(t *testing.T) {
	kubelet := simulation.Kubelet{World: m.World, Unready: m.Rand.IntN(5)}
	options := Options{Queue: "test", Workers: 1, CountTerminating: m.OneIn(2), RequireFresh: m.OneIn(2)}
	m.strict = options.RequireFresh
	m.Start = func(env controller.Env, left any) simulation.Instance {
		kind := testKind(m.Env)
		kind.UpdateStatus = func(ctx context.Context, rs *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
			return env.Client.AppsV1().ReplicaSets(rs.Namespace).UpdateStatus(ctx, rs, metav1.UpdateOptions{})
		}
		return simulation.StartOwners(m.World, New(env, kind, options).owners, left)
	}
	m.MayBeLossy(2)
	lossy := m.Lossy != nil
	m.Admit = func(o runtime.Object) {
		m.faulty = m.faulty || m.Faulty
		pod, ok := o.(*corev1.Pod)
		if !ok || m.faulty || lossy || metav1.GetControllerOf(pod) == nil {
			return
		}
		active := int32(1)
		for _, other := range simulation.All[*corev1.Pod](m.World) {
			ref := metav1.GetControllerOf(other)
			if ref != nil && ref.UID == metav1.GetControllerOf(pod).UID && pods.IsActive(other) && other.Labels["app"] == "a" {
				active++
			}
		}
		if active > m.most {
			t.Errorf("%d pods are active, of %d", active, m.most)
		}
	}
	m.create()
	m.MayComeLate = simulation.AnyWrite
	kubelet.Live(m.CollectGarbage, m.users)
	rs, ok := m.owner()
	if !ok {
		return
	}
	n := int32(0)
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		if metav1.IsControlledBy(pod, rs) && pods.IsActive(pod) {
			n++
		}
		if metav1.GetControllerOf(pod) == nil && pods.IsActive(pod) && pod.Labels["app"] == "a" {
			t.Errorf("%s is not adopted", pod.Name)
		}
	}
	s := rs.Status
	if n != *rs.Spec.Replicas || s.Replicas != n || s.ReadyReplicas != n || s.AvailableReplicas != n ||
		s.ObservedGeneration != rs.Generation || len(s.Conditions) > 0 {
		t.Errorf("%d pods of %d, status %+v", n, *rs.Spec.Replicas, s)
	}
}
