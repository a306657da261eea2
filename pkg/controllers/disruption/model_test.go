package disruption

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	scalefake "k8s.io/client-go/scale/fake"
	clienttesting "k8s.io/client-go/testing"
	pdbhelper "k8s.io/component-helpers/apps/poddisruptionbudget"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/test/simulation"
)

// model is a world with a budget, its pods and their owner, and an eviction API that goes by the status of the budget.
type model struct {
	*simulation.World
	t       *testing.T
	kubelet simulation.Kubelet
	// kind is that of the owner of the pods, empty for none.
	kind string
	// calm is whether pods are lost by evictions only, and nobody edits or scales anything.
	calm bool
	// evicted is when a pod was evicted, toDelete are the pods that are yet to be deleted because of that.
	evicted  map[types.UID]time.Time
	toDelete []*corev1.Pod
	// late is whether the status may count a pod that was evicted so long ago that its eviction has expired.
	late bool
}

func (m *model) budget() (*policyv1.PodDisruptionBudget, bool) {
	return simulation.Get[*policyv1.PodDisruptionBudget](m.World, "n", "pdb")
}

func (m *model) randomBudget() *policyv1.PodDisruptionBudget {
	value := []string{"0", "1", "2", "1%", "30%", "34%", "50%", "67%"}[m.Rand.IntN(8)]
	edit := minAvailable(value)
	if m.OneIn(2) {
		edit = maxUnavailable(value)
	}
	pdb := budget(edit)
	if pdb.UID, pdb.ResourceVersion = "", ""; m.OneIn(2) {
		pdb.Spec.UnhealthyPodEvictionPolicy = ptr.To(policyv1.AlwaysAllow)
	}
	return pdb
}

// selected returns the pods that the budget selects, as they are.
func (m *model) selected() (selected []*corev1.Pod) {
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		if pod.Labels["app"] == "web" {
			selected = append(selected, pod)
		}
	}
	return selected
}

// healthy is how many pods are healthy, without those that are as good as deleted.
func (m *model) healthy() (healthy int32) {
	gone := map[types.UID]bool{}
	for _, pod := range m.toDelete {
		gone[pod.UID] = true
	}
	for _, pod := range m.selected() {
		if pod.DeletionTimestamp == nil && pods.IsReady(pod) && !gone[pod.UID] {
			healthy++
		}
	}
	return healthy
}

// wanted is how many pods are expected, and how many should be healthy.
func (m *model) wanted() (expected, desired int32) {
	spec, all := known(m.budget()).Spec, m.selected()
	expected = int32(len(all))
	if needsReplicas(&spec) {
		expected = 0
		if m.kind != "" && len(all) > 0 {
			expected = m.replicas()
		}
	}
	value := spec.MinAvailable
	if value == nil {
		value = spec.MaxUnavailable
	}
	number := value.IntVal
	if value.StrVal != "" {
		var percent int32
		_, err := fmt.Sscanf(value.StrVal, "%d%%", &percent)
		must(err)
		number = (percent*expected + 99) / 100
	}
	if spec.MaxUnavailable != nil {
		number = max(0, expected-number)
	}
	return expected, number
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func known[T any](got T, ok bool) T {
	if !ok {
		panic("there is none")
	}
	return got
}

func (m *model) replicas() int32 {
	if m.kind == "StatefulSet" {
		return *known(simulation.Get[*appsv1.StatefulSet](m.World, "n", "web")).Spec.Replicas
	}
	return *known(simulation.Get[*appsv1.ReplicaSet](m.World, "n", "web")).Spec.Replicas
}

func (m *model) scale(to int32) {
	m.Note("user scales to %d", to)
	if set, ok := simulation.Get[*appsv1.StatefulSet](m.World, "n", "web"); ok {
		simulation.Change(m.World, set, func(set *appsv1.StatefulSet) { set.Spec.Replicas = &to })
	}
	if d, ok := simulation.Get[*appsv1.Deployment](m.World, "n", "web"); ok {
		simulation.Change(m.World, d, func(d *appsv1.Deployment) { d.Spec.Replicas = &to })
	}
	if rs, ok := simulation.Get[*appsv1.ReplicaSet](m.World, "n", "web"); ok {
		simulation.Change(m.World, rs, func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = &to })
	}
}

func (m *model) createOwner() {
	replicas, meta := int32(2+m.Rand.IntN(4)), metav1.ObjectMeta{Namespace: "n", Name: "web"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	switch m.kind {
	case "Deployment":
		d := m.Create(&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Template: template}})
		meta.OwnerReferences = ownersOf("apps/v1", "Deployment", "web")
		meta.OwnerReferences[0].UID = d.(*appsv1.Deployment).UID
		fallthrough
	case "ReplicaSet":
		m.Create(&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Template: template}})
	case "StatefulSet":
		m.Create(&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Template: template}})
	}
}

func (m *model) createPod(name string) {
	p := pod(name)
	p.UID, p.ResourceVersion, p.Status = "", "", corev1.PodStatus{}
	switch m.kind {
	case "StatefulSet":
		ownedBy("apps/v1", "StatefulSet", "web")(p)
		p.OwnerReferences[0].UID = known(simulation.Get[*appsv1.StatefulSet](m.World, "n", "web")).UID
	case "ReplicaSet", "Deployment":
		p.GenerateName = "web-"
		ownedBy("apps/v1", "ReplicaSet", "web")(p)
		p.OwnerReferences[0].UID = known(simulation.Get[*appsv1.ReplicaSet](m.World, "n", "web")).UID
	}
	m.Create(p)
}

// own is what the owner of the pods does, or the users of plain ones: as many are active as should be.
func (m *model) own() bool {
	replicas, active, named := 5, 0, m.kind == "StatefulSet" || m.kind == ""
	if m.kind != "" {
		replicas = int(m.replicas())
	}
	if named {
		did := false
		for i := range 6 {
			name := fmt.Sprint("web-", i)
			switch pod, ok := simulation.Get[*corev1.Pod](m.World, "n", name); {
			case !ok && i < replicas:
				m.createPod(name)
				did = true
			case ok && pod.DeletionTimestamp == nil && (i >= replicas || pods.IsTerminal(pod)):
				m.Delete(pod, nil)
				did = true
			}
		}
		return did
	}
	for _, pod := range m.selected() {
		if pod.DeletionTimestamp != nil || pods.IsTerminal(pod) {
			continue
		}
		if active++; active > replicas {
			m.Delete(pod, nil)
		}
	}
	for range replicas - active {
		m.createPod("")
	}
	return active != replicas
}

// evict is what the eviction API does.
func (m *model) evict(pod *corev1.Pod) {
	pdb, ok := m.budget()
	unready, always := !pods.IsReady(pod), false
	if ok {
		always = pdb.Spec.UnhealthyPodEvictionPolicy != nil || isHealthy(&pdb.Status)
	}
	switch {
	case pod.DeletionTimestamp != nil, pods.IsTerminal(pod), pod.Status.Phase == corev1.PodPending, unready && always:
		m.Delete(pod, nil)
		return
	case !ok || m.late || pdb.Status.ObservedGeneration < pdb.Generation || pdb.Status.DisruptionsAllowed <= 0:
		return
	}
	now := m.Clock.Now().Truncate(time.Second)
	m.Note("evicts %s, a uid %s", pod.Name, pod.UID)
	simulation.Change(m.World, pdb, func(pdb *policyv1.PodDisruptionBudget) {
		pdb.Status.DisruptionsAllowed--
		if pdb.Status.DisruptedPods == nil {
			pdb.Status.DisruptedPods = map[string]metav1.Time{}
		}
		pdb.Status.DisruptedPods[pod.Name] = metav1.NewTime(now)
		pdbhelper.UpdateDisruptionAllowedCondition(pdb)
	})
	m.toDelete, m.evicted[pod.UID] = append(m.toDelete, pod), now
	if _, desired := m.wanted(); m.calm && m.healthy() < desired {
		m.t.Errorf("the eviction of %s leaves %d healthy, of %d", pod.Name, m.healthy(), desired)
	}
}

// finishEvictions deletes the pods that were evicted, unless the API server fails meanwhile.
func (m *model) finishEvictions() bool {
	did := len(m.toDelete) > 0
	for _, pod := range m.toDelete {
		now, ok := simulation.Get[*corev1.Pod](m.World, "n", pod.Name)
		if ok && now.UID == pod.UID && !m.OneIn(10) && m.Clock.Since(m.evicted[pod.UID]) < time.Minute {
			m.Delete(now, nil)
		} else {
			delete(m.evicted, pod.UID)
		}
	}
	m.toDelete = nil
	return did
}

// others is what the owner of the pods, their kubelets and those who evict do.
func (m *model) others() {
	all := m.selected()
	switch n := m.Rand.IntN(12); {
	case n == 0:
		m.Drain() // the caches catch up
	case n < 4:
		m.own()
	case n < 7:
		m.kubelet.Act(m.calm)
	case n < 9:
		m.finishEvictions()
	case len(all) > 0:
		if pod := all[m.Rand.IntN(len(all))]; pods.IsReady(pod) || m.OneIn(4) {
			m.evict(pod)
		}
	}
}

func (m *model) user() {
	pdb, ok := m.budget()
	all := m.selected()
	switch n := m.Rand.IntN(5); {
	case m.calm:
	case !ok:
		m.Create(m.randomBudget())
	case n == 0:
		m.Delete(pdb, nil)
	case n == 1 && m.kind != "":
		m.scale(int32(m.Rand.IntN(6)))
	case n == 2 && len(all) > 0:
		m.Note("user changes labels")
		simulation.Change(m.World, all[m.Rand.IntN(len(all))], func(p *corev1.Pod) { p.Labels = nil })
	default:
		m.Note("user edits the budget")
		simulation.Change(m.World, pdb, func(p *policyv1.PodDisruptionBudget) { p.Spec = m.randomBudget().Spec })
	}
}

// start makes a controller, for which the scale of anything is that of the owner of the pods.
func (m *model) start(env controller.Env, _ any) simulation.Instance {
	scales := &scalefake.FakeScaleClient{}
	scales.AddReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if m.Faulty && m.OneIn(10) {
			return true, nil, apierrors.NewInternalError(fmt.Errorf("boom"))
		}
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: m.replicas()}}
		if set, ok := simulation.Get[*appsv1.StatefulSet](m.World, "n", "web"); ok {
			scale.UID = set.UID
		}
		if rs, ok := simulation.Get[*appsv1.ReplicaSet](m.World, "n", "web"); ok {
			scale.UID = rs.UID
		}
		return true, scale, nil
	})
	env.Mapper = mapperWith(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"))
	c := newController(env, scales)
	budgets := simulation.NewQueue(m.World, func(ctx context.Context, key types.NamespacedName) error {
		late := m.overdue(c)
		err := c.reconcile(ctx, key)
		m.late = late || m.late && err != nil
		return err
	})
	rechecks, stale := simulation.NewQueue(m.World, c.recheck), simulation.NewQueue(m.World, c.reconcileStale)
	c.budgetQueue, c.recheckQueue, c.staleQueue = budgets, rechecks, stale
	return simulation.Instance{Runners: []simulation.Runner{budgets, rechecks, stale}}
}

// overdue reports whether the cache does not show yet the deletion of a pod that was evicted two minutes ago.
func (m *model) overdue(c *disruptionController) bool {
	all, err := c.pods.List(labels.Everything())
	must(err)
	return slices.ContainsFunc(all, func(p *corev1.Pod) bool {
		at, ok := m.evicted[p.UID]
		return ok && p.DeletionTimestamp == nil && m.Clock.Since(at) >= evictionTimeout
	})
}

// TestWhateverHappensEvictionsLeaveEnough has pods evicted, and created again with other names or the same, while the
// caches are behind or incomplete, requests fail and the controller is restarted. In half of the histories pods fail
// too, and users edit everything; then only the end counts.
func TestWhateverHappensEvictionsLeaveEnough(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		kind := []string{"", "ReplicaSet", "Deployment", "StatefulSet"}[w.Rand.IntN(4)]
		m := &model{World: w, t: t, kind: kind, calm: w.OneIn(2), evicted: map[types.UID]time.Time{}}
		m.kubelet = simulation.Kubelet{World: w}
		if !m.calm {
			m.kubelet.Unready = 2
		}
		m.run()
	})
}

func (m *model) run() {
	m.Start = m.start
	m.createOwner()
	m.Create(m.randomBudget())
	m.own()
	m.MayBeLossy(2)
	m.Hasty = []int{0, 3}[m.Rand.IntN(2)]
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Play(m.others, m.user)
	if _, ok := m.budget(); !ok {
		m.Create(m.randomBudget())
	}
	others := func() bool { return m.finishEvictions() || m.own() || m.kubelet.Act(true) }
	m.Settle(2*time.Hour, others)
	pdb := known(m.budget())
	expected, desired := m.wanted()
	want := statusOf(pdb, counts{expected: expected, desired: desired, healthy: m.healthy()}, nil)
	if !isCurrent(pdb, want) {
		m.t.Errorf("the status is %+v, want %+v", pdb.Status, want)
	}
}
