package workloads

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// TestStatefulSet tests what a StatefulSet named web does. Its pods web-0, web-1, … have
// the labels app=web.
func TestStatefulSet(t *testing.T) {
	for _, b := range []struct {
		name string
		test func(*testing.T)
	}{
		{"STS-25, STS-27: GrowsAndShrinksInOrder", testSetGrowsAndShrinksInOrder},
		{"STS-25e: WaitsForThePodBefore", testSetWaitsForThePodBefore},
		{"STS-25e: WaitsForTerminatingPods", testSetWaitsForTerminatingPods},
		{"STS-25: Parallel", testSetParallel},
		{"STS-29: RollsDownToPartition", testSetRollsDownToPartition},
		{"STS-28: OnDelete", testSetOnDelete},
		{"STS-50: RepairsStuckRollout", testSetRepairsStuckRollout},
		{"STS-31: KeepsHistory", testSetKeepsHistory},
		{"MinReadySeconds", testSetMinReadySeconds},
		{"STS-22: StartOrdinal", testSetStartOrdinal},
		{"STS-13, STS-33: Claims", testSetClaims},
		{"STS-39, STS-41: ClaimsOfScaledDownPods", testSetClaimsOfScaledDownPods},
		{"STS-37: ClaimsOfOthers", testSetClaimsOfOthers},
		{"STS-17: AdoptsAndReleases", testSetAdoptsAndReleases},
		{"STS-25b: ReplacesFailedPods", testSetReplacesFailedPods},
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

// createSet creates the set web. Its pods end at once: kwok, which would end them, deletes
// by name and may hit the next pod of a slot.
func createSet(t *testing.T, namespace string, replicas int32, edit func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	t.Helper()
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.StatefulSetSpec{
			Replicas:    ptr.To(replicas),
			ServiceName: "svc",
			Selector:    &metav1.LabelSelector{MatchLabels: setLabels},
			Template:    harness.PodTemplate("web", "web:1"),
		},
	}
	set.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64)
	if edit != nil {
		edit(set)
	}
	return must.Get(admin.AppsV1().StatefulSets(namespace).Create(t.Context(), set, metav1.CreateOptions{}))(t)
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
	await.That(t, what, func(ctx context.Context) (err error) {
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
	list, err := cluster.PodsOf(ctx, namespace, setLabels)
	var all []string
	for _, p := range list {
		all = append(all, p.Name+"="+p.Spec.Containers[0].Image)
	}
	slices.Sort(all)
	return strings.Join(all, " "), err
}

func waitForImages(t *testing.T, namespace, want string) {
	t.Helper()
	await.That(t, "the pods are "+want, func(ctx context.Context) error {
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
	harness.Follow(t, w, err, func(event watch.EventType, p *corev1.Pod) error {
		note := func(mark string) {
			if !strings.Contains(state[p.UID], mark) {
				state[p.UID] += mark
				j.mu.Lock()
				defer j.mu.Unlock()
				j.lines = append(j.lines, mark+p.Name)
			}
		}
		note("+")
		if harness.IsReady(p) && p.DeletionTimestamp == nil {
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
	await.That(t, "this happened: "+want, func(context.Context) error {
		j.mu.Lock()
		defer j.mu.Unlock()
		got := strings.Join(j.lines, " ")
		if got != want {
			err := fmt.Errorf("instead: %s", got)
			if !strings.HasPrefix(want, got) {
				return await.Final(err)
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
	namespace := cluster.NamespaceForPods(t)
	j := journal(t, namespace)
	createSet(t, namespace, 3, nil)
	j.want(t, "+web-0 !web-0 +web-1 !web-1 +web-2 !web-2")
	set := waitForCompleteSet(t, namespace, 3)
	if set.Status.CollisionCount == nil || *set.Status.CollisionCount != 0 {
		t.Errorf("collisions %v", set.Status.CollisionCount)
	}
	for i, p := range cluster.WaitForReadyPods(t, namespace, setLabels, 3) {
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
	cluster.WaitForEvents(t, namespace, set.UID,
		setEvent("Normal", "SuccessfulCreate", "Create Pod web-0 in StatefulSet web successful"),
		setEvent("Normal", "SuccessfulCreate", "Create Pod web-1 in StatefulSet web successful"),
		setEvent("Normal", "SuccessfulCreate", "Create Pod web-2 in StatefulSet web successful"),
		setEvent("Normal", "SuccessfulDelete", "Delete Pod web-2 in StatefulSet web successful"),
		setEvent("Normal", "SuccessfulDelete", "Delete Pod web-1 in StatefulSet web successful"))
	updateSet(t, namespace, setReplicas(2))
	j.want(t, "+web-1 !web-1")
}

func testSetWaitsForThePodBefore(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	createSet(t, namespace, 3, nil)
	waitForCompleteSet(t, namespace, 3)
	counts := func(all, ready int32) {
		t.Helper()
		waitForSet(t, namespace, fmt.Sprintf("%d of %d pods are ready", ready, all), func(set *appsv1.StatefulSet) error {
			if s := set.Status; s.Replicas != all || s.ReadyReplicas != ready {
				return fmt.Errorf("the status is %+v", s)
			}
			return nil
		})
	}
	cluster.SetReady(t, namespace, "web-1", corev1.ConditionFalse)
	counts(3, 2)
	cluster.DeletePodNow(t, namespace, "web-2")
	counts(2, 1)
	// The reconcile that wrote this status would have created the pod before.
	if pods := must.Get(cluster.PodsOf(t.Context(), namespace, setLabels))(t); len(pods) != 2 {
		t.Errorf("%d pods are there", len(pods))
	}
	cluster.SetReady(t, namespace, "web-1", corev1.ConditionTrue)
	waitForCompleteSet(t, namespace, 3)
	// On the way down a pod that is not ready waits too, unless it is the first of those.
	cluster.SetReady(t, namespace, "web-1", corev1.ConditionFalse)
	cluster.SetReady(t, namespace, "web-2", corev1.ConditionFalse)
	counts(3, 1)
	updateSet(t, namespace, setReplicas(0))
	counts(3, 1)
	for _, p := range must.Get(cluster.PodsOf(t.Context(), namespace, setLabels))(t) {
		if p.DeletionTimestamp != nil {
			t.Errorf("%s is being deleted", p.Name)
		}
	}
	cluster.SetReady(t, namespace, "web-2", corev1.ConditionTrue)
	waitForCompleteSet(t, namespace, 0)
}

func testSetWaitsForTerminatingPods(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	createSet(t, namespace, 2, func(set *appsv1.StatefulSet) { set.Spec.Template.Finalizers = []string{harness.Hold} })
	waitForCompleteSet(t, namespace, 2)
	updateSet(t, namespace, setReplicas(0))
	// A pod that is being deleted counts, but not at its revision.
	waitForSet(t, namespace, "one pod is terminating", func(set *appsv1.StatefulSet) error {
		if s := set.Status; s.Replicas != 2 || s.CurrentReplicas != 1 || s.UpdatedReplicas != 1 {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	if p := must.Get(admin.CoreV1().Pods(namespace).Get(t.Context(), "web-0", metav1.GetOptions{}))(t); p.DeletionTimestamp != nil {
		t.Error("web-0 does not wait for web-1")
	}
	cluster.PatchPod(t, namespace, "web-1", harness.NoFinalizers)
	await.That(t, "web-0 is next", func(ctx context.Context) error {
		p, err := admin.CoreV1().Pods(namespace).Get(ctx, "web-0", metav1.GetOptions{})
		if err == nil && p.DeletionTimestamp == nil {
			err = errors.New("it is not being deleted")
		}
		return err
	})
	cluster.PatchPod(t, namespace, "web-0", harness.NoFinalizers)
	waitForCompleteSet(t, namespace, 0)
}

func testSetParallel(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	createSet(t, namespace, 3, func(set *appsv1.StatefulSet) {
		parallelPods(set)
		harness.Unschedulable(&set.Spec.Template)
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
	namespace := cluster.NamespaceForPods(t)
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
	cluster.DeletePodNow(t, namespace, "web-0")
	j.want(t, "-web-0 +web-0 !web-0")
	waitForImages(t, namespace, "web-0=web:1 web-1=web:1 web-2=web:2")
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
	await.That(t, "the pods are seen", func(context.Context) error {
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
	namespace := cluster.NamespaceForPods(t)
	createSet(t, namespace, 2, func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	})
	waitForCompleteSet(t, namespace, 2)
	updateSet(t, namespace, setImageOf("web:2"))
	waitForCounts(t, namespace, 2, 0)
	cluster.DeletePodNow(t, namespace, "web-0")
	waitForCounts(t, namespace, 1, 1)
	waitForImages(t, namespace, "web-0=web:2 web-1=web:1")
}

func testSetRepairsStuckRollout(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	createSet(t, namespace, 2, nil)
	good := waitForCompleteSet(t, namespace, 2).Status.UpdateRevision
	updateSet(t, namespace, func(set *appsv1.StatefulSet) {
		setImageOf("web:broken")(set)
		harness.Unschedulable(&set.Spec.Template)
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
	cluster.DeletePodNow(t, namespace, "web-1")
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
	list := must.Get(admin.AppsV1().ControllerRevisions(namespace).List(t.Context(), metav1.ListOptions{}))(t)
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return list.Items
}

func testSetKeepsHistory(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	set := createSet(t, namespace, 1, func(set *appsv1.StatefulSet) {
		set.Spec.RevisionHistoryLimit = ptr.To[int32](1)
		set.Annotations = map[string]string{"example.com/note": "kept"}
	})
	waitForCompleteSet(t, namespace, 1)
	for i := 2; i <= 4; i++ {
		updateSet(t, namespace, setImageOf(fmt.Sprintf("web:%d", i)))
		waitForCompleteSet(t, namespace, 1)
	}
	await.That(t, "one old revision is kept", func(context.Context) error {
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
	namespace := cluster.NamespaceForPods(t)
	createSet(t, namespace, 2, func(set *appsv1.StatefulSet) { set.Spec.MinReadySeconds = 2 })
	waitForSet(t, namespace, "one pod is ready and not yet available", func(set *appsv1.StatefulSet) error {
		if set.Status.AvailableReplicas > 0 || set.Status.Replicas > 1 {
			return await.Final(errors.New("it is available at once"))
		}
		if set.Status.ReadyReplicas != 1 {
			return errors.New("it is not ready")
		}
		return nil
	})
	waitForCompleteSet(t, namespace, 2)
	pods := cluster.WaitForReadyPods(t, namespace, setLabels, 2)
	for _, c := range pods[0].Status.Conditions {
		if c.Type == corev1.PodReady && pods[1].CreationTimestamp.Sub(c.LastTransitionTime.Time) < 2*time.Second {
			t.Errorf("%s was created at %s, when the one before it had been ready since %s", pods[1].Name, pods[1].CreationTimestamp, c.LastTransitionTime)
		}
	}
}

func testSetStartOrdinal(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	j := journal(t, namespace)
	createSet(t, namespace, 2, func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 4} })
	j.want(t, "+web-4 !web-4 +web-5 !web-5")
	waitForCompleteSet(t, namespace, 2)
	updateSet(t, namespace, func(set *appsv1.StatefulSet) { set.Spec.Ordinals.Start = 5 })
	j.want(t, "+web-6 !web-6 -web-4")
	waitForCompleteSet(t, namespace, 2)
}

func testSetReplacesFailedPods(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	set := createSet(t, namespace, 2, nil)
	waitForCompleteSet(t, namespace, 2)
	old := must.Get(admin.CoreV1().Pods(namespace).Get(t.Context(), "web-0", metav1.GetOptions{}))(t)
	cluster.PatchPodStatus(t, namespace, "web-0", map[string]any{"phase": corev1.PodFailed})
	await.That(t, "the failed pod is replaced", func(ctx context.Context) error {
		p, err := admin.CoreV1().Pods(namespace).Get(ctx, "web-0", metav1.GetOptions{})
		if err == nil && (p.UID == old.UID || !harness.IsReady(p)) {
			err = errors.New("it is not")
		}
		return err
	})
	waitForCompleteSet(t, namespace, 2)
	cluster.WaitForEvent(t, namespace, set.UID, setEvent("Normal", "SuccessfulDelete", "Delete Pod web-0 in StatefulSet web successful"))
}

func testSetShowsQuotaFailure(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	setQuota(t, namespace, "pods", 1, 0)
	set := createSet(t, namespace, 2, nil)
	cluster.WaitForEvent(t, namespace, set.UID, setEvent("Warning", "FailedCreate", `Create Pod web-1 in StatefulSet web failed error: pods "web-1" is forbidden: `+
		`exceeded quota: quota, requested: pods=1, used: pods=1, limited: pods=1`))
	setQuota(t, namespace, "pods", 2, 1)
	waitForCompleteSet(t, namespace, 2)
}
