package harness

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

// NewDeployment makes a Deployment named web that selects app=web.
func NewDeployment(replicas int32, edit func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: PodTemplate("web", "web:1"),
		},
	}
	if edit != nil {
		edit(d)
	}
	return d
}

// CreateDeployment creates the Deployment web.
func (c *Cluster) CreateDeployment(t testing.TB, namespace string, replicas int32, edit func(*appsv1.Deployment)) *appsv1.Deployment {
	t.Helper()
	return must.Get(c.Admin.AppsV1().Deployments(namespace).Create(t.Context(), NewDeployment(replicas, edit), metav1.CreateOptions{}))(t)
}

// GetDeployment reads the Deployment web.
func (c *Cluster) GetDeployment(ctx context.Context, namespace string) (*appsv1.Deployment, error) {
	return c.Admin.AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
}

// UpdateDeployment changes the Deployment web.
func (c *Cluster) UpdateDeployment(t testing.TB, namespace string, edit func(*appsv1.Deployment)) *appsv1.Deployment {
	t.Helper()
	var updated *appsv1.Deployment
	must.Succeed(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		d, err := c.GetDeployment(t.Context(), namespace)
		if err != nil {
			return err
		}
		edit(d)
		updated, err = c.Admin.AppsV1().Deployments(namespace).Update(t.Context(), d, metav1.UpdateOptions{})
		return err
	}))
	return updated
}

// WaitForDeployment waits until check accepts the Deployment web, and returns it.
func (c *Cluster) WaitForDeployment(t testing.TB, namespace, what string, check func(*appsv1.Deployment) error) *appsv1.Deployment {
	t.Helper()
	var d *appsv1.Deployment
	await.That(t, what, func(ctx context.Context) (err error) {
		if d, err = c.GetDeployment(ctx, namespace); err != nil {
			return err
		}
		if d.Status.ObservedGeneration < d.Generation {
			return fmt.Errorf("generation %d of %d is observed", d.Status.ObservedGeneration, d.Generation)
		}
		return check(d)
	})
	return d
}

// WaitForRollout waits until the Deployment is completely rolled out and says so.
func (c *Cluster) WaitForRollout(t testing.TB, namespace string) *appsv1.Deployment {
	t.Helper()
	return c.WaitForDeployment(t, namespace, "the rollout is complete", func(d *appsv1.Deployment) error {
		if err := Available(d, *d.Spec.Replicas); err != nil {
			return err
		}
		return HasCondition(d, `Progressing=True NewReplicaSetAvailable: ReplicaSet "*" has successfully progressed.`)
	})
}

// Available is nil if a Deployment has all of its pods, and no others, as its status says.
func Available(d *appsv1.Deployment, replicas int32) error {
	s := d.Status
	if s.ObservedGeneration < d.Generation || s.Replicas != replicas || s.UpdatedReplicas != replicas ||
		s.ReadyReplicas != replicas || s.AvailableReplicas != replicas || s.UnavailableReplicas != 0 {
		return fmt.Errorf("the status is %+v", s)
	}
	return nil
}

// HasCondition looks for "Type=Status Reason: message"; a * stands for a name.
func HasCondition(d *appsv1.Deployment, want string) error {
	before, after, star := strings.Cut(want, "*")
	var all []string
	for _, c := range d.Status.Conditions {
		text := fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		if text == want || star && strings.HasPrefix(text, before) && strings.HasSuffix(text, after) {
			return nil
		}
		all = append(all, text)
	}
	return fmt.Errorf("want %q among %q", want, all)
}
