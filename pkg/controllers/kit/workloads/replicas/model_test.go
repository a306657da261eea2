package replicas

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with an owner.
type model struct {
	*simulation.World
	unready int // how many of ten pods lose their readiness, or fail
	most    int32
}

func (m *model) owner() (*appsv1.ReplicaSet, bool) {
	return simulation.Get[*appsv1.ReplicaSet](m.World, key.Namespace, key.Name)
}

// others are the kubelet and the garbage collector.
func (m *model) others(all bool) bool {
	did := false
	rs, ok := m.owner()
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		if !all && m.Rand.IntN(3) > 0 {
			continue
		}
		change := func(what string, c func(*corev1.Pod)) {
			m.Note("%s %s", pod.Name, what)
			simulation.Change(m.World, pod, c)
			did = true
		}
		ready := func(status corev1.ConditionStatus) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.Status.Phase, p.Spec.NodeName = corev1.PodRunning, "n"
				p.Status.Conditions = []corev1.PodCondition{{
					Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(m.Clock.Now().Truncate(time.Second)),
				}}
			}
		}
		ref := metav1.GetControllerOf(pod)
		switch {
		case pod.DeletionTimestamp != nil && !pods.IsTerminal(pod) && m.OneIn(2):
			change("failed", inPhase(corev1.PodFailed))
		case pod.DeletionTimestamp != nil:
			change("is removed", func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](0) })
		case ref != nil && (!ok || ref.UID != rs.UID):
			m.Delete(pod, nil)
			did = true
		case pods.IsTerminal(pod):
		case pod.Status.Phase == corev1.PodPending:
			change("runs", ready(corev1.ConditionFalse))
		case !pods.IsReady(pod):
			change("is ready", ready(corev1.ConditionTrue))
		case !all && m.Rand.IntN(10) < m.unready && m.OneIn(3):
			change("failed", inPhase(corev1.PodFailed))
		case !all && m.Rand.IntN(10) < m.unready:
			change("is not ready", ready(corev1.ConditionFalse))
		}
	}
	return did
}

func (m *model) users() {
	n := m.Rand.IntN
	rs, ok := m.owner()
	if !ok {
		m.create()
		return
	}
	all := simulation.All[*corev1.Pod](m.World)
	switch n(7) {
	case 0, 1:
		m.Note("user scales")
		m.most = max(m.most, *rs.Spec.Replicas)
		simulation.Change(m.World, rs, func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = ptr.To(int32(n(6))) })
		rs, _ = m.owner()
		m.most = max(m.most, *rs.Spec.Replicas)
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
	}
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
// requests fail and the controller restarted, while the caches are behind. While no request fails, there are never
// more pods than once were wanted.
func TestWhateverHappensThereAreAsManyPodsInTheEnd(t *testing.T) {
	simulation.Run(t, 60, func(t *testing.T, w *simulation.World) { (&model{World: w}).run(t) })
}

func (m *model) run(t *testing.T) {
	m.unready = m.Rand.IntN(5)
	options := Options{Queue: "test", Workers: 1, CountTerminating: m.OneIn(2), RequireFresh: m.OneIn(2)}
	m.Start = func(env controller.Env, left any) simulation.Instance {
		kind := testKind(m.Env)
		kind.UpdateStatus = func(ctx context.Context, rs *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
			return env.Client.AppsV1().ReplicaSets(rs.Namespace).UpdateStatus(ctx, rs, metav1.UpdateOptions{})
		}
		engine := must.Get(New(env, kind, options))(t)
		queue := simulation.NewQueue(m.World, engine.owners.Reconcile)
		engine.owners.Queue = queue
		if left != nil {
			engine.owners.Writes.TakeOver(left.(writes.State))
		}
		return simulation.Instance{
			Runners: []simulation.Runner{queue}, HandOver: func() any { return engine.owners.HandOver() },
		}
	}
	m.Admit = func(o runtime.Object) {
		pod, ok := o.(*corev1.Pod)
		if !ok || m.Faulty || metav1.GetControllerOf(pod) == nil {
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
	m.Begin()
	m.Play(func() { m.others(false) }, m.users)
	m.Settle(time.Hour, func() bool { return m.others(true) })
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
