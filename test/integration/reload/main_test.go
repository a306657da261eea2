// Package reload shows, on the real control plane, what the product exists for: a
// running manager that is reconfigured under load, loses its lease, or dies, and what
// that costs. Numbers are logged; run with -v to see them. Variables in the environment make
// the tests larger, with the same code:
//
//	KCMD_RELOAD_PODS         pods in the caches, default 1000
//	KCMD_RELOADS             reloads during a rollout, default 150
//	KCMD_DEPLOYMENT_REPLICAS replicas of the large Deployment, default 300
package reload

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	options := controlplane.Options{Nodes: 20, Scheduler: true}
	os.Exit(controlplane.RunTests(m, options, func(c *controlplane.ControlPlane) { plane = c }))
}

// quick makes the manager notice edits at once, so that what is measured is the reload.
func quick(c *manager.Config) {
	harness.Settle(time.Millisecond)(c)
	harness.Lease(4*time.Second, 3*time.Second, 500*time.Millisecond)(c)
}

// controller is the status of one controller.
func controller(t *testing.T, m interface {
	Controller(context.Context, string) (supervisor.Status, error)
}, name string) supervisor.Status {
	t.Helper()
	s, err := m.Controller(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ballast fills the caches with pods that nobody schedules or owns.
func ballast(t *testing.T, pods int) {
	t.Helper()
	namespace := harness.NamespaceForPods(t, plane)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(32)
	for n := range pods {
		group.Go(func() error {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("ballast-%d", n), Labels: map[string]string{"ballast": fmt.Sprint(n % 100)}},
				Spec: corev1.PodSpec{
					SchedulerName: "nobody",
					Containers:    []corev1.Container{{Name: "c", Image: "x", Env: []corev1.EnvVar{{Name: "A", Value: "B"}}}},
				},
			}
			_, err := plane.AdminClient().CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// deployment makes a Deployment and waits until it is available.
func deployment(t *testing.T, namespace, name string, replicas int32) *appsv1.Deployment {
	t.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To(int64(1)),
					Containers:                    []corev1.Container{{Name: "c", Image: "x"}},
				},
			},
		},
	}
	created, err := plane.AdminClient().AppsV1().Deployments(namespace).Create(t.Context(), d, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func waitAvailable(t *testing.T, d *appsv1.Deployment, replicas int32, limit time.Duration) {
	t.Helper()
	await.Within(t, limit, d.Name+" is available", func(ctx context.Context) error {
		now, err := plane.AdminClient().AppsV1().Deployments(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return harness.Available(now, replicas)
	})
}

// isSweep reports that a request looks for what is left in a namespace that is being
// deleted. Those of earlier tests are, and that has nothing to do with caches.
func isSweep(e *auditv1.Event) bool {
	return e.User.Username == "system:serviceaccount:kube-system:namespace-controller"
}

// percentile returns the value that a share of the values does not exceed.
func percentile(values []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}
