package podgroupprotection

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world in which PodGroups and their pods come and go.
type model struct {
	*simulation.World
	t *testing.T
}

// active returns the active pods of a group. All were created while the group was not being deleted.
func (m *model) active(group *schedulingv1alpha2.PodGroup) []*corev1.Pod {
	return slices.DeleteFunc(simulation.All[*corev1.Pod](m.World), func(pod *corev1.Pod) bool {
		return pod.Namespace != group.Namespace || index.GroupOf(pod) != group.Name || !isActive(pod)
	})
}

func isProtected(group *schedulingv1alpha2.PodGroup) bool {
	return slices.Contains(group.Finalizers, string(finalizer))
}

// validate checks an update of the controller.
func (m *model) validate(old, new runtime.Object) error {
	was, is := old.(*schedulingv1alpha2.PodGroup), new.(*schedulingv1alpha2.PodGroup)
	if !isProtected(was) || isProtected(is) {
		return errors.New("the controller does nothing but remove the finalizer")
	}
	for _, pod := range m.active(was) {
		m.t.Errorf("group %s %s goes, which pod %s belongs to", was.Name, was.UID, pod.Name)
	}
	return nil
}

// user creates groups, and pods of groups that are not being deleted, and deletes both.
func (m *model) user() {
	n := m.Rand.IntN
	namespace, name := []string{"a", "a", "b"}[n(3)], fmt.Sprint("g", n(2))
	group, ok := simulation.Get[*schedulingv1alpha2.PodGroup](m.World, namespace, name)
	switch {
	case !ok:
		created := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		created.Finalizers = []string{string(finalizer)}
		m.Create(created)
	case n(3) > 0:
		m.podOf(group, fmt.Sprint("p", n(4)))
	case group.DeletionTimestamp == nil:
		m.Delete(group, nil)
	}
}

func (m *model) podOf(group *schedulingv1alpha2.PodGroup, name string) {
	pod, ok := simulation.Get[*corev1.Pod](m.World, group.Namespace, name)
	switch {
	case ok && pod.DeletionTimestamp == nil:
		m.Delete(pod, nil)
	case !ok && group.DeletionTimestamp == nil:
		created := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: group.Namespace, Name: name}}
		created.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(group.Name)}
		m.Create(created)
	}
}

// TestWhateverHappensNoGroupGoesBeforeItsPods has groups and pods deleted and created again, requests fail and the
// controller restarted, while the caches are behind and lack objects. No group goes that has an active pod, and in the
// end none stays that has none.
func TestWhateverHappensNoGroupGoesBeforeItsPods(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		(&model{World: w, t: t}).run()
	})
}

func (m *model) run() {
	kubelet := simulation.Kubelet{World: m.World, Unready: 2}
	m.Start = func(env controller.Env, _ any) simulation.Instance {
		c := must.Get(newController(env))(m.t)
		queue := simulation.NewQueue(m.World, c.reconcile)
		queue.AnyOrder = true
		c.queue = queue
		return simulation.Instance{Runners: []simulation.Runner{queue}}
	}
	m.Validate = m.validate
	m.Hasty = []int{0, 3, 10}[m.Rand.IntN(3)]
	m.MayBeLossy(2)
	m.Begin()
	m.Play(func() {
		switch m.Rand.IntN(4) {
		case 0:
			kubelet.Act(false)
		case 1:
			m.Bookmark(&corev1.Pod{})
		default:
			m.user()
		}
	}, m.user)
	m.Settle(10*time.Minute, func() bool { return kubelet.Act(true) })
	for _, group := range simulation.All[*schedulingv1alpha2.PodGroup](m.World) {
		if group.DeletionTimestamp != nil && len(m.active(group)) == 0 {
			m.t.Errorf("group %s/%s stays, although it has no active pod", group.Namespace, group.Name)
		}
	}
}
