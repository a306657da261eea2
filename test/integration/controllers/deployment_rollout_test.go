package controllers

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
)

// TestDeploymentRollingUpdateKeepsBounds watches every step of a rolling update.
// Surge is a promise about the sizes of the ReplicaSets, availability one about pods.
func TestDeploymentRollingUpdateKeepsBounds(t *testing.T) {
	t.Parallel()
	for _, bounds := range []struct{ surge, unavailable int }{{2, 1}, {0, 2}, {3, 0}} {
		t.Run(fmt.Sprintf("surge %d, unavailable %d", bounds.surge, bounds.unavailable), func(t *testing.T) {
			t.Parallel()
			const replicas = 8
			namespace := newNamespace(t)
			createDeployment(t, namespace, replicas, rolling(bounds.surge, bounds.unavailable))
			waitForRollout(t, namespace)
			watchSizes(t, namespace, replicas+bounds.surge)
			available := watchAvailable(t, namespace, replicas, replicas-bounds.unavailable)
			updateDeployment(t, namespace, setImage("web:2"))
			waitForRollout(t, namespace)
			old := waitForSizes(t, namespace, 0, replicas)[0]
			waitForReadyPods(t, namespace, map[string]string{"app": "web"}, replicas)
			t.Logf("at least %d available", available())
			if old.Annotations[revision] != "1" {
				t.Errorf("the old ReplicaSet has revision %s", old.Annotations[revision])
			}
		})
	}
}

// TestDeploymentRollingUpdateTellsEachStep has bounds that leave only one way to go.
func TestDeploymentRollingUpdateTellsEachStep(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createDeployment(t, namespace, 2, rolling(1, 0))
	waitForRollout(t, namespace)
	updateDeployment(t, namespace, setImage("web:2"))
	d := waitForRollout(t, namespace)
	sets := waitForSizes(t, namespace, 0, 2)
	before, after := sets[0].Name, sets[1].Name
	waitForEvents(t, namespace, d.UID, scaled("up", before, 0, 2),
		scaled("up", after, 0, 1), scaled("down", before, 2, 1), scaled("up", after, 1, 2), scaled("down", before, 1, 0))
	if d.Annotations[revision] != "2" || sets[1].Annotations[revision] != "2" {
		t.Errorf("the revisions are %s and %s", d.Annotations[revision], sets[1].Annotations[revision])
	}
}

// watchSizes fails the test if the sizes of the ReplicaSets add up to more than most.
func watchSizes(t *testing.T, namespace string, most int) {
	t.Helper()
	sets := must(admin.AppsV1().ReplicaSets(namespace).List(t.Context(), metav1.ListOptions{}))(t)
	size := map[types.UID]int{}
	for _, rs := range sets.Items {
		size[rs.UID] = int(*rs.Spec.Replicas)
	}
	w, err := admin.AppsV1().ReplicaSets(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: sets.ResourceVersion})
	follow(t, w, err, func(e watch.EventType, rs *appsv1.ReplicaSet) error {
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
	pods := must(admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}))(t)
	available := map[types.UID]bool{}
	for _, p := range pods.Items {
		available[p.UID] = true
	}
	lowest := len(available)
	if lowest != replicas {
		t.Fatalf("there are %d pods, want %d", lowest, replicas)
	}
	w, err := admin.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: pods.ResourceVersion})
	stop := follow(t, w, err, func(e watch.EventType, p *corev1.Pod) error {
		if e != watch.Deleted && p.DeletionTimestamp == nil && isReady(p) {
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
func TestDeploymentScaledDuringRollout(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createDeployment(t, namespace, 10, rolling(3, 2))
	waitForRollout(t, namespace)
	updateDeployment(t, namespace, func(d *appsv1.Deployment) { unschedulable(&d.Spec.Template) })
	waitForSizes(t, namespace, 8, 5)
	waitForDeployment(t, namespace, "the rollout is stuck", func(d *appsv1.Deployment) error {
		if d.Status.AvailableReplicas != 8 || d.Status.Replicas != 13 || d.Status.UpdatedReplicas != 5 {
			return fmt.Errorf("the status is %+v", d.Status)
		}
		return nil
	})
	updateDeployment(t, namespace, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](30) })
	for _, rs := range waitForSizes(t, namespace, 20, 13) {
		if rs.Annotations[desiredReplicas] != "30" || rs.Annotations[maxReplicas] != "33" {
			t.Errorf("%s has annotations %v", rs.Name, rs.Annotations)
		}
	}
}

func TestDeploymentRecreateEndsOldPodsFirst(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createDeployment(t, namespace, 3, func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	})
	waitForRollout(t, namespace)
	old := theReplicaSets(t, namespace, 1)[0]
	held := waitForReadyPods(t, namespace, map[string]string{"app": "web"}, 3)[1]
	patchPod(t, namespace, held.Name, `{"metadata":{"finalizers":["`+hold+`"]}}`)

	pods := must(admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}))(t)
	left := len(pods.Items)
	w, err := admin.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: pods.ResourceVersion})
	follow(t, w, err, func(e watch.EventType, p *corev1.Pod) error {
		isOld := p.Labels[templateHash] == old.Labels[templateHash]
		switch {
		case isOld && e == watch.Deleted:
			left--
		case !isOld && left > 0:
			return fmt.Errorf("%s of the new template runs beside %d old pods", p.Name, left)
		}
		return nil
	})
	updateDeployment(t, namespace, setImage("web:2"))
	waitForDeployment(t, namespace, "only the held pod is left", func(d *appsv1.Deployment) error {
		pods, err := podsOf(t.Context(), namespace, map[string]string{"app": "web"})
		if err != nil {
			return err
		}
		if len(pods) != 1 || d.Status.Replicas != 0 || ptr.Deref(d.Status.TerminatingReplicas, 0) != 1 {
			return fmt.Errorf("%d pods are left, the status is %+v", len(pods), d.Status)
		}
		return nil
	})
	theReplicaSets(t, namespace, 1)
	patchPod(t, namespace, held.Name, noFinalizers)
	d := waitForRollout(t, namespace)
	sets := waitForSizes(t, namespace, 0, 3)
	waitForEvents(t, namespace, d.UID, scaled("up", old.Name, 0, 3), scaled("down", old.Name, 3, 0), scaled("up", sets[1].Name, 0, 3))
}

func TestDeploymentProgressDeadline(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createDeployment(t, namespace, 2, func(d *appsv1.Deployment) {
		d.Spec.ProgressDeadlineSeconds = ptr.To[int32](2)
		unschedulable(&d.Spec.Template)
	})
	d := waitForDeployment(t, namespace, "the deadline is exceeded", func(d *appsv1.Deployment) error {
		return hasCondition(d, `Progressing=False ProgressDeadlineExceeded: ReplicaSet "*" has timed out progressing.`)
	})
	if err := hasCondition(d, "Available=False MinimumReplicasUnavailable: Deployment does not have minimum availability."); err != nil {
		t.Error(err)
	}
	if took := time.Since(d.CreationTimestamp.Time); took < 2*time.Second {
		t.Errorf("the deadline of 2s was exceeded after %s", took)
	}
	updateDeployment(t, namespace, func(d *appsv1.Deployment) { d.Spec.Template.Spec.NodeSelector = nil })
	waitForRollout(t, namespace)
	waitForSizes(t, namespace, 0, 2)
}

func TestDeploymentWithMinReadySeconds(t *testing.T) {
	t.Parallel()
	const seconds = 3
	namespace := newNamespace(t)
	created := createDeployment(t, namespace, 2, func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = seconds })
	ready := make(chan *appsv1.Deployment, 1)
	w, err := admin.AppsV1().Deployments(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: created.ResourceVersion})
	follow(t, w, err, func(_ watch.EventType, d *appsv1.Deployment) error {
		if d.Status.ReadyReplicas == 2 && d.Status.AvailableReplicas == 0 {
			select {
			case ready <- d:
			default:
			}
		}
		return nil
	})
	waitForRollout(t, namespace)
	now := time.Now()
	for _, p := range waitForReadyPods(t, namespace, map[string]string{"app": "web"}, 2) {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.LastTransitionTime.Add(seconds*time.Second).After(now) {
				t.Errorf("%s is Ready since %s and counted as available at %s", p.Name, c.LastTransitionTime, now)
			}
		}
	}
	eventually(t, "the pods were ready before they were available", func(context.Context) error {
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

func TestDeploymentWithoutQuotaForReplicaSets(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	setQuota(t, namespace, "count/replicasets.apps", 0, 0)
	created := createDeployment(t, namespace, 1, nil)
	// The generation does not count as observed yet.
	eventually(t, "the failure is shown", func(ctx context.Context) error {
		d, err := getDeployment(ctx, namespace)
		if err != nil {
			return err
		}
		return hasCondition(d, `Progressing=False ReplicaSetCreateError: Failed to create new replica set "*`)
	})
	eventually(t, "the failure is an event", func(ctx context.Context) error {
		events, err := eventsOf(ctx, namespace, created.UID)
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
	waitForRollout(t, namespace)
}

func TestDeploymentShowsReplicaFailure(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	setQuota(t, namespace, "pods", 1, 0)
	createDeployment(t, namespace, 2, nil)
	waitForDeployment(t, namespace, "the failure is shown", func(d *appsv1.Deployment) error {
		return hasCondition(d, `ReplicaFailure=True FailedCreate: pods "*limited: pods=1`)
	})
	setQuota(t, namespace, "pods", 10, 1)
	d := waitForRollout(t, namespace)
	if err := hasCondition(d, "ReplicaFailure=True FailedCreate: *"); err == nil {
		t.Error("the condition ReplicaFailure stays after the recovery")
	}
}
