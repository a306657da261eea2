package statefulset

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

// Pins STS-29.
func TestRollingUpdate(t *testing.T) {
	f := settled(t, 3, image("v2"), edited, partition(1))
	old, update := revisionAt(t, 1).Name, revisionAt(t, 2, image("v2")).Name
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create controllerrevisions "+update, "delete pods web-2", putStatus)
	if got := f.status(t); got.CurrentReplicas != 2 || got.UpdatedReplicas != 0 || got.CurrentRevision != old || got.UpdateRevision != update {
		t.Errorf("status %+v", got)
	}
	f.CatchUp(t)
	f.MustReconcile(t)
	if f.Requests(); len(f.podImages(t)) != 3 || f.podImages(t)[2] != "v2" {
		t.Errorf("images %v", f.podImages(t))
	}
	f.kubelet(t)
	f.MustReconcile(t)
	f.CatchUp(t)
	f.MustReconcile(t)
	f.kubelet(t)
	f.Clock.Step(time.Second)
	f.MustReconcile(t)
	f.CatchUp(t)
	if got := f.podImages(t); fmt.Sprint(got) != "[v1 v2 v2]" {
		t.Errorf("images %v", got)
	}
	if got := f.status(t); got.CurrentReplicas != 1 || got.UpdatedReplicas != 2 || got.CurrentRevision != old {
		t.Errorf("status %+v", got)
	}
	// A deleted pod below the partition comes back as it was.
	if err := f.Fake.CoreV1().Pods("ns").Delete(t.Context(), "web-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.CatchUp(t)
	f.MustReconcile(t)
	if got := f.podImages(t); fmt.Sprint(got) != "[v1 v2 v2]" {
		t.Errorf("images %v", got)
	}
}

// The template was edited twice, so the pod that is deleted next counts neither as current nor as updated. Pins STS-71.
func TestARollingUpdateFromAnOlderOneDoesNotLowerCurrentReplicas(t *testing.T) {
	f := settled(t, 3, image("v3"), edited)
	between := revisionAt(t, 2, image("v2"))
	f.Store(t, between)
	f.Cache(t, between, podAt(newSet(3), between.Name, 2))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create controllerrevisions", "delete pods web-2", putStatus)
	if got := f.status(t); got.CurrentReplicas != 2 || got.UpdatedReplicas != 0 {
		t.Errorf("status %+v", got)
	}
}

func (f *fixture) podImages(t *testing.T) []string {
	t.Helper()
	var images []string
	for _, pod := range controllertest.AllStored[*corev1.Pod](t, f.Env, "ns") {
		images = append(images, pod.Spec.Containers[0].Image)
	}
	return images
}

// Pins STS-28.
func TestOnDeleteLeavesPodsAlone(t *testing.T) {
	f := settled(t, 2, image("v2"), edited, onDelete)
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create controllerrevisions "+revisionAt(t, 2, image("v2")).Name, putStatus)
}

// Pins STS-29a.
func TestMaxUnavailableGate(t *testing.T) {
	cfg := defaultGates
	cfg.maxUnavailable = true
	revision := revisionAt(t, 1)
	set := newSet(4, settledAt(revision.Name), image("v2"), edited, func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromString("50%"))
	})
	objects := []runtime.Object{set, revision}
	for n := range 4 {
		objects = append(objects, podAt(set, revision.Name, n))
	}
	f := newFixtureWith(t, cfg, objects...)
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create controllerrevisions "+revisionAt(t, 2, image("v2")).Name, "delete pods web-2", "delete pods web-3", putStatus)
	if got := f.status(t); got.CurrentReplicas != 2 {
		t.Errorf("status %+v", got)
	}
}

// TestACorrectedTemplateReplacesBrokenPods: the template of a parallel set, of which no pod ever became ready, was
// corrected. The pods are replaced one after the other.
// Pins STS-85.
func TestACorrectedTemplateReplacesBrokenPods(t *testing.T) {
	cfg := defaultGates
	cfg.maxUnavailable = true
	faulty, corrected := revisionAt(t, 1), revisionAt(t, 2, image("v2"))
	set := newSet(3, settledAt(faulty.Name), image("v2"), edited, parallel)
	for name, test := range map[string]struct {
		topmost *corev1.Pod
		want    []string
	}{
		"all are broken":             {podAt(set, faulty.Name, 2, notReady), []string{"delete pods web-2", putStatus}},
		"the first is not ready yet": {podAt(set, corrected.Name, 2, notReady), []string{putStatus}},
		"the first has become ready": {podAt(set, corrected.Name, 2), []string{"delete pods web-1", putStatus}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixtureWith(t, cfg, set.DeepCopy(), faulty, corrected,
				podAt(set, faulty.Name, 0, notReady), podAt(set, faulty.Name, 1, notReady), test.topmost)
			f.MustReconcile(t)
			f.WantRequestsInAnyOrder(t, test.want...)
		})
	}
}

func TestCompletionFreesTheOldRevisionAtOnce(t *testing.T) {
	old, update := revisionAt(t, 1), revisionAt(t, 2, image("v2"))
	set := newSet(1, image("v2"), settledAt(old.Name), func(set *appsv1.StatefulSet) {
		set.Status.UpdateRevision, set.Status.UpdatedReplicas = update.Name, 0
		set.Spec.RevisionHistoryLimit = ptr.To[int32](0)
	})
	f := newFixture(t, set, old, update, podAt(set, update.Name, 0))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, putStatus, "delete controllerrevisions "+old.Name)
	if got := f.status(t); got.CurrentRevision != update.Name || got.CurrentReplicas != 1 {
		t.Errorf("status %+v", got)
	}
}

// Pins STS-31.
func TestHistoryIsTruncated(t *testing.T) {
	limit := func(set *appsv1.StatefulSet) { set.Spec.RevisionHistoryLimit = ptr.To[int32](1) }
	f := settled(t, 1, limit)
	for i, name := range []string{"a", "b", "c", "d"} {
		f.Cache(t, renamed(name, revisionAt(t, int64(i)-9, image(name))))
	}
	set := newSet(1)
	f.Cache(t, podAt(set, "b", 0)) // its revision is live
	f.MustReconcile(t)
	want := []string{"delete controllerrevisions a", "delete controllerrevisions c", "delete pods web-0", putStatus}
	f.WantRequestsInAnyOrder(t, want...)

	// A revision that is protected keeps no other one, see WL-124.
	f = settled(t, 1, limit)
	f.Cache(t, renamed("a", revisionAt(t, -2, image("a"))), renamed("b", revisionAt(t, -1, image("b"))), renamed("c", revisionAt(t, 0, image("c"))))
	f.Refuse("delete controllerrevisions a", errTest)
	if err := f.Reconcile(); !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
	f.WantRequests(t, "delete controllerrevisions a", "delete controllerrevisions b")

	// Also if something failed.
	f = settled(t, 1, limit, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](2) })
	f.Cache(t, renamed("a", revisionAt(t, -2, image("a"))), renamed("b", revisionAt(t, -1, image("b"))))
	f.Refuse("create pods", errTest)
	f.Refuse("delete controllerrevisions", errors.New("nor this"))
	err := f.Reconcile()
	if err == nil || !strings.Contains(err.Error(), "no,") || !strings.Contains(err.Error(), "nor this") {
		t.Errorf("got %v", err)
	}
}
