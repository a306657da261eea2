package statefulset

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with a set.
type model struct {
	*simulation.World
}

func (m *model) set() (*appsv1.StatefulSet, bool) {
	return simulation.Get[*appsv1.StatefulSet](m.World, "ns", "web")
}

// lacksClaim reports whether a pod cannot be bound to a node since a claim does not exist, or is being deleted.
func (m *model) lacksClaim(pod *corev1.Pod) bool {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return false
	}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		claim, ok := simulation.Get[*corev1.PersistentVolumeClaim](m.World, "ns", v.PersistentVolumeClaim.ClaimName)
		if !ok || claim.DeletionTimestamp != nil {
			return true
		}
	}
	return false
}

// others are the garbage collector, the protection of claims, and whoever deletes pods that are of no set.
func (m *model) others() bool {
	did := m.CollectGarbage()
	_, exists := m.set()
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		if metav1.GetControllerOf(pod) == nil && (!exists || pod.Labels["app"] == "other") {
			m.Delete(pod, ptr.To[int64](0))
			did = true
		}
	}
	used := map[string]bool{}
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim != nil && pod.Spec.NodeName != "" {
				used[v.PersistentVolumeClaim.ClaimName] = true
			}
		}
	}
	for _, claim := range simulation.All[*corev1.PersistentVolumeClaim](m.World) {
		if claim.DeletionTimestamp != nil && !used[claim.Name] {
			m.Note("claim %s is gone", claim.Name)
			simulation.Change(m.World, claim, func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil })
			did = true
		}
	}
	return did
}

func (m *model) randomPolicy() *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy {
	of := []appsv1.PersistentVolumeClaimRetentionPolicyType{retain, discard}
	return &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: of[m.Rand.IntN(2)], WhenScaled: of[m.Rand.IntN(2)],
	}
}

func (m *model) randomSet() *appsv1.StatefulSet {
	n := m.Rand.IntN
	set := newSet(int32(n(5)))
	set.UID, set.ResourceVersion = "", ""
	if n(2) == 0 {
		parallel(set)
	}
	if n(2) == 0 {
		claims("data")(set)
		set.Spec.PersistentVolumeClaimRetentionPolicy = m.randomPolicy()
	}
	switch n(5) {
	case 0:
		withoutRollingUpdate(set)
	case 1:
		onDelete(set)
	case 2:
		partition(int32(n(4)))(set)
	case 3:
		set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromInt32(int32(1 + n(3))))
	}
	if n(3) == 0 {
		minReady(int32(1 + n(20)))(set)
	}
	if n(3) == 0 {
		startingAt(int32(n(3)))(set)
	}
	set.Spec.RevisionHistoryLimit = ptr.To(int32(n(3)))
	return set
}

func (m *model) user() {
	n := m.Rand.IntN
	set, ok := m.set()
	if !ok {
		if n(2) == 0 {
			m.Create(m.randomSet())
		}
		return
	}
	switch n(14) {
	case 12:
		m.Note("user sets limits")
		other := m.randomSet()
		simulation.Change(m.World, set, func(s *appsv1.StatefulSet) {
			s.Spec.MinReadySeconds, s.Spec.RevisionHistoryLimit = other.Spec.MinReadySeconds, other.Spec.RevisionHistoryLimit
			s.Spec.UpdateStrategy = other.Spec.UpdateStrategy
		})
	case 13:
		m.takeName(set)
	case 0, 1, 2:
		v := fmt.Sprint("v", 1+n(4))
		m.Note("user sets image %s", v)
		simulation.Change(m.World, set, image(v))
	case 3, 4, 5:
		k := int32(n(6))
		m.Note("user scales to %d", k)
		simulation.Change(m.World, set, func(s *appsv1.StatefulSet) { s.Spec.Replicas = &k })
	case 6:
		if set.Spec.UpdateStrategy.RollingUpdate != nil {
			m.Note("user sets partition")
			simulation.Change(m.World, set, partition(int32(n(4))))
		}
	case 7:
		if len(set.Spec.VolumeClaimTemplates) > 0 {
			m.Note("user sets retention")
			policy := m.randomPolicy()
			simulation.Change(m.World, set, retention(policy.WhenDeleted, policy.WhenScaled))
		}
	case 8:
		if n(3) == 0 {
			m.Delete(set, nil)
		}
	case 9:
		if all := simulation.All[*corev1.Pod](m.World); len(all) > 0 {
			if pod := all[n(len(all))]; pod.DeletionTimestamp == nil {
				m.Delete(pod, nil)
			}
		}
	case 10:
		if all := simulation.All[*corev1.PersistentVolumeClaim](m.World); len(all) > 0 && n(3) == 0 {
			if c := all[n(len(all))]; c.DeletionTimestamp == nil {
				m.Delete(c, nil)
			}
		}
	case 11:
		m.Note("user sets start")
		simulation.Change(m.World, set, startingAt(int32(n(3))))
	}
}

// takeName has somebody create a pod with the name of one of a slot, which ends by itself.
func (m *model) takeName(set *appsv1.StatefulSet) {
	pod := newPod(set, "", m.Rand.IntN(6))
	if _, there := simulation.Get[*corev1.Pod](m.World, "ns", pod.Name); there {
		return
	}
	pod.GenerateName, pod.OwnerReferences, pod.Spec.Volumes = "", nil, nil
	if m.OneIn(2) {
		pod.Labels = map[string]string{"app": "other"}
	}
	m.Note("somebody creates %s", pod.Name)
	m.Create(pod)
}

// TestWhateverHappensTheSetIsCompleteInTheEnd has pods fail, claims deleted, specs edited, requests fail and the
// controller restarted, while the caches are behind, or lack objects that exist.
func TestWhateverHappensTheSetIsCompleteInTheEnd(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) { (&model{World: w}).run(t) })
}

func (m *model) run(t *testing.T) {
	kubelet := simulation.Kubelet{World: m.World, Unready: m.Rand.IntN(5), Waits: m.lacksClaim}
	m.Admit = func(o runtime.Object) {
		if claim, ok := o.(*corev1.PersistentVolumeClaim); ok {
			claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
		}
	}
	cfg := defaultGates
	cfg.requireFresh = m.Rand.IntN(2) == 0
	cfg.maxUnavailable = m.Rand.IntN(2) == 0
	m.Start = func(env controller.Env, left any) simulation.Instance {
		return simulation.StartOwners(m.World, must.Get(newController(env, cfg))(t).owners, left)
	}
	m.MayBeLossy(2)
	lossy := m.Lossy != nil
	m.Create(m.randomSet())
	m.MayComeLate = simulation.AnyWrite
	kubelet.Live(m.others, m.user)
	if set, ok := m.set(); ok && lossy { // nothing has it reconciled when the cache finds revisions again
		simulation.Change(m.World, set, func(s *appsv1.StatefulSet) { s.Annotations = map[string]string{"seen": "yes"} })
		m.Settle(2*time.Hour, func() bool { return m.others() || kubelet.Act(true) })
	}
	m.check(t)
}

func (m *model) check(t *testing.T) {
	set, ok := m.set()
	all := simulation.All[*corev1.Pod](m.World)
	if !ok {
		if len(all) > 0 {
			t.Errorf("%d pods stay", len(all))
		}
		return
	}
	status := set.Status
	found := map[int]bool{}
	for _, pod := range all {
		i := ordinalOf(pod)
		found[i] = true
		if !inRange(set, i) {
			t.Errorf("pod %s stays", pod.Name)
			continue
		}
		if !isAvailable(set, pod, m.Clock.Now()) {
			t.Errorf("pod %s is not available: %+v", pod.Name, pod.Status)
		}
		rolls := set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType
		if rolls && i >= firstOrdinal(set)+partitionOf(set) && revisionOf(pod) != status.UpdateRevision {
			t.Errorf("pod %s is at %s, not %s", pod.Name, revisionOf(pod), status.UpdateRevision)
		}
	}
	n := int32(len(all))
	if len(found) != replicasOf(set) {
		t.Errorf("%d pods, want %d", n, replicasOf(set))
	}
	counts := []int32{status.Replicas, status.ReadyReplicas, status.AvailableReplicas}
	if status.ObservedGeneration != set.Generation || !slices.Equal(counts, []int32{n, n, n}) {
		t.Errorf("status %+v", status)
	}
	policy := policyOf(set)
	for _, claim := range simulation.All[*corev1.PersistentVolumeClaim](m.World) {
		_, ordinal := split(claim.Name)
		pod := missingPod(set, ordinal)
		if p, ok := simulation.Get[*corev1.Pod](m.World, "ns", podName(set, ordinal)); ok {
			pod = p
		}
		owners := ownersOf(claim, set, pod)
		if found[ordinal] && owners.ownedBy != wantedOwners(policy, true) && !owners.foreign {
			t.Errorf("claim %s has owners %+v", claim.Name, claim.OwnerReferences)
		}
		if owners.set && !policy.deleteWithSet {
			t.Errorf("claim %s belongs to the set", claim.Name)
		}
	}
	revisions := simulation.All[*appsv1.ControllerRevision](m.World)
	live := map[string]bool{status.CurrentRevision: true, status.UpdateRevision: true}
	for _, pod := range all {
		live[revisionOf(pod)] = true
	}
	surplus := 0
	newest := int64(0)
	var last string
	for _, r := range revisions {
		if !live[r.Name] {
			surplus++
		}
		if r.Revision > newest || r.Revision == newest && r.Name == status.UpdateRevision {
			newest, last = r.Revision, r.Name
		}
	}
	if surplus > int(*set.Spec.RevisionHistoryLimit) {
		t.Errorf("%d revisions too many", surplus)
	}
	if last != status.UpdateRevision {
		t.Errorf("the newest revision is %s, not %s", last, status.UpdateRevision)
	}
}
