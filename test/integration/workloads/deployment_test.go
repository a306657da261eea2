package workloads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

const (
	revision        = "deployment.kubernetes.io/revision"
	revisionHistory = "deployment.kubernetes.io/revision-history"
	desiredReplicas = "deployment.kubernetes.io/desired-replicas"
	maxReplicas     = "deployment.kubernetes.io/max-replicas"
	rollbackTo      = "deprecated.deployment.rollback.to"
	templateHash    = "pod-template-hash"
)

func setImage(image string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image }
}

// rolling sets the bounds of a rolling update.
func rolling(surge, unavailable int) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{
			Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge:       ptr.To(intstr.FromInt(surge)),
				MaxUnavailable: ptr.To(intstr.FromInt(unavailable)),
			},
		}
	}
}

// replicaSetsOf lists the ReplicaSets of the namespace, in the order of their revision.
func replicaSetsOf(ctx context.Context, namespace string) ([]appsv1.ReplicaSet, error) {
	list, err := admin.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ReplicaSet) int {
		return cmp.Or(cmp.Compare(len(a.Annotations[revision]), len(b.Annotations[revision])), cmp.Compare(a.Annotations[revision], b.Annotations[revision]))
	})
	return list.Items, nil
}

// theReplicaSets returns the ReplicaSets of the namespace, which must be count.
func theReplicaSets(t *testing.T, namespace string, count int) []appsv1.ReplicaSet {
	t.Helper()
	sets := must.Get(replicaSetsOf(t.Context(), namespace))(t)
	if len(sets) != count {
		t.Fatalf("got %d ReplicaSets, want %d", len(sets), count)
	}
	return sets
}

// sizes are the spec.replicas of ReplicaSets.
func sizes(sets []appsv1.ReplicaSet) []int32 {
	var all []int32
	for _, s := range sets {
		all = append(all, *s.Spec.Replicas)
	}
	return all
}

func waitForSizes(t *testing.T, namespace string, want ...int32) []appsv1.ReplicaSet {
	t.Helper()
	var sets []appsv1.ReplicaSet
	await.That(t, fmt.Sprintf("the ReplicaSets have the sizes %v", want), func(ctx context.Context) (err error) {
		sets, err = replicaSetsOf(ctx, namespace)
		if err == nil && !slices.Equal(sizes(sets), want) {
			err = fmt.Errorf("got %v", sizes(sets))
		}
		return err
	})
	return sets
}

func scaled(direction, set string, from, to int) string {
	return fmt.Sprintf("deployment-controller Normal ScalingReplicaSet: Scaled %s replica set %s from %d to %d", direction, set, from, to)
}

// Pins DEP-24a and DEP-24e.
func TestDeploymentIsCreated(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	cluster.CreateDeployment(t, namespace, 10, func(d *appsv1.Deployment) {
		d.Annotations = map[string]string{"example.com/team": "a", corev1.LastAppliedConfigAnnotation: "{}"}
	})
	d := cluster.WaitForRollout(t, namespace)
	if err := harness.HasCondition(d, "Available=True MinimumReplicasAvailable: Deployment has minimum availability."); err != nil {
		t.Error(err)
	}
	if d.Annotations[revision] != "1" || d.Generation != 1 {
		t.Errorf("the Deployment has revision %q and generation %d", d.Annotations[revision], d.Generation)
	}
	rs := theReplicaSets(t, namespace, 1)[0]
	hash := rs.Labels[templateHash]
	if hash == "" || rs.Name != "web-"+hash || rs.Spec.Selector.MatchLabels[templateHash] != hash || rs.Spec.Template.Labels[templateHash] != hash {
		t.Errorf("the ReplicaSet %s has hash %q, selector %v, template %v", rs.Name, hash, rs.Spec.Selector, rs.Spec.Template.Labels)
	}
	if !metav1.IsControlledBy(&rs, d) || !*rs.OwnerReferences[0].BlockOwnerDeletion {
		t.Errorf("the ReplicaSet is owned by %v", rs.OwnerReferences)
	}
	want := map[string]string{revision: "1", desiredReplicas: "10", maxReplicas: "13", "example.com/team": "a"}
	for key, value := range want {
		if rs.Annotations[key] != value {
			t.Errorf("the ReplicaSet's annotation %s is %q, want %q", key, rs.Annotations[key], value)
		}
	}
	if len(rs.Annotations) != len(want) {
		t.Errorf("the ReplicaSet has annotations %v", rs.Annotations)
	}
	cluster.WaitForEvents(t, namespace, d.UID, scaled("up", rs.Name, 0, 10))
}

func TestDeploymentIsScaled(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	cluster.CreateDeployment(t, namespace, 2, nil)
	cluster.WaitForRollout(t, namespace)
	for _, replicas := range []int32{4, 1, 0, 3} {
		cluster.UpdateDeployment(t, namespace, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To(replicas) })
		cluster.WaitForRollout(t, namespace)
	}
	d := must.Get(cluster.GetDeployment(t.Context(), namespace))(t)
	rs := theReplicaSets(t, namespace, 1)[0]
	if rs.Annotations[desiredReplicas] != "3" || rs.Annotations[maxReplicas] != "4" {
		t.Errorf("the ReplicaSet has annotations %v", rs.Annotations)
	}
	cluster.WaitForEvents(t, namespace, d.UID, scaled("up", rs.Name, 0, 2), scaled("up", rs.Name, 2, 4),
		scaled("down", rs.Name, 4, 1), scaled("down", rs.Name, 1, 0), scaled("up", rs.Name, 0, 3))
}

// Pins DEP-17 and DEP-18.
func TestDeploymentPausedAndResumed(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	cluster.CreateDeployment(t, namespace, 3, nil)
	cluster.WaitForRollout(t, namespace)
	cluster.UpdateDeployment(t, namespace, func(d *appsv1.Deployment) { d.Spec.Paused = true })
	paused := "Progressing=Unknown DeploymentPaused: Deployment is paused"
	cluster.WaitForDeployment(t, namespace, "it is paused", func(d *appsv1.Deployment) error { return harness.HasCondition(d, paused) })

	cluster.UpdateDeployment(t, namespace, setImage("web:2"))
	cluster.UpdateDeployment(t, namespace, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](5) })
	d := cluster.WaitForDeployment(t, namespace, "it is scaled while paused", func(d *appsv1.Deployment) error {
		if d.Status.AvailableReplicas != 5 {
			return fmt.Errorf("%d replicas are available", d.Status.AvailableReplicas)
		}
		return harness.HasCondition(d, paused)
	})
	if d.Status.UpdatedReplicas != 0 {
		t.Errorf("a paused Deployment updated %d replicas", d.Status.UpdatedReplicas)
	}
	if image := theReplicaSets(t, namespace, 1)[0].Spec.Template.Spec.Containers[0].Image; image != "web:1" {
		t.Errorf("a paused Deployment rolls out %s", image)
	}

	cluster.UpdateDeployment(t, namespace, func(d *appsv1.Deployment) { d.Spec.Paused = false })
	cluster.WaitForRollout(t, namespace)
	waitForSizes(t, namespace, 0, 5)
}

// TestDeploymentResumedWithoutProgress shows the condition that progress would replace.
// Pins DEP-17.
func TestDeploymentResumedWithoutProgress(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	cluster.CreateDeployment(t, namespace, 1, func(d *appsv1.Deployment) { harness.Unschedulable(&d.Spec.Template) })
	cluster.WaitForDeployment(t, namespace, "its pod is pending", func(d *appsv1.Deployment) error {
		if d.Status.UpdatedReplicas != 1 {
			return errors.New("there is no pod")
		}
		return harness.HasCondition(d, `Progressing=True ReplicaSetUpdated: ReplicaSet "*" is progressing.`)
	})
	for _, step := range []struct {
		paused bool
		want   string
	}{
		{true, "Progressing=Unknown DeploymentPaused: Deployment is paused"},
		{false, "Progressing=Unknown DeploymentResumed: Deployment is resumed"},
	} {
		cluster.UpdateDeployment(t, namespace, func(d *appsv1.Deployment) { d.Spec.Paused = step.paused })
		cluster.WaitForDeployment(t, namespace, "the condition tells", func(d *appsv1.Deployment) error { return harness.HasCondition(d, step.want) })
	}
}

// Pins DEP-31.
func TestDeploymentKeepsHistory(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	cluster.CreateDeployment(t, namespace, 1, func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](2) })
	cluster.WaitForRollout(t, namespace)
	for i := 2; i <= 5; i++ {
		cluster.UpdateDeployment(t, namespace, setImage(fmt.Sprintf("web:%d", i)))
		cluster.WaitForRollout(t, namespace)
	}
	sets := waitForSizes(t, namespace, 0, 0, 1)
	for i, want := range []string{"3", "4", "5"} {
		if got := sets[i].Annotations[revision]; got != want {
			t.Errorf("revision %s is kept instead of %s", got, want)
		}
	}
}

// Pins DEP-30.
func TestDeploymentRollback(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	const event = "deployment-controller "
	created := cluster.CreateDeployment(t, namespace, 1, nil)
	cluster.WaitForRollout(t, namespace)
	cluster.UpdateDeployment(t, namespace, setImage("web:2"))
	cluster.WaitForRollout(t, namespace)
	for _, step := range []struct{ to, event, image string }{
		{"1", `Normal DeploymentRollback: Rolled back deployment "web" to revision 1`, "web:1"},
		{"0", `Normal DeploymentRollback: Rolled back deployment "web" to revision 2`, "web:2"},
		{"4", `Warning DeploymentRollbackTemplateUnchanged: The rollback revision contains the same template as current deployment "web"`, "web:2"},
		{"77", `Warning DeploymentRollbackRevisionNotFound: Unable to find the revision to rollback to.`, "web:2"},
	} {
		cluster.UpdateDeployment(t, namespace, func(d *appsv1.Deployment) { d.Annotations[rollbackTo] = step.to })
		cluster.WaitForEvent(t, namespace, created.UID, event+step.event)
		d := cluster.WaitForDeployment(t, namespace, "the annotation is cleared", func(d *appsv1.Deployment) error {
			if _, there := d.Annotations[rollbackTo]; there {
				return errors.New("it is there")
			}
			return nil
		})
		if got := d.Spec.Template.Spec.Containers[0].Image; got != step.image {
			t.Errorf("rolled back to %s: got %s, want %s", step.to, got, step.image)
		}
		cluster.WaitForRollout(t, namespace)
	}
	sets := waitForSizes(t, namespace, 0, 1)
	if sets[0].Annotations[revision] != "3" || sets[1].Annotations[revision] != "4" || sets[1].Annotations[revisionHistory] != "2" {
		t.Errorf("the ReplicaSets have annotations %v and %v", sets[0].Annotations, sets[1].Annotations)
	}
	d := must.Get(cluster.GetDeployment(t.Context(), namespace))(t)
	if d.Annotations[revision] != "4" {
		t.Errorf("the Deployment has revision %s", d.Annotations[revision])
	}
	if d.Spec.Template.Labels[templateHash] != "" {
		t.Errorf("the hash got into the Deployment's template: %v", d.Spec.Template.Labels)
	}
}

// Pins DEP-24c.
func TestDeploymentNameCollision(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	cluster.CreateDeployment(t, namespace, 1, nil)
	cluster.WaitForRollout(t, namespace)
	first := theReplicaSets(t, namespace, 1)[0]
	if err := admin.AppsV1().Deployments(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// Nobody collects the ReplicaSet, which is now in the way of its namesake's.
	cluster.CreateDeployment(t, namespace, 1, nil)
	d := cluster.WaitForRollout(t, namespace)
	if d.Status.CollisionCount == nil || *d.Status.CollisionCount != 1 {
		t.Errorf("got collisionCount %v, want 1", d.Status.CollisionCount)
	}
	for _, rs := range theReplicaSets(t, namespace, 2) {
		if owned := metav1.IsControlledBy(&rs, d); owned == (rs.Name == first.Name) {
			t.Errorf("%s is owned by the new Deployment: %v", rs.Name, owned)
		}
	}
}

// Pins DEP-14.
func TestDeploymentAdoptsAndReleases(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	orphan := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "orphan", Labels: map[string]string{"app": "web"}},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", "set": "orphan"}},
			Template: harness.PodTemplate("web", "web:1"),
		},
	}
	orphan.Spec.Template.Labels["set"] = "orphan"
	must.Get(admin.AppsV1().ReplicaSets(namespace).Create(t.Context(), orphan, metav1.CreateOptions{}))(t)
	cluster.CreateDeployment(t, namespace, 2, func(d *appsv1.Deployment) { d.Spec.Template.Labels["set"] = "orphan" })
	d := cluster.WaitForRollout(t, namespace)
	if rs := theReplicaSets(t, namespace, 1)[0]; !metav1.IsControlledBy(&rs, d) || rs.Annotations[revision] != "1" {
		t.Errorf("the ReplicaSet is not taken over: %v %v", rs.OwnerReferences, rs.Annotations)
	}

	patch := []byte(`{"metadata":{"labels":{"app":"other"}}}`)
	must.Get(admin.AppsV1().ReplicaSets(namespace).Patch(t.Context(), "orphan", types.MergePatchType, patch, metav1.PatchOptions{}))(t)
	await.That(t, "the ReplicaSet is released and replaced", func(ctx context.Context) error {
		sets, err := replicaSetsOf(ctx, namespace)
		if err != nil {
			return err
		}
		if len(sets) != 2 {
			return fmt.Errorf("there are %d ReplicaSets", len(sets))
		}
		for _, rs := range sets {
			if owned := metav1.IsControlledBy(&rs, d); owned != (rs.Name != "orphan") {
				return fmt.Errorf("%s is owned by %v", rs.Name, rs.OwnerReferences)
			}
		}
		return nil
	})
	cluster.WaitForRollout(t, namespace)
}
