package resourceclaim

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with pods that claim devices, and a scheduler.
type model struct {
	*simulation.World
	t      *testing.T
	config config
	// gone is a pod of which the scheduler may not know yet that it was deleted.
	gone *corev1.Pod
	// lossy is set if lists may lack objects.
	lossy bool
	// late are the names of claims that were created after the controller had given up on them.
	late map[string]bool
}

const (
	// hold keeps deleted pods for a while.
	hold = "example.com/hold"
	// extended marks pods with extended resources, for which the scheduler creates a claim.
	extended = "extended"
)

// isNeeded reports whether a claim that is reserved for a consumer, as the server has it, must stay so.
func (m *model) isNeeded(of consumer) bool {
	if isPodConsumer(of) {
		pod, ok := simulation.Get[*corev1.Pod](m.World, "ns", of.Name)
		return ok && pod.UID == of.UID && !isDone(pod)
	}
	group, ok := m.group(of.Name)
	return ok && group.UID == of.UID
}

func (m *model) group(name string) (*schedulingv1alpha2.PodGroup, bool) {
	return simulation.Get[*schedulingv1alpha2.PodGroup](m.World, "ns", name)
}

func (m *model) claim(name string) (*resourcev1.ResourceClaim, bool) {
	return simulation.Get[*resourcev1.ResourceClaim](m.World, "ns", name)
}

// admit fails the test if a claim is generated beside another one for the same entry. That may happen if a list lacks
// the other one, or if one of them was created later than the controller waits for it: the surplus goes with its owner.
func (m *model) admit(o runtime.Object) {
	created, ok := o.(*resourcev1.ResourceClaim)
	if !ok || m.lossy || metav1.GetControllerOf(created) == nil {
		return
	}
	m.late[created.Name] = m.IsLateWrite()
	entryOf := func(c *resourcev1.ResourceClaim) string { return c.Annotations[resourcev1.PodResourceClaimAnnotation] }
	for _, other := range m.claimsOf(metav1.GetControllerOf(created).UID) {
		if entryOf(other) == entryOf(created) && !m.late[created.Name] && !m.late[other.Name] {
			m.t.Errorf("%s is generated beside %s", created.Name, other.Name)
		}
	}
}

func (m *model) claimsOf(owner types.UID) []*resourcev1.ResourceClaim {
	all := simulation.All[*resourcev1.ResourceClaim](m.World)
	return slices.DeleteFunc(all, func(c *resourcev1.ResourceClaim) bool {
		ref := metav1.GetControllerOf(c)
		return ref == nil || ref.UID != owner
	})
}

// validate refuses what the API server refuses, and what takes a claim from who uses it.
func (m *model) validate(was, is runtime.Object) error {
	old, ok := was.(*resourcev1.ResourceClaim)
	if !ok {
		return nil
	}
	next := is.(*resourcev1.ResourceClaim)
	isAdded := func(c consumer) bool { return !slices.Contains(old.Status.ReservedFor, c) }
	isTaken := func(c consumer) bool { return m.isNeeded(c) && !slices.Contains(next.Status.ReservedFor, c) }
	switch {
	case slices.ContainsFunc(old.Status.ReservedFor, isTaken):
		return errors.New("a claim is taken from who uses it")
	case next.Status.Allocation == nil && len(next.Status.ReservedFor) > 0:
		return errors.New("a reserved claim is not allocated")
	case next.Status.Allocation != nil && isProtected(old) && !isProtected(next):
		return errors.New("an allocated claim loses its finalizer")
	case next.DeletionTimestamp != nil && slices.ContainsFunc(next.Status.ReservedFor, isAdded):
		return errors.New("a claim that is being deleted is reserved")
	}
	return nil
}

// deleting fails the test if the controller deletes a claim that is in use, or is not its own.
func (m *model) deleting(action clienttesting.Action) (bool, runtime.Object, error) {
	a := action.(clienttesting.DeleteAction)
	claim, ok := m.claim(a.GetName())
	if p := a.GetDeleteOptions().Preconditions; !ok || *p.UID != claim.UID || *p.ResourceVersion != claim.ResourceVersion {
		return false, nil, nil
	}
	owner := podOf(claim)
	if owner == nil || m.isNeeded(podConsumer(owner)) || slices.ContainsFunc(claim.Status.ReservedFor, m.isNeeded) {
		m.t.Errorf("%s is deleted, which is in use", claim.Name)
	}
	return false, nil, nil
}

// others are the scheduler, the garbage collector, and who has put finalizers on pods.
func (m *model) others() bool {
	did := m.CollectGarbage()
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		if pod.DeletionTimestamp != nil && len(pod.Finalizers) > 0 {
			m.Note("pod %s is let go", pod.Name)
			simulation.Change(m.World, pod, func(p *corev1.Pod) { p.Finalizers = nil })
			did = true
		} else if m.schedule(pod) {
			did = true
		}
	}
	return did
}

func (m *model) randomPod(name string) *corev1.Pod {
	n := m.Rand.IntN
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	p.Spec.ResourceClaims = [][]entry{
		{ofTemplate("a", "t0")}, {ofTemplate("a", "t0"), ofTemplate("b", "t1")},
		{ofTemplate("a", "t1"), ofClaim("s", "static")}, {ofClaim("s", "static")},
	}[n(4)]
	switch n(5) {
	case 0:
		p.Spec.NodeName = "n"
	case 1:
		p.Spec.ResourceClaims, p.Annotations = nil, map[string]string{extended: "yes"}
	}
	if n(4) == 0 {
		p.Finalizers = []string{hold}
	}
	if n(3) == 0 {
		inGroup("g")(p)
	}
	return p
}

// restore creates what pods refer to, unless it is there.
func (m *model) restore(what ...int) {
	for _, i := range what {
		switch i {
		case 0, 1:
			name := fmt.Sprint("t", i)
			if _, ok := simulation.Get[*resourcev1.ResourceClaimTemplate](m.World, "ns", name); !ok {
				m.Create(&resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
			}
		case 2:
			if _, ok := m.claim("static"); !ok {
				m.Create(&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "static"}})
			}
		case 3:
			if _, ok := m.group("g"); !ok {
				m.Create(m.randomGroup())
			}
		}
	}
}

func (m *model) randomGroup() *schedulingv1alpha2.PodGroup {
	g := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}}
	return controllertest.Changed(g, groupWith([]entry{ofTemplate("a", "t0"), ofClaim("s", "static")}[:m.Rand.IntN(3)]...))
}

func (m *model) user() {
	n := m.Rand.IntN
	name := fmt.Sprint("p", n(3))
	pod, there := simulation.Get[*corev1.Pod](m.World, "ns", name)
	switch n(9) {
	case 0, 1, 2, 3:
		switch {
		case !there:
			m.Create(m.randomPod(name))
		case pod.DeletionTimestamp == nil:
			m.gone = pod
			m.Delete(pod, []*int64{nil, ptr.To[int64](0)}[n(2)])
		}
	case 4, 5:
		if all := simulation.All[*resourcev1.ResourceClaim](m.World); len(all) > 0 {
			if claim := all[n(len(all))]; claim.DeletionTimestamp == nil {
				m.Delete(claim, nil)
			}
		}
	case 6:
		m.restore(n(4))
	case 7:
		if template, ok := simulation.Get[*resourcev1.ResourceClaimTemplate](m.World, "ns", "t1"); ok && n(2) == 0 {
			m.Delete(template, nil)
		} else if group, ok := m.group("g"); ok {
			m.Delete(group, nil)
		}
	case 8:
		if m.gone != nil {
			m.schedule(m.gone)
		}
	}
}

// TestWhateverHappensClaimsAreForWhoUsesThem has pods scheduled, finish and be replaced by others of their names,
// claims deleted, requests fail and the controller restarted, while the caches are behind or incomplete. No claim is
// taken from who uses it, and in the end every pod has its claims, and nobody else has any.
func TestWhateverHappensClaimsAreForWhoUsesThem(t *testing.T) {
	simulation.Run(t, 60, func(t *testing.T, w *simulation.World) { (&model{World: w, t: t, late: map[string]bool{}}).run() })
}

func (m *model) run() {
	m.config = []config{defaults, gated}[m.Rand.IntN(2)]
	kubelet := simulation.Kubelet{World: m.World, Unready: m.Rand.IntN(5), Waits: m.waits}
	m.Admit, m.Validate = m.admit, m.validate
	m.Fake.PrependReactor("delete", "resourceclaims", m.deleting)
	m.Start = func(env controller.Env, _ any) simulation.Instance {
		c := must.Get(newController(env, m.config))(m.t)
		must.Succeed(m.t, c.begin(m.Context()))
		queue := simulation.NewQueue(m.World, c.reconcile)
		c.queue = queue
		return simulation.Instance{Runners: []simulation.Runner{queue}, HandOver: func() any { return c.HandOver() }}
	}
	m.restore(0, 1, 2, 3)
	m.MayBeLossy(2)
	m.lossy = m.Lossy != nil
	m.Hasty = []int{0, 3}[m.Rand.IntN(2)]
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	act := func(all bool) bool {
		if all || !m.OneIn(3) {
			return kubelet.Act(all)
		}
		return m.others()
	}
	m.Play(func() { act(false) }, func() {
		for range 1 + m.Rand.IntN(3) {
			m.user()
		}
	})
	m.restore(0, 1, 2, 3)
	m.Settle(20*time.Minute, func() bool { m.restore(2); return m.others() || act(true) })
	m.check()
}

// isLeaving reports whether a claim of a pod is being deleted. One reserved for a PodGroup stays as long as that.
func (m *model) isLeaving(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.ResourceClaims, func(e entry) bool {
		claim, _ := m.claimFor(pod, &e)
		return claim != nil && claim.DeletionTimestamp != nil
	})
}

func (m *model) check() {
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		for _, e := range claimsIn(pod) {
			if claim, _ := m.claimFor(pod, &e); claim == nil && !isDone(pod) && e.Name != extended {
				m.t.Errorf("pod %s lacks a claim for %s", pod.Name, e.Name)
			}
		}
		if pod.Spec.NodeName == "" && !m.isLeaving(pod) {
			m.t.Errorf("pod %s is not scheduled", pod.Name)
		}
	}
	for _, claim := range simulation.All[*resourcev1.ResourceClaim](m.World) {
		if owner := podOf(claim); owner != nil && !m.isNeeded(podConsumer(owner)) {
			m.t.Errorf("claim %s of %s stays", claim.Name, owner.Name)
		}
		for _, c := range claim.Status.ReservedFor {
			if !m.isNeeded(c) && (isPodConsumer(c) || m.config.podGroups) {
				m.t.Errorf("claim %s stays reserved for %s %s", claim.Name, c.Name, c.UID)
			}
		}
		if claim.Status.Allocation != nil && len(claim.Status.ReservedFor) == 0 {
			m.t.Errorf("claim %s stays allocated", claim.Name)
		}
		if claim.DeletionTimestamp != nil && len(claim.Status.ReservedFor) == 0 {
			m.t.Errorf("claim %s is not let go", claim.Name)
		}
	}
}
