package workloads

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// TestDeploymentRollingUpdateKeepsBounds watches every step of a rolling update.
// Surge is a promise about the sizes of the ReplicaSets, availability one about pods.
// Pins DEP-28a and DEP-28d.
func TestDeploymentRollingUpdateKeepsBounds(t *testing.T) {
	t.Parallel()
	for _, bounds := range []struct{ surge, unavailable int }{{2, 1}, {0, 2}, {3, 0}} {
		t.Run(fmt.Sprintf("surge %d, unavailable %d", bounds.surge, bounds.unavailable), func(t *testing.T) {
			t.Parallel()
			const replicas = 8
			namespace := cluster.NamespaceForPods(t)
			cluster.CreateDeployment(t, namespace, replicas, rolling(bounds.surge, bounds.unavailable))
			cluster.WaitForRollout(t, namespace)
			watchSizes(t, namespace, replicas+bounds.surge)
			available := watchAvailable(t, namespace, replicas, replicas-bounds.unavailable)
			cluster.UpdateDeployment(t, namespace, setImage("web:2"))
			cluster.WaitForRollout(t, namespace)
			old := waitForSizes(t, namespace, 0, replicas)[0]
			cluster.WaitForReadyPods(t, namespace, map[string]string{"app": "web"}, replicas)
			t.Logf("at least %d available", available())
			if old.Annotations[revision] != "1" {
				t.Errorf("the old ReplicaSet has revision %s", old.Annotations[revision])
			}
		})
	}
}

// TestDeploymentRollingUpdateTellsEachStep has bounds that leave only one way to go.
// Pins DEP-24e and DEP-25.
func TestDeploymentRollingUpdateTellsEachStep(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	cluster.CreateDeployment(t, namespace, 2, rolling(1, 0))
	cluster.WaitForRollout(t, namespace)
	cluster.UpdateDeployment(t, namespace, setImage("web:2"))
	d := cluster.WaitForRollout(t, namespace)
	sets := waitForSizes(t, namespace, 0, 2)
	before, after := sets[0].Name, sets[1].Name
	cluster.WaitForEvents(t, namespace, d.UID, scaled("up", before, 0, 2),
		scaled("up", after, 0, 1), scaled("down", before, 2, 1), scaled("up", after, 1, 2), scaled("down", before, 1, 0))
	if d.Annotations[revision] != "2" || sets[1].Annotations[revision] != "2" {
		t.Errorf("the revisions are %s and %s", d.Annotations[revision], sets[1].Annotations[revision])
	}
}

// watchSizes fails the test if the sizes of the ReplicaSets add up to more than most.
func watchSizes(t *testing.T, namespace string, most int) {
	t.Helper()
	sets := must.Get(admin.AppsV1().ReplicaSets(namespace).List(t.Context(), metav1.ListOptions{}))(t)
	size := map[types.UID]int{}
	for _, rs := range sets.Items {
		size[rs.UID] = int(*rs.Spec.Replicas)
	}
	w, err := admin.AppsV1().ReplicaSets(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: sets.ResourceVersion})
	harness.Follow(t, w, err, func(e watch.EventType, rs *appsv1.ReplicaSet) error {
		size[rs.UID] = int(*rs.Spec.Replicas)
		total := 0
		for _, s := range size {
			total += s
		}
		if total > most {
			return fmt.Errorf("the ReplicaSets have %d replicas together, at most %d are allowed", total, most)
		}
		return nil
	})
}

// watchAvailable fails the test if fewer than least of the pods, of which there are
// now replicas, are available at any time. The result ends the watch and returns the
// lowest number seen.
func watchAvailable(t *testing.T, namespace string, replicas, least int) func() int {
	t.Helper()
	pods := must.Get(admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}))(t)
	available := map[types.UID]bool{}
	for _, p := range pods.Items {
		available[p.UID] = true
	}
	lowest := len(available)
	if lowest != replicas {
		t.Fatalf("there are %d pods, want %d", lowest, replicas)
	}
	w, err := admin.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: pods.ResourceVersion})
	stop := harness.Follow(t, w, err, func(e watch.EventType, p *corev1.Pod) error {
		if e != watch.Deleted && p.DeletionTimestamp == nil && harness.IsReady(p) {
			available[p.UID] = true
		} else {
			delete(available, p.UID)
		}
		lowest = min(lowest, len(available))
		if lowest < least {
			return fmt.Errorf("%d pods are available, at least %d must be", lowest, least)
		}
		return nil
	})
	return func() int {
		stop()
		return lowest
	}
}

// TestDeploymentScaledDuringRollout has the numbers of the proportional scaling test
// of Kubernetes' end-to-end suite.
// Pins DEP-27c and DEP-48.
func TestDeploymentScaledDuringRollout(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	cluster.CreateDeployment(t, namespace, 10, rolling(3, 2))
	cluster.WaitForRollout(t, namespace)
	cluster.UpdateDeployment(t, namespace, func(d *appsv1.Deployment) { harness.Unschedulable(&d.Spec.Template) })
	waitForSizes(t, namespace, 8, 5)
	cluster.WaitForDeployment(t, namespace, "the rollout is stuck", func(d *appsv1.Deployment) error {
		if d.Status.AvailableReplicas != 8 || d.Status.Replicas != 13 || d.Status.UpdatedReplicas != 5 {
			return fmt.Errorf("the status is %+v", d.Status)
		}
		return nil
	})
	cluster.UpdateDeployment(t, namespace, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](30) })
	for _, rs := range waitForSizes(t, namespace, 20, 13) {
		if rs.Annotations[desiredReplicas] != "30" || rs.Annotations[maxReplicas] != "33" {
			t.Errorf("%s has annotations %v", rs.Name, rs.Annotations)
		}
	}
}

// Pins DEP-29.
func TestDeploymentRecreateEndsOldPodsFirst(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	cluster.CreateDeployment(t, namespace, 3, func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	})
	cluster.WaitForRollout(t, namespace)
	old := theReplicaSets(t, namespace, 1)[0]
	held := cluster.WaitForReadyPods(t, namespace, map[string]string{"app": "web"}, 3)[1]
	cluster.PatchPod(t, namespace, held.Name, `{"metadata":{"finalizers":["`+harness.Hold+`"]}}`)

	pods := must.Get(admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}))(t)
	left := len(pods.Items)
	w, err := admin.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: pods.ResourceVersion})
	harness.Follow(t, w, err, func(e watch.EventType, p *corev1.Pod) error {
		isOld := p.Labels[templateHash] == old.Labels[templateHash]
		switch {
		case isOld && e == watch.Deleted:
			left--
		case !isOld && left > 0:
			return fmt.Errorf("%s of the new template runs beside %d old pods", p.Name, left)
		}
		return nil
	})
	cluster.UpdateDeployment(t, namespace, setImage("web:2"))
	cluster.WaitForDeployment(t, namespace, "only the held pod is left", func(d *appsv1.Deployment) error {
		pods, err := cluster.PodsOf(t.Context(), namespace, map[string]string{"app": "web"})
		if err != nil {
			return err
		}
		if len(pods) != 1 || d.Status.Replicas != 0 || ptr.Deref(d.Status.TerminatingReplicas, 0) != 1 {
			return fmt.Errorf("%d pods are left, the status is %+v", len(pods), d.Status)
		}
		return nil
	})
	theReplicaSets(t, namespace, 1)
	cluster.PatchPod(t, namespace, held.Name, harness.NoFinalizers)
	d := cluster.WaitForRollout(t, namespace)
	sets := waitForSizes(t, namespace, 0, 3)
	cluster.WaitForEvents(t, namespace, d.UID, scaled("up", old.Name, 0, 3), scaled("down", old.Name, 3, 0), scaled("up", sets[1].Name, 0, 3))
}

// Pins DEP-35d and DEP-35g.
func TestDeploymentProgressDeadline(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	cluster.CreateDeployment(t, namespace, 2, func(d *appsv1.Deployment) {
		d.Spec.ProgressDeadlineSeconds = ptr.To[int32](2)
		harness.Unschedulable(&d.Spec.Template)
	})
	d := cluster.WaitForDeployment(t, namespace, "the deadline is exceeded", func(d *appsv1.Deployment) error {
		return harness.HasCondition(d, `Progressing=False ProgressDeadlineExceeded: ReplicaSet "*" has timed out progressing.`)
	})
	if err := harness.HasCondition(d, "Available=False MinimumReplicasUnavailable: Deployment does not have minimum availability."); err != nil {
		t.Error(err)
	}
	if took := time.Since(d.CreationTimestamp.Time); took < 2*time.Second {
		t.Errorf("the deadline of 2s was exceeded after %s", took)
	}
	cluster.UpdateDeployment(t, namespace, func(d *appsv1.Deployment) { d.Spec.Template.Spec.NodeSelector = nil })
	cluster.WaitForRollout(t, namespace)
	waitForSizes(t, namespace, 0, 2)
}

func TestDeploymentWithMinReadySeconds(t *testing.T) {
	t.Parallel()
	const seconds = 3
	namespace := cluster.NamespaceForPods(t)
	created := cluster.CreateDeployment(t, namespace, 2, func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = seconds })
	ready := make(chan *appsv1.Deployment, 1)
	w, err := admin.AppsV1().Deployments(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: created.ResourceVersion})
	harness.Follow(t, w, err, func(_ watch.EventType, d *appsv1.Deployment) error {
		if d.Status.ReadyReplicas == 2 && d.Status.AvailableReplicas == 0 {
			select {
			case ready <- d:
			default:
			}
		}
		return nil
	})
	cluster.WaitForRollout(t, namespace)
	now := time.Now()
	for _, p := range cluster.WaitForReadyPods(t, namespace, map[string]string{"app": "web"}, 2) {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.LastTransitionTime.Add(seconds*time.Second).After(now) {
				t.Errorf("%s is Ready since %s and counted as available at %s", p.Name, c.LastTransitionTime, now)
			}
		}
	}
	await.That(t, "the pods were ready before they were available", func(context.Context) error {
		select {
		case <-ready:
			return nil
		default:
			return errors.New("there was no such status")
		}
	})
	if rs := theReplicaSets(t, namespace, 1)[0]; rs.Spec.MinReadySeconds != seconds {
		t.Errorf("the ReplicaSet has minReadySeconds %d", rs.Spec.MinReadySeconds)
	}
}

// Pins DEP-24d.
func TestDeploymentWithoutQuotaForReplicaSets(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	setQuota(t, namespace, "count/replicasets.apps", 0, 0)
	created := cluster.CreateDeployment(t, namespace, 1, nil)
	// The generation does not count as observed yet.
	await.That(t, "the failure is shown", func(ctx context.Context) error {
		d, err := cluster.GetDeployment(ctx, namespace)
		if err != nil {
			return err
		}
		return harness.HasCondition(d, `Progressing=False ReplicaSetCreateError: Failed to create new replica set "*`)
	})
	await.That(t, "the failure is an event", func(ctx context.Context) error {
		events, err := cluster.EventsOf(ctx, namespace, created.UID)
		if err != nil {
			return err
		}
		prefix := `deployment-controller Warning ReplicaSetCreateError: Failed to create new replica set "web-`
		if len(events) == 0 || !strings.HasPrefix(events[0], prefix) || !strings.Contains(events[0], "exceeded quota: quota") {
			return fmt.Errorf("got %q", events)
		}
		return nil
	})
	setQuota(t, namespace, "count/replicasets.apps", 5, 0)
	cluster.WaitForRollout(t, namespace)
}

// Pins DEP-35f.
func TestDeploymentShowsReplicaFailure(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	setQuota(t, namespace, "pods", 1, 0)
	cluster.CreateDeployment(t, namespace, 2, nil)
	cluster.WaitForDeployment(t, namespace, "the failure is shown", func(d *appsv1.Deployment) error {
		return harness.HasCondition(d, `ReplicaFailure=True FailedCreate: pods "*limited: pods=1`)
	})
	setQuota(t, namespace, "pods", 10, 1)
	d := cluster.WaitForRollout(t, namespace)
	if err := harness.HasCondition(d, "ReplicaFailure=True FailedCreate: *"); err == nil {
		t.Error("the condition ReplicaFailure stays after the recovery")
	}
}
