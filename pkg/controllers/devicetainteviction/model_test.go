package devicetainteviction

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with devices that get taints, and pods that use them.
type model struct {
	*simulation.World
	t *testing.T
	// ever are all taints that devices have had, by themselves and by rules. A pod may be judged by an older state.
	ever map[string][]resourcev1.DeviceTaint
	// marked are the pods that were marked as the target of a disruption.
	marked map[types.UID]bool
}

var deviceNames = []string{"d0", "d1"}

// truth returns the taints as the server has them.
func (m *model) truth() taints {
	now := newTaints()
	now.pools[poolKey{driver, "p"}] = taintedIn(simulation.All[*resourcev1.ResourceSlice](m.World))
	for _, r := range simulation.All[*resourcev1beta2.DeviceTaintRule](m.World) {
		if r.Spec.Taint.Effect == noExecute {
			now.rules[r.Name] = r
		}
	}
	return now
}

// observe is to be called after each change of taints.
func (m *model) observe() {
	now := m.truth()
	for _, name := range deviceNames {
		for _, p := range now.pools[poolKey{driver, "p"}].on("")[name] {
			m.ever[name] = append(m.ever[name], p.taint)
		}
		for _, r := range now.rules {
			if selects(r, driver, "p", name) {
				m.ever[name] = append(m.ever[name], *taintOf(r))
			}
		}
	}
}

// verdict returns whether and when a pod is to be evicted, by what the server has.
func (m *model) verdict(pod *corev1.Pod) verdict {
	return m.truth().ofPod(pod, true, func(name string) *resourcev1.ResourceClaim {
		claim, _ := simulation.Get[*resourcev1.ResourceClaim](m.World, "ns", name)
		return claim
	})
}

// deleting fails the test if the controller deletes a pod too early, or without having said why.
func (m *model) deleting(action clienttesting.Action) (bool, runtime.Object, error) {
	a := action.(clienttesting.DeleteAction)
	pod, ok := simulation.Get[*corev1.Pod](m.World, "ns", a.GetName())
	if !ok || *a.GetDeleteOptions().Preconditions.UID != pod.UID {
		return false, nil, nil
	}
	if !m.marked[pod.UID] {
		m.t.Errorf("pod %s %s is evicted without the condition", pod.Name, pod.UID)
	}
	claim, ok := simulation.Get[*resourcev1.ResourceClaim](m.World, "ns", pod.Name)
	if !ok {
		return false, nil, nil
	}
	var earliest verdict
	for _, result := range claim.Status.Allocation.Devices.Results {
		for _, taint := range m.ever[result.Device] {
			earliest.consider(result.Tolerations, &taint, reason{})
		}
	}
	if earliest.stays() || m.Clock.Now().Before(earliest.due) {
		m.t.Errorf("pod %s %s is evicted, but not before %v", pod.Name, pod.UID, earliest.due)
	}
	return false, nil, nil
}

func (m *model) validate(_, is runtime.Object) error {
	if pod, ok := is.(*corev1.Pod); ok {
		isMark := func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget }
		m.marked[pod.UID] = slices.ContainsFunc(pod.Status.Conditions, isMark)
	}
	return nil
}

// others delete the claims of pods that are gone.
func (m *model) others() bool {
	did := false
	for _, claim := range simulation.All[*resourcev1.ResourceClaim](m.World) {
		pod, ok := simulation.Get[*corev1.Pod](m.World, "ns", claim.Name)
		if !ok || pod.UID != claim.Status.ReservedFor[0].UID {
			m.Delete(claim, nil)
			did = true
		}
	}
	return did
}

func (m *model) randomTaints(key string) []resourcev1.DeviceTaint {
	now := int(m.Clock.Now().Sub(epoch) / time.Second)
	return [][]resourcev1.DeviceTaint{nil, nil, {taint(key, now)}, {soft(key)}}[m.Rand.IntN(4)]
}

// publish has the driver publish its devices again.
func (m *model) publish() {
	devices := []resourcev1.Device{device("d0", m.randomTaints("a")...), device("d1", m.randomTaints("b")...)}
	all := simulation.All[*resourcev1.ResourceSlice](m.World)
	switch {
	case len(all) == 0:
		m.Create(slice("p", 1, devices...))
	case m.OneIn(4):
		m.Delete(all[0], nil)
	case m.OneIn(4):
		m.Create(slice("p", all[0].Spec.Pool.Generation+1, devices...))
		m.Delete(all[0], nil)
	default:
		m.Note("taints in slice %s change", all[0].Name)
		simulation.Change(m.World, all[0], func(s *resourcev1.ResourceSlice) { s.Spec.Devices = devices })
	}
}

func (m *model) randomRule(name string) *resourcev1beta2.DeviceTaintRule {
	selected := []string{everything, driver + "/p/d0", driver + "//"}[m.Rand.IntN(3)]
	return rule(name, selected, []resourcev1beta2.DeviceTaintEffect{noExecute, noExecute, noEffect}[m.Rand.IntN(3)],
		func(r *resourcev1beta2.DeviceTaintRule) {
			r.Spec.Taint.TimeAdded = &metav1.Time{Time: m.Clock.Now().Truncate(time.Second)}
		})
}

func (m *model) changeRule(name string) {
	r, ok := simulation.Get[*resourcev1beta2.DeviceTaintRule](m.World, "", name)
	switch {
	case !ok:
		m.Create(m.randomRule(name))
	case m.OneIn(2):
		m.Delete(r, nil)
	default:
		m.Note("rule %s changes", name)
		spec := m.randomRule(name).Spec
		simulation.Change(m.World, r, func(r *resourcev1beta2.DeviceTaintRule) { r.Spec = spec })
	}
}

// changePod deletes a pod, or creates one with its claim.
func (m *model) changePod(name string) {
	if was, ok := simulation.Get[*corev1.Pod](m.World, "ns", name); ok {
		m.Delete(was, []*int64{nil, ptr.To[int64](0)}[m.Rand.IntN(2)])
		return
	}
	if _, ok := simulation.Get[*resourcev1.ResourceClaim](m.World, "ns", name); ok {
		return
	}
	p := pod(name)
	p.Name = name
	c := claim(name, "p", deviceNames[m.Rand.IntN(2)])
	isExtended := m.OneIn(3)
	if isExtended {
		extended(p, c)
	}
	created := m.Create(p).(*corev1.Pod)
	for _, key := range []string{"a", "b", "r0", "r1"} {
		switch n := m.Rand.IntN(6); n {
		case 0, 1, 2:
			c.Status.Allocation.Devices.Results[0].Tolerations = append(
				c.Status.Allocation.Devices.Results[0].Tolerations, tolerates(key, []int64{5, 60, 600}[n]))
		case 3:
			c.Status.Allocation.Devices.Results[0].Tolerations = append(
				c.Status.Allocation.Devices.Results[0].Tolerations, tolerates(key))
		}
	}
	c.Status.ReservedFor[0].Name, c.Status.ReservedFor[0].UID = name, created.UID
	if isExtended {
		c.OwnerReferences[0].UID = created.UID
	}
	m.Create(c)
}

func (m *model) user() {
	switch m.Rand.IntN(4) {
	case 0:
		m.publish()
	case 1:
		m.changeRule(fmt.Sprint("r", m.Rand.IntN(2)))
	default:
		m.changePod(fmt.Sprint("p", m.Rand.IntN(4)))
	}
	m.observe()
}

// podsThat returns the pods that stay, or those that are to be evicted sooner or later.
func (m *model) podsThat(stay bool) []*corev1.Pod {
	return slices.DeleteFunc(simulation.All[*corev1.Pod](m.World), func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp != nil || m.verdict(pod).stays() != stay
	})
}

// TestWhateverHappensPodsLeaveTaintedDevicesInTime has taints and rules come and go, pods and their claims replaced,
// requests fail and the controller restarted, while the caches are behind or incomplete. In the end the pods that do
// not tolerate the taints of their devices are gone, no others, and the rules say so.
func TestWhateverHappensPodsLeaveTaintedDevicesInTime(t *testing.T) {
	simulation.Run(t, 60, func(t *testing.T, w *simulation.World) {
		(&model{World: w, t: t, ever: map[string][]resourcev1.DeviceTaint{}, marked: map[types.UID]bool{}}).run()
	})
}

func (m *model) run() {
	kubelet := simulation.Kubelet{World: m.World}
	m.Validate = m.validate
	m.Fake.PrependReactor("delete", "pods", m.deleting)
	m.Start = func(env controller.Env, _ any) simulation.Instance {
		c := must.Get(newController(env, usual))(m.t)
		queue := simulation.NewQueue(m.World, c.reconcile)
		c.queue = queue
		must.Succeed(m.t, c.begin(m.Context()))
		return simulation.Instance{Runners: []simulation.Runner{queue}, HandOver: func() any { return c.HandOver() }}
	}
	for range 6 {
		m.user()
	}
	m.MayBeLossy(2)
	m.Hasty = []int{0, 3}[m.Rand.IntN(2)]
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Play(func() { _ = m.OneIn(3) && m.others() || kubelet.Act(false) }, func() {
		for range 1 + m.Rand.IntN(3) {
			m.user()
		}
	})
	m.Faulty = false
	m.Drain()
	stay := m.podsThat(true)
	m.Settle(20*time.Minute, func() bool { return m.others() || kubelet.Act(true) })
	for _, pod := range m.podsThat(false) {
		m.t.Errorf("pod %s stays", pod.Name)
	}
	left := simulation.All[*corev1.Pod](m.World)
	for _, pod := range stay {
		if !slices.ContainsFunc(left, func(p *corev1.Pod) bool { return p.UID == pod.UID && p.DeletionTimestamp == nil }) {
			m.t.Errorf("pod %s %s is gone", pod.Name, pod.UID)
		}
	}
	for _, r := range simulation.All[*resourcev1beta2.DeviceTaintRule](m.World) {
		condition := shownCondition(r)
		if !isCurrent(condition, r) || condition.Status != metav1.ConditionFalse {
			m.t.Errorf("rule %s has the condition %+v", r.Name, condition)
		}
	}
}
