package deployment

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with a Deployment.
type model struct {
	*simulation.World
	kubelet simulation.Kubelet
	drops   bool // no ReplicaSet has the template of the Deployment
}

func (m *model) deployment() (*appsv1.Deployment, bool) {
	return simulation.Get[*appsv1.Deployment](m.World, namespace, "web")
}

// sets is the controller of ReplicaSets.
func (m *model) sets(all bool) bool {
	did := false
	for _, rs := range simulation.All[*appsv1.ReplicaSet](m.World) {
		if !all && m.Rand.IntN(2) == 0 || rs.DeletionTimestamp != nil {
			continue
		}
		var active []*corev1.Pod
		terminating := int32(0)
		for _, pod := range simulation.All[*corev1.Pod](m.World) {
			if !metav1.IsControlledBy(pod, rs) {
				continue
			}
			if pod.Labels["app"] != "web" && pods.IsActive(pod) {
				m.Note("rs releases %s", pod.Name)
				simulation.Change(m.World, pod, func(p *corev1.Pod) { p.OwnerReferences = nil })
				did = true
				continue
			}
			if pods.IsActive(pod) {
				active = append(active, pod)
			} else if pods.IsTerminating(pod) {
				terminating++
			}
		}
		for i := len(active); i < int(sizeOf(rs)); i++ {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, GenerateName: rs.Name + "-", Labels: rs.Spec.Template.Labels,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, replicaSetKind)},
			}}
			active = append(active, m.Create(pod).(*corev1.Pod))
			did = true
		}
		for len(active) > int(sizeOf(rs)) {
			m.Delete(active[0], nil)
			active = active[1:]
			terminating++
			did = true
		}
		ready := int32(0)
		for _, pod := range active {
			if pods.IsReady(pod) {
				ready++
			}
		}
		status := appsv1.ReplicaSetStatus{
			Replicas: int32(len(active)), ReadyReplicas: ready, AvailableReplicas: ready, TerminatingReplicas: &terminating,
			ObservedGeneration: rs.Generation,
		}
		if !equality.Semantic.DeepEqual(rs.Status, status) {
			m.Note("rs %s: %d of %d, ready %d", rs.Name, status.Replicas, sizeOf(rs), ready)
			simulation.Change(m.World, rs, func(rs *appsv1.ReplicaSet) { rs.Status = status })
			did = true
		}
	}
	return did
}

func (m *model) randomDeployment() *appsv1.Deployment {
	n := m.Rand.IntN
	d := makeDeployment(int32(n(7)))
	d.UID, d.ResourceVersion = "", ""
	switch n(4) {
	case 0:
		recreating(d)
	case 1:
		rolling(fmt.Sprint(n(3)), fmt.Sprint(n(3)))(d)
	case 2:
		rolling("0", "0%")(d)
	}
	if n(3) == 0 {
		d.Spec.ProgressDeadlineSeconds = nil
	}
	d.Spec.RevisionHistoryLimit = ptr.To(int32(n(3)))
	if n(6) == 0 {
		paused(d)
	}
	return d
}

func (m *model) user() {
	n := m.Rand.IntN
	d, ok := m.deployment()
	if !ok {
		if n(2) == 0 {
			m.Create(m.randomDeployment())
		}
		return
	}
	switch n(16) {
	case 14:
		m.Note("user sets limits")
		other := m.randomDeployment()
		simulation.Change(m.World, d, func(d *appsv1.Deployment) {
			d.Spec.RevisionHistoryLimit, d.Spec.MinReadySeconds = other.Spec.RevisionHistoryLimit, int32(n(3))
			d.Spec.ProgressDeadlineSeconds = other.Spec.ProgressDeadlineSeconds
		})
	case 15:
		m.takeName(d)
	case 0, 1, 2:
		v := fmt.Sprint("v", 1+n(4))
		m.Note("user sets image %s", v)
		simulation.Change(m.World, d, image(v))
	case 3, 4, 5:
		k := int32(n(8))
		m.Note("user scales to %d", k)
		simulation.Change(m.World, d, func(d *appsv1.Deployment) { d.Spec.Replicas = &k })
	case 6:
		m.Note("user toggles pause")
		simulation.Change(m.World, d, func(d *appsv1.Deployment) { d.Spec.Paused = !d.Spec.Paused })
	case 7:
		m.Note("user sets strategy")
		other := m.randomDeployment()
		simulation.Change(m.World, d, func(d *appsv1.Deployment) { d.Spec.Strategy = other.Spec.Strategy })
	case 8:
		if n(3) == 0 {
			m.Delete(d, nil)
		}
	case 9:
		if all := simulation.All[*corev1.Pod](m.World); len(all) > 0 {
			if pod := all[n(len(all))]; pod.DeletionTimestamp == nil {
				m.Delete(pod, nil)
			}
		}
	case 10:
		if all := simulation.All[*corev1.Pod](m.World); len(all) > 0 {
			pod := all[n(len(all))]
			m.Note("user relabels %s", pod.Name)
			simulation.Change(m.World, pod, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "other"} })
		}
	case 11:
		if all := simulation.All[*appsv1.ReplicaSet](m.World); len(all) > 0 && n(2) == 0 {
			m.Delete(all[n(len(all))], nil)
		}
	case 12:
		m.Note("user rolls back")
		simulation.Change(m.World, d, annotated(appsv1.DeprecatedRollbackTo, fmt.Sprint(n(3))))
	case 13:
		if all := simulation.All[*appsv1.ReplicaSet](m.World); len(all) > 0 {
			rs := all[n(len(all))]
			m.Note("user orphans or scales %s", rs.Name)
			simulation.Change(m.World, rs, func(rs *appsv1.ReplicaSet) {
				if n(2) == 0 {
					rs.OwnerReferences = nil
				} else {
					rs.Spec.Replicas = ptr.To(int32(n(4)))
				}
			})
		}
	}
}

// takeName has somebody create a ReplicaSet with the name of the one that a Deployment is going to create.
func (m *model) takeName(d *appsv1.Deployment) {
	next := d.DeepCopy()
	image(fmt.Sprint("v", 1+m.Rand.IntN(4)))(next)
	rs := newReplicaSet(next, nil)
	if _, there := simulation.Get[*appsv1.ReplicaSet](m.World, namespace, rs.Name); there {
		return
	}
	rs.Labels, rs.OwnerReferences, rs.Spec.Replicas = nil, nil, new(int32)
	if m.OneIn(2) {
		rs.Spec.Template.Spec.Containers[0].Image = "foreign"
	}
	m.Create(rs)
}

// TestWhateverHappensTheRolloutIsCompleteInTheEnd has pods fail, ReplicaSets changed and deleted, specs edited, rolled
// back and paused, requests fail and the controller restarted, while the caches are behind, or lack objects that exist.
func TestWhateverHappensTheRolloutIsCompleteInTheEnd(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		m := &model{World: w}
		if m.OneIn(2) {
			m.Lossy = func(runtime.Object) bool { return m.OneIn(3) }
		}
		m.Hasty = []int{0, 10}[m.Rand.IntN(2)]
		m.MayComeLate = simulation.AnyWrite
		m.play(t, m.randomDeployment, m.user)
		m.check(t)
	})
}

// TestWhateverHappensTheRolloutIsCompleteThoughFieldsAreDropped has the API server, in addition, drop a field of every
// ReplicaSet that is created, as one that does not know the field. Pins DEP-78.
func TestWhateverHappensTheRolloutIsCompleteThoughFieldsAreDropped(t *testing.T) {
	simulation.Run(t, 20, func(t *testing.T, w *simulation.World) {
		m := &model{World: w, drops: true}
		m.Hasty = []int{0, 10}[m.Rand.IntN(2)]
		m.MayComeLate = simulation.AnyWrite
		m.Refuse = func(object runtime.Object) error { // called for dry runs, too
			if rs, ok := object.(*appsv1.ReplicaSet); ok {
				rs.Spec.Template.Spec.SetHostnameAsFQDN = nil
			}
			return nil
		}
		m.play(t, func() *appsv1.Deployment {
			d := m.randomDeployment()
			d.Spec.Template.Spec.SetHostnameAsFQDN = ptr.To(true)
			return d
		}, m.user)
		m.check(t)
	})
}

// play is a whole history, which begins with a Deployment.
func (m *model) play(t *testing.T, first func() *appsv1.Deployment, user func()) {
	m.kubelet = simulation.Kubelet{World: m.World, Unready: m.Rand.IntN(4)}
	cfg := config{concurrentSyncs: 1, terminatingReplicas: m.Rand.IntN(2) == 0}
	m.Start = func(env controller.Env, left any) simulation.Instance {
		return simulation.StartOwners(m.World, must.Get(newController(env, cfg))(t).owners, left)
	}
	m.Create(first())
	m.Begin()
	m.Play(func() {
		switch m.Rand.IntN(5) {
		case 0:
			m.CollectGarbage()
		case 1, 2:
			m.sets(false)
		default:
			m.kubelet.Act(false)
		}
	}, user)
	if d, ok := m.deployment(); ok {
		simulation.Change(m.World, d, func(d *appsv1.Deployment) { d.Spec.Paused = false })
	}
	m.Settle(5*time.Minute, func() bool { return m.CollectGarbage() || m.sets(true) || m.kubelet.Act(true) })
}

func (m *model) check(t *testing.T) {
	d, ok := m.deployment()
	if !ok {
		return
	}
	old, n := 0, replicasOf(d)
	highest := int64(0)
	var current *appsv1.ReplicaSet
	var all []*appsv1.ReplicaSet
	for _, rs := range simulation.All[*appsv1.ReplicaSet](m.World) {
		if metav1.IsControlledBy(rs, d) {
			all = append(all, rs)
		}
	}
	sets := split(d, all)
	if sets.current == nil && m.drops && len(all) > 0 {
		slices.SortFunc(all, byRevision)
		newest := len(all) - 1
		sets = replicaSets{current: all[newest], old: all[:newest]}
	}
	current = sets.current
	if current == nil {
		t.Fatalf("there is no new ReplicaSet")
	}
	for _, rs := range sets.old {
		old++
		if sizeOf(rs) != 0 {
			t.Errorf("the old ReplicaSet %s has %d", rs.Name, sizeOf(rs))
		}
	}
	for _, rs := range all {
		revision, _ := revisionOf(rs)
		highest = max(highest, revision)
	}
	if sizeOf(current) != n {
		t.Errorf("the new ReplicaSet %s has %d, want %d", current.Name, sizeOf(current), n)
	}
	if old > int(*d.Spec.RevisionHistoryLimit) {
		t.Errorf("there are %d old ReplicaSets, limit %d", old, *d.Spec.RevisionHistoryLimit)
	}
	if got, _ := revisionOf(current); got != highest || d.Annotations[revisionAnnotation] != fmt.Sprint(highest) {
		t.Errorf("revision %d, highest %d, of the deployment %s", got, highest, d.Annotations[revisionAnnotation])
	}
	s := d.Status
	if !isComplete(d, &s) || s.UnavailableReplicas != 0 {
		t.Errorf("status %+v", s)
	}
	if hasDeadline(d) && progressReason(d) != reasonComplete {
		t.Errorf("progress %s", progressReason(d))
	}
	if _, ok := d.Annotations[appsv1.DeprecatedRollbackTo]; ok {
		t.Error("the rollback is not done")
	}
}
