package benchmark

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// tally counts equal descriptions of objects.
type tally map[string]int

func (t tally) add(format string, args ...any) { t[fmt.Sprintf(format, args...)]++ }

// String lists the descriptions with their numbers, in order.
func (t tally) String() string {
	var lines []string
	for description, n := range t {
		lines = append(lines, fmt.Sprintf("%d %s", n, description))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// workloads describes the Deployments, ReplicaSets and pods of a namespace, without what
// depends on time or chance.
func workloads(ctx context.Context, client kubernetes.Interface, namespace string) (string, error) {
	deployments, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	sets, err := client.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	t := tally{}
	for i := range deployments.Items {
		describeDeployment(t, &deployments.Items[i])
	}
	for _, rs := range sets.Items {
		t.add("ReplicaSets of revision %s with %d/%d available", rs.Annotations["deployment.kubernetes.io/revision"], rs.Status.AvailableReplicas, *rs.Spec.Replicas)
	}
	for i := range pods.Items {
		describePod(t, &pods.Items[i])
	}
	return t.String(), nil
}

func describeDeployment(t tally, d *appsv1.Deployment) {
	var conditions []string
	for _, c := range d.Status.Conditions {
		conditions = append(conditions, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	slices.Sort(conditions)
	t.add("Deployments with %d/%d available (%s)", d.Status.AvailableReplicas, ptr.Deref(d.Spec.Replicas, 1), strings.Join(conditions, " "))
}

func describePod(t tally, p *corev1.Pod) {
	owner := "nobody"
	if ref := metav1.GetControllerOf(p); ref != nil {
		owner = ref.Kind
	}
	state := string(p.Status.Phase)
	if p.DeletionTimestamp != nil {
		state = "terminating"
	}
	ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	t.add("pods of a %s, %s, ready %t", owner, state, ready)
}
