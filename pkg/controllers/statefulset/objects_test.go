package statefulset

import (
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/workloads/history"
	"kcmd.dev/test/controllertest"
)

var (
	key     = types.NamespacedName{Namespace: "ns", Name: "web"}
	start   = controllertest.Epoch
	errTest = errors.New("no")

	phase, readySince               = controllertest.InPhase, controllertest.ReadySince
	notReady, orphaned, terminating = controllertest.NotReady, controllertest.Orphaned, controllertest.Terminating
)

// newSet makes a set named web whose template has the image v1.
func newSet(replicas int32, changes ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "o", Generation: 1, ResourceVersion: "10"},
		Spec: appsv1.StatefulSetSpec{
			Replicas:    &replicas,
			ServiceName: "svc",
			Selector:    &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
			},
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type:          appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32)},
			},
		},
	}
	return controllertest.Changed(set, changes...)
}

func parallel(set *appsv1.StatefulSet) { set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }

func image(image string) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = image }
}

func partition(n int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = &n }
}

func withoutRollingUpdate(set *appsv1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate = nil }

func onDelete(set *appsv1.StatefulSet) {
	set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
}

func startingAt(n int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: n} }
}

func minReady(seconds int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.MinReadySeconds = seconds }
}

func claims(names ...string) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		for _, name := range names {
			set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates,
				corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": "t"}}})
		}
	}
}

func retention(whenDeleted, whenScaled appsv1.PersistentVolumeClaimRetentionPolicyType) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: whenDeleted, WhenScaled: whenScaled,
		}
	}
}

const (
	retain  = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	discard = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
)

// revisionAt is the revision that the template of a set has with a number.
func revisionAt(t testing.TB, number int64, changes ...func(*appsv1.StatefulSet)) *appsv1.ControllerRevision {
	t.Helper()
	set := newSet(1, changes...)
	payload, err := history.Payload(&set.Spec.Template)
	if err != nil {
		t.Fatal(err)
	}
	r := history.New(history.Owner{Object: set, Kind: setKind}, &set.Spec.Template, payload, number, 0)
	r.Namespace, r.UID, r.ResourceVersion = "ns", types.UID(r.Name), "30"
	return r
}

// podAt makes a Running and Ready pod of the slot at a revision.
func podAt(set *appsv1.StatefulSet, revision string, ordinal int, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := newPod(set, revision, ordinal)
	pod.UID, pod.ResourceVersion = types.UID(pod.Name), "20"
	pod.Status.Phase = corev1.PodRunning
	readySince(start.Add(-time.Hour))(pod)
	return controllertest.Changed(pod, changes...)
}

// edited makes the spec of a set newer than its status.
func edited(set *appsv1.StatefulSet) { set.Generation = 2 }

// settledAt gives a set the status it has when all its pods are ready at a revision.
func settledAt(revision string) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		n := *set.Spec.Replicas
		set.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: 1, Replicas: n, ReadyReplicas: n, AvailableReplicas: n, CurrentReplicas: n, UpdatedReplicas: n,
			CurrentRevision: revision, UpdateRevision: revision, CollisionCount: new(int32),
		}
	}
}
