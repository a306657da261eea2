package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controlplane"
)

// TestStatefulSet tests what a StatefulSet named web does. Its pods web-0, web-1, … have
// the labels app=web.
func TestStatefulSet(t *testing.T) {
	for _, b := range []struct {
		name string
		test func(*testing.T)
	}{
		{"GrowsAndShrinksInOrder", testSetGrowsAndShrinksInOrder},
		{"WaitsForThePodBefore", testSetWaitsForThePodBefore},
		{"Parallel", testSetParallel},
		{"RollsDownToPartition", testSetRollsDownToPartition},
		{"OnDelete", testSetOnDelete},
		{"RepairsStuckRollout", testSetRepairsStuckRollout},
		{"KeepsHistory", testSetKeepsHistory},
		{"MinReadySeconds", testSetMinReadySeconds},
		{"StartOrdinal", testSetStartOrdinal},
		{"Claims", testSetClaims},
		{"ClaimsOfScaledDownPods", testSetClaimsOfScaledDownPods},
		{"ClaimsOfOthers", testSetClaimsOfOthers},
		{"AdoptsAndReleases", testSetAdoptsAndReleases},
		{"ReplacesFailedPods", testSetReplacesFailedPods},
		{"ShowsQuotaFailure", testSetShowsQuotaFailure},
		{"LeavesPodsOfDeletedSet", testSetLeavesPodsOfDeletedSet},
	} {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			b.test(t)
		})
	}
}

var setLabels = map[string]string{"app": "web"}

func createSet(t *testing.T, namespace string, replicas int32, edit func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	t.Helper()
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.StatefulSetSpec{
			Replicas:    ptr.To(replicas),
			ServiceName: "svc",
			Selector:    &metav1.LabelSelector{MatchLabels: setLabels},
			Template:    template("web", "web:1"),
		},
	}
	if edit != nil {
		edit(set)
	}
	return must(admin.AppsV1().StatefulSets(namespace).Create(t.Context(), set, metav1.CreateOptions{}))(t)
}

func updateSet(t *testing.T, namespace string, edit func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	t.Helper()
	sets := admin.AppsV1().StatefulSets(namespace)
	var updated *appsv1.StatefulSet
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		set, err := sets.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(set)
		updated, err = sets.Update(t.Context(), set, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return updated
}

func setReplicas(n int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.Replicas = &n }
}

func setImageOf(image string) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = image }
}

func setPartition(n int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &n}
	}
}

func parallelPods(set *appsv1.StatefulSet) {
	set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
}

// waitForSet waits until check accepts the set, and returns it.
func waitForSet(t *testing.T, namespace, what string, check func(*appsv1.StatefulSet) error) *appsv1.StatefulSet {
	t.Helper()
	var set *appsv1.StatefulSet
	eventually(t, what, func(ctx context.Context) (err error) {
		if set, err = admin.AppsV1().StatefulSets(namespace).Get(ctx, "web", metav1.GetOptions{}); err != nil {
			return err
		}
		if set.Status.ObservedGeneration < set.Generation {
			return fmt.Errorf("generation %d of %d is observed", set.Status.ObservedGeneration, set.Generation)
		}
		return check(set)
	})
	return set
}

// waitForCompleteSet waits until the set has n pods, all of them ready and up to date.
func waitForCompleteSet(t *testing.T, namespace string, n int32) *appsv1.StatefulSet {
	t.Helper()
	return waitForSet(t, namespace, fmt.Sprintf("the set has %d pods", n), func(set *appsv1.StatefulSet) error {
		s := set.Status
		if s.Replicas != n || s.ReadyReplicas != n || s.AvailableReplicas != n || s.UpdatedReplicas != n || s.CurrentReplicas != n || s.CurrentRevision != s.UpdateRevision {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
}

// waitForCounts waits until the set has as many current and updated pods, and all its
// pods are ready.
func waitForCounts(t *testing.T, namespace string, current, updated int32) *appsv1.StatefulSet {
	t.Helper()
	return waitForSet(t, namespace, fmt.Sprintf("%d pods are current and %d updated", current, updated), func(set *appsv1.StatefulSet) error {
		if s := set.Status; s.CurrentReplicas != current || s.UpdatedReplicas != updated || s.ReadyReplicas != *set.Spec.Replicas {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
}

// podImages returns the images of the pods by name, for example "web-0=web:1 web-1=web:2".
func podImages(ctx context.Context, namespace string) (string, error) {
	list, err := podsOf(ctx, namespace, setLabels)
	var all []string
	for _, p := range list {
		all = append(all, p.Name+"="+p.Spec.Containers[0].Image)
	}
	slices.Sort(all)
	return strings.Join(all, " "), err
}

func waitForImages(t *testing.T, namespace, want string) {
	t.Helper()
	eventually(t, "the pods are "+want, func(ctx context.Context) error {
		got, err := podImages(ctx, namespace)
		if err == nil && got != want {
			err = fmt.Errorf("they are %s", got)
		}
		return err
	})
}

// setJournal is what happened to the pods of a namespace, in order.
type setJournal struct {
	mu    sync.Mutex
	lines []string
}

// journal records "+name" when a pod is created, "!name" when it becomes Ready and
// "-name" when its deletion begins.
func journal(t *testing.T, namespace string) *setJournal {
	t.Helper()
	j := &setJournal{}
	state := map[types.UID]string{}
	w, err := admin.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{})
	follow(t, w, err, func(event watch.EventType, p *corev1.Pod) error {
		note := func(mark string) {
			if !strings.Contains(state[p.UID], mark) {
				state[p.UID] += mark
				j.mu.Lock()
				defer j.mu.Unlock()
				j.lines = append(j.lines, mark+p.Name)
			}
		}
		note("+")
		if isReady(p) && p.DeletionTimestamp == nil {
			note("!")
		}
		if p.DeletionTimestamp != nil || event == watch.Deleted {
			note("-")
		}
		return nil
	})
	return j
}

// want waits until the journal is as told, and empties it.
func (j *setJournal) want(t *testing.T, want string) {
	t.Helper()
	eventually(t, "this happened: "+want, func(context.Context) error {
		j.mu.Lock()
		defer j.mu.Unlock()
		got := strings.Join(j.lines, " ")
		if got != want {
			err := fmt.Errorf("instead: %s", got)
			if !strings.HasPrefix(want, got) {
				return errFinal{err}
			}
			return err
		}
		j.lines = nil
		return nil
	})
}

func setEvent(kind, reason, message string) string {
	return "statefulset-controller " + kind + " " + reason + ": " + message
}

func testSetGrowsAndShrinksInOrder(t *testing.T) {
	namespace := newNamespace(t)
	j := journal(t, namespace)
	set := createSet(t, namespace, 3, nil)
	j.want(t, "+web-0 !web-0 +web-1 !web-1 +web-2 !web-2")
	set = waitForCompleteSet(t, namespace, 3)
	if set.Status.CollisionCount == nil || *set.Status.CollisionCount != 0 {
		t.Errorf("collisions %v", set.Status.CollisionCount)
	}
	for i, p := range waitForReadyPods(t, namespace, setLabels, 3) {
		name := fmt.Sprintf("web-%d", i)
		owner := metav1.GetControllerOf(&p)
		if p.Name != name || p.Spec.Hostname != name || p.Spec.Subdomain != "svc" || owner == nil || owner.UID != set.UID || owner.Kind != "StatefulSet" {
			t.Errorf("%s is %+v", name, p.ObjectMeta)
		}
		for label, want := range map[string]string{
			"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": fmt.Sprint(i), "controller-revision-hash": set.Status.UpdateRevision,
		} {
			if p.Labels[label] != want {
				t.Errorf("%s: %s is %q, want %q", name, label, p.Labels[label], want)
			}
		}
	}
	updateSet(t, namespace, setReplicas(1))
	j.want(t, "-web-2 -web-1")
	waitForCompleteSet(t, namespace, 1)
	waitForEvents(t, namespace, set.UID,
		setEvent("Normal", "SuccessfulCreate", "Create Pod web-0 in StatefulSet web successful"),
		setEvent("Normal", "SuccessfulCreate", "Create Pod web-1 in StatefulSet web successful"),
		setEvent("Normal", "SuccessfulCreate", "Create Pod web-2 in StatefulSet web successful"),
		setEvent("Normal", "SuccessfulDelete", "Delete Pod web-2 in StatefulSet web successful"),
		setEvent("Normal", "SuccessfulDelete", "Delete Pod web-1 in StatefulSet web successful"))
	updateSet(t, namespace, setReplicas(2))
	j.want(t, "+web-1 !web-1")
}

func testSetWaitsForThePodBefore(t *testing.T) {
	namespace := newNamespace(t)
	createSet(t, namespace, 3, nil)
	waitForCompleteSet(t, namespace, 3)
	setReady(t, namespace, "web-1", corev1.ConditionFalse)
	waitForSet(t, namespace, "one is not ready", func(set *appsv1.StatefulSet) error {
		if set.Status.ReadyReplicas != 2 {
			return fmt.Errorf("the status is %+v", set.Status)
		}
		return nil
	})
	j := journal(t, namespace)
	deleteNow(t, namespace, "web-2")
	waitForSet(t, namespace, "it has gone", func(set *appsv1.StatefulSet) error {
		if set.Status.Replicas != 2 {
			return fmt.Errorf("the status is %+v", set.Status)
		}
		return nil
	})
	setReady(t, namespace, "web-1", corev1.ConditionTrue)
	j.want(t, "+web-2 -web-2 +web-1 !web-1 +web-0 !web-0 +web-2 !web-2")
}

func testSetParallel(t *testing.T) {
	namespace := newNamespace(t)
	createSet(t, namespace, 3, func(set *appsv1.StatefulSet) {
		parallelPods(set)
		unschedulable(&set.Spec.Template)
	})
	waitForSet(t, namespace, "three pods are there, none of them ready", func(set *appsv1.StatefulSet) error {
		if s := set.Status; s.Replicas != 3 || s.ReadyReplicas != 0 || s.CurrentReplicas != 3 {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	// A rolling update goes one by one all the same, and is not held up by broken pods.
	updateSet(t, namespace, func(set *appsv1.StatefulSet) { set.Spec.Template.Spec.NodeSelector = nil })
	waitForCompleteSet(t, namespace, 3)
	updateSet(t, namespace, setReplicas(0))
	waitForCompleteSet(t, namespace, 0)
}

func testSetRollsDownToPartition(t *testing.T) {
	namespace := newNamespace(t)
	createSet(t, namespace, 3, nil)
	first := waitForCompleteSet(t, namespace, 3).Status.UpdateRevision
	j := journal(t, namespace)
	j.skipExisting(t, 3)
	updateSet(t, namespace, func(set *appsv1.StatefulSet) {
		setImageOf("web:2")(set)
		setPartition(2)(set)
	})
	j.want(t, "-web-2 +web-2 !web-2")
	set := waitForCounts(t, namespace, 2, 1)
	if set.Status.CurrentRevision != first || set.Status.UpdateRevision == first {
		t.Errorf("the status is %+v", set.Status)
	}
	// What is below the partition comes back at the old revision.
	deleteNow(t, namespace, "web-0")
	waitForImages(t, namespace, "web-0=web:1 web-1=web:1 web-2=web:2")
	waitForCounts(t, namespace, 2, 1)
	j.want(t, "-web-0 +web-0 !web-0")
	updateSet(t, namespace, setPartition(0))
	j.want(t, "-web-1 +web-1 !web-1 -web-0 +web-0 !web-0")
	set = waitForCompleteSet(t, namespace, 3)
	if set.Status.CurrentRevision == first {
		t.Errorf("the status is %+v", set.Status)
	}
	waitForImages(t, namespace, "web-0=web:2 web-1=web:2 web-2=web:2")
}

// skipExisting waits until the journal has seen that n pods exist and are Ready, and
// empties it.
func (j *setJournal) skipExisting(t *testing.T, n int) {
	t.Helper()
	eventually(t, "the pods are seen", func(context.Context) error {
		j.mu.Lock()
		defer j.mu.Unlock()
		if len(j.lines) != 2*n {
			return fmt.Errorf("this was: %v", j.lines)
		}
		j.lines = nil
		return nil
	})
}

func testSetOnDelete(t *testing.T) {
	namespace := newNamespace(t)
	createSet(t, namespace, 2, func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	})
	waitForCompleteSet(t, namespace, 2)
	updateSet(t, namespace, setImageOf("web:2"))
	waitForCounts(t, namespace, 2, 0)
	deleteNow(t, namespace, "web-0")
	waitForCounts(t, namespace, 1, 1)
	waitForImages(t, namespace, "web-0=web:2 web-1=web:1")
}

func testSetRepairsStuckRollout(t *testing.T) {
	namespace := newNamespace(t)
	createSet(t, namespace, 2, nil)
	good := waitForCompleteSet(t, namespace, 2).Status.UpdateRevision
	updateSet(t, namespace, func(set *appsv1.StatefulSet) {
		setImageOf("web:broken")(set)
		unschedulable(&set.Spec.Template)
	})
	waitForImages(t, namespace, "web-0=web:1 web-1=web:broken")
	updateSet(t, namespace, func(set *appsv1.StatefulSet) {
		setImageOf("web:1")(set)
		set.Spec.Template.Spec.NodeSelector = nil
	})
	// The broken pod has to be deleted by hand; it comes back at the good revision, which
	// is the one there was.
	waitForSet(t, namespace, "the good revision is to be rolled out", func(set *appsv1.StatefulSet) error {
		if s := set.Status; s.UpdateRevision != good || s.CurrentRevision != good || s.UpdatedReplicas != 1 {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	deleteNow(t, namespace, "web-1")
	waitForImages(t, namespace, "web-0=web:1 web-1=web:1")
	waitForCompleteSet(t, namespace, 2)
	history := setHistory(t, namespace)
	if len(history) != 2 || history[1].Name != good || history[1].Revision != 3 {
		t.Errorf("the history is %v", history)
	}
}

// setHistory returns the revisions of the namespace by number.
func setHistory(t *testing.T, namespace string) []appsv1.ControllerRevision {
	t.Helper()
	list := must(admin.AppsV1().ControllerRevisions(namespace).List(t.Context(), metav1.ListOptions{}))(t)
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return list.Items
}

func testSetKeepsHistory(t *testing.T) {
	namespace := newNamespace(t)
	set := createSet(t, namespace, 1, func(set *appsv1.StatefulSet) {
		set.Spec.RevisionHistoryLimit = ptr.To[int32](1)
		set.Annotations = map[string]string{"example.com/note": "kept"}
	})
	waitForCompleteSet(t, namespace, 1)
	for i := 2; i <= 4; i++ {
		updateSet(t, namespace, setImageOf(fmt.Sprintf("web:%d", i)))
		waitForCompleteSet(t, namespace, 1)
	}
	eventually(t, "one old revision is kept", func(context.Context) error {
		if history := setHistory(t, namespace); len(history) != 2 || history[0].Revision != 3 || history[1].Revision != 4 {
			return fmt.Errorf("the history is %v", history)
		}
		return nil
	})
	newest := setHistory(t, namespace)[1]
	hash := newest.Labels["controller.kubernetes.io/hash"]
	owner := metav1.GetControllerOf(&newest)
	if newest.Name != "web-"+hash || newest.Labels["app"] != "web" || newest.Annotations["example.com/note"] != "kept" || owner == nil || owner.UID != set.UID {
		t.Errorf("the newest revision is %+v", newest)
	}
}

func testSetMinReadySeconds(t *testing.T) {
	namespace := newNamespace(t)
	createSet(t, namespace, 2, func(set *appsv1.StatefulSet) { set.Spec.MinReadySeconds = 2 })
	waitForSet(t, namespace, "one pod is ready and not yet available", func(set *appsv1.StatefulSet) error {
		if set.Status.AvailableReplicas > 0 || set.Status.Replicas > 1 {
			return errFinal{errors.New("it is available at once")}
		}
		if set.Status.ReadyReplicas != 1 {
			return errors.New("it is not ready")
		}
		return nil
	})
	waitForCompleteSet(t, namespace, 2)
	pods := waitForReadyPods(t, namespace, setLabels, 2)
	for _, c := range pods[0].Status.Conditions {
		if c.Type == corev1.PodReady && pods[1].CreationTimestamp.Sub(c.LastTransitionTime.Time) < 2*time.Second {
			t.Errorf("%s was created at %s, when the one before it had been ready since %s", pods[1].Name, pods[1].CreationTimestamp, c.LastTransitionTime)
		}
	}
}

func testSetStartOrdinal(t *testing.T) {
	namespace := newNamespace(t)
	j := journal(t, namespace)
	createSet(t, namespace, 2, func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 4} })
	j.want(t, "+web-4 !web-4 +web-5 !web-5")
	waitForCompleteSet(t, namespace, 2)
	updateSet(t, namespace, func(set *appsv1.StatefulSet) { set.Spec.Ordinals.Start = 5 })
	j.want(t, "+web-6 !web-6 -web-4")
	waitForCompleteSet(t, namespace, 2)
}

// withClaims gives a set the claim template data. Nobody binds claims here, so its pods
// are not left to the scheduler.
func withClaims(policy *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		set.Spec.Template.Spec.NodeName = controlplane.NodeName(0)
		set.Spec.PersistentVolumeClaimRetentionPolicy = policy
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"tier": "db"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				StorageClassName: ptr.To("none"),
				Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}}
	}
}

// claimOwners waits until a claim is owned as told, like "StatefulSet/web".
func claimOwners(t *testing.T, namespace, claim, want string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s is owned by %q", claim, want), func(ctx context.Context) error {
		c, err := admin.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, claim, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var got []string
		for _, ref := range c.OwnerReferences {
			got = append(got, ref.Kind+"/"+ref.Name)
		}
		if strings.Join(got, " ") != want {
			return fmt.Errorf("it is owned by %q", got)
		}
		return nil
	})
}

func testSetClaims(t *testing.T) {
	namespace := newNamespace(t)
	set := createSet(t, namespace, 2, withClaims(nil))
	waitForCompleteSet(t, namespace, 2)
	for i := range 2 {
		name := fmt.Sprintf("data-web-%d", i)
		claim := must(admin.CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
		if claim.Labels["app"] != "web" || claim.Labels["tier"] != "db" || len(claim.OwnerReferences) != 0 {
			t.Errorf("%s is %+v", name, claim.ObjectMeta)
		}
		pod := must(admin.CoreV1().Pods(namespace).Get(t.Context(), fmt.Sprintf("web-%d", i), metav1.GetOptions{}))(t)
		if v := pod.Spec.Volumes[0]; v.Name != "data" || v.PersistentVolumeClaim == nil || v.PersistentVolumeClaim.ClaimName != name {
			t.Errorf("%s mounts %+v", pod.Name, pod.Spec.Volumes)
		}
	}
	waitForEvent(t, namespace, set.UID, setEvent("Normal", "SuccessfulCreate", "Create Claim data-web-0 Pod web-0 in StatefulSet web success"))
	policy := func(deleted, scaled appsv1.PersistentVolumeClaimRetentionPolicyType) func(*appsv1.StatefulSet) {
		return func(set *appsv1.StatefulSet) {
			set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: deleted, WhenScaled: scaled}
		}
	}
	updateSet(t, namespace, policy("Delete", "Retain"))
	claimOwners(t, namespace, "data-web-0", "StatefulSet/web")
	claimOwners(t, namespace, "data-web-1", "StatefulSet/web")
	updateSet(t, namespace, policy("Retain", "Retain"))
	claimOwners(t, namespace, "data-web-0", "")
	claimOwners(t, namespace, "data-web-1", "")
	updateSet(t, namespace, setReplicas(0))
	waitForCompleteSet(t, namespace, 0)
	claimOwners(t, namespace, "data-web-1", "")
}

func testSetClaimsOfScaledDownPods(t *testing.T) {
	namespace := newNamespace(t)
	set := createSet(t, namespace, 2, withClaims(&appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: "Delete", WhenScaled: "Delete"}))
	waitForCompleteSet(t, namespace, 2)
	claimOwners(t, namespace, "data-web-1", "StatefulSet/web")
	updateSet(t, namespace, setReplicas(1))
	waitForCompleteSet(t, namespace, 1)
	claimOwners(t, namespace, "data-web-0", "StatefulSet/web")
	claimOwners(t, namespace, "data-web-1", "Pod/web-1")
	// The claim goes with the pod. The next pod of the slot waits until it has.
	updateSet(t, namespace, setReplicas(2))
	waitForSet(t, namespace, "the new size is observed", func(*appsv1.StatefulSet) error { return nil })
	claims := admin.CoreV1().PersistentVolumeClaims(namespace)
	old := must(claims.Get(t.Context(), "data-web-1", metav1.GetOptions{}))(t)
	if err := claims.Delete(t.Context(), old.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().Pods(namespace).Get(t.Context(), "web-1", metav1.GetOptions{}); gone(err) != nil {
		t.Errorf("the pod does not wait for its claim: %v", gone(err))
	}
	// What protects claims that are in use may or may not have taken its finalizer off.
	_, err := claims.Patch(t.Context(), old.Name, types.MergePatchType, []byte(noFinalizers), metav1.PatchOptions{})
	if err != nil && gone(err) != nil {
		t.Fatal(err)
	}
	waitForCompleteSet(t, namespace, 2)
	claimOwners(t, namespace, "data-web-1", "StatefulSet/web")
	if now := must(claims.Get(t.Context(), "data-web-1", metav1.GetOptions{}))(t); now.UID == old.UID || set.UID != now.OwnerReferences[0].UID {
		t.Errorf("the claim is %+v", now.ObjectMeta)
	}
}

func testSetClaimsOfOthers(t *testing.T) {
	namespace := newNamespace(t)
	owner := must(admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{}))(t)
	with := &appsv1.StatefulSet{}
	withClaims(nil)(with)
	claim := with.Spec.VolumeClaimTemplates[0].DeepCopy()
	claim.Name = "data-web-0"
	claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
	must(admin.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), claim, metav1.CreateOptions{}))(t)
	set := createSet(t, namespace, 1, withClaims(&appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: "Delete", WhenScaled: "Retain"}))
	waitForCompleteSet(t, namespace, 1)
	eventually(t, "the conflict is told", func(ctx context.Context) error {
		events, err := eventsOf(ctx, namespace, set.UID)
		if err == nil && !slices.Contains(events, setEvent("Warning", "ConflictingController", "PersistentVolumeClaim data-web-0 has a conflicting OwnerReference "+
			"that acts as a manging controller, the retention policy is ignored for this claim")) {
			err = fmt.Errorf("the events are %q", events)
		}
		return err
	})
	claimOwners(t, namespace, "data-web-0", "ConfigMap/owner")
}

func testSetAdoptsAndReleases(t *testing.T) {
	namespace := newNamespace(t)
	adopted := createPod(t, namespace, "web-0", "web", onNode(0))
	createPod(t, namespace, "stranger", "web", onNode(1))
	waitForReadyPods(t, namespace, setLabels, 2)
	set := createSet(t, namespace, 2, func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	})
	waitForSet(t, namespace, "both pods are there", func(set *appsv1.StatefulSet) error {
		if s := set.Status; s.ReadyReplicas != 2 || s.UpdatedReplicas != 1 {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	eventually(t, "the pod has the identity of its slot", func(ctx context.Context) error {
		p, err := admin.CoreV1().Pods(namespace).Get(ctx, "web-0", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.UID != adopted.UID {
			return errFinal{errors.New("it was replaced")}
		}
		owner := metav1.GetControllerOf(p)
		if owner == nil || owner.UID != set.UID || p.Labels["statefulset.kubernetes.io/pod-name"] != "web-0" || p.Labels["apps.kubernetes.io/pod-index"] != "0" {
			return fmt.Errorf("it is %+v", p.ObjectMeta)
		}
		return nil
	})
	waitForEvent(t, namespace, set.UID, setEvent("Normal", "SuccessfulUpdate", "Update Pod web-0 in StatefulSet web successful"))
	stranger := must(admin.CoreV1().Pods(namespace).Get(t.Context(), "stranger", metav1.GetOptions{}))(t)
	if len(stranger.OwnerReferences) != 0 {
		t.Errorf("the stranger is owned by %v", stranger.OwnerReferences)
	}
	// A pod that is released still has its name; the slot is filled when it is gone.
	patchPod(t, namespace, "web-0", `{"metadata":{"labels":{"app":"other"}}}`)
	eventually(t, "the pod is released", func(ctx context.Context) error {
		p, err := admin.CoreV1().Pods(namespace).Get(ctx, "web-0", metav1.GetOptions{})
		if err == nil && len(p.OwnerReferences) > 0 {
			err = fmt.Errorf("it is owned by %v", p.OwnerReferences)
		}
		return err
	})
	deleteNow(t, namespace, "web-0")
	waitForCompleteSetOnDelete(t, namespace, 2)
}

// waitForCompleteSetOnDelete waits until all pods are ready and up to date. The strategy
// OnDelete never makes the update revision the current one.
func waitForCompleteSetOnDelete(t *testing.T, namespace string, n int32) {
	t.Helper()
	waitForSet(t, namespace, "all pods are up to date", func(set *appsv1.StatefulSet) error {
		if s := set.Status; s.ReadyReplicas != n || s.UpdatedReplicas != n {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
}

func testSetReplacesFailedPods(t *testing.T) {
	namespace := newNamespace(t)
	set := createSet(t, namespace, 2, nil)
	waitForCompleteSet(t, namespace, 2)
	old := must(admin.CoreV1().Pods(namespace).Get(t.Context(), "web-0", metav1.GetOptions{}))(t)
	patchStatus(t, namespace, "web-0", map[string]any{"phase": corev1.PodFailed})
	eventually(t, "the failed pod is replaced", func(ctx context.Context) error {
		p, err := admin.CoreV1().Pods(namespace).Get(ctx, "web-0", metav1.GetOptions{})
		if err == nil && (p.UID == old.UID || !isReady(p)) {
			err = errors.New("it is not")
		}
		return err
	})
	waitForCompleteSet(t, namespace, 2)
	waitForEvent(t, namespace, set.UID, setEvent("Normal", "SuccessfulDelete", "Delete Pod web-0 in StatefulSet web successful"))
}

func testSetShowsQuotaFailure(t *testing.T) {
	namespace := newNamespace(t)
	setQuota(t, namespace, "pods", 1, 0)
	set := createSet(t, namespace, 2, nil)
	waitForEvent(t, namespace, set.UID, setEvent("Warning", "FailedCreate", `Create Pod web-1 in StatefulSet web failed error: pods "web-1" is forbidden: `+
		`exceeded quota: quota, requested: pods=1, used: pods=1, limited: pods=1`))
	setQuota(t, namespace, "pods", 2, 1)
	waitForCompleteSet(t, namespace, 2)
}

func testSetLeavesPodsOfDeletedSet(t *testing.T) {
	namespace := newNamespace(t)
	set := createSet(t, namespace, 2, func(set *appsv1.StatefulSet) { set.Finalizers = []string{hold} })
	waitForCompleteSet(t, namespace, 2)
	sets := admin.AppsV1().StatefulSets(namespace)
	if err := sets.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	deleteNow(t, namespace, "web-1")
	// The status still follows, and nothing is created.
	waitForSet(t, namespace, "one pod is left", func(set *appsv1.StatefulSet) error {
		if s := set.Status; s.Replicas != 1 || s.ReadyReplicas != 1 {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	must(sets.Patch(t.Context(), "web", types.MergePatchType, []byte(noFinalizers), metav1.PatchOptions{}))(t)
	// The next set of the name starts with what it finds.
	eventually(t, "the set is gone", func(ctx context.Context) error {
		_, err := sets.Get(ctx, "web", metav1.GetOptions{})
		return gone(err)
	})
	patchPod(t, namespace, "web-0", `{"metadata":{"ownerReferences":null}}`)
	again := createSet(t, namespace, 2, nil)
	waitForCompleteSet(t, namespace, 2)
	for _, p := range waitForReadyPods(t, namespace, setLabels, 2) {
		if owner := metav1.GetControllerOf(&p); owner == nil || owner.UID != again.UID || again.UID == set.UID {
			t.Errorf("%s is owned by %v", p.Name, p.OwnerReferences)
		}
	}
}
