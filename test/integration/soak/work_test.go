package soak

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
)

// deployments is how many there are at a time, replicas how many pods each has at most.
const (
	deployments = 8
	replicas    = 6
)

// work is what the manager has to do.
type work struct {
	t         *testing.T
	random    *rand.Rand
	client    kubernetes.Interface
	namespace string
	next      int
	want      map[string]int32 // replicas, by Deployment
}

func newWork(t *testing.T, random *rand.Rand) *work {
	t.Helper()
	return &work{t: t, random: random, client: plane.AdminClient(), namespace: plane.Namespace(t), want: map[string]int32{}}
}

func (w *work) begin() {
	w.t.Helper()
	for range deployments {
		w.create()
	}
}

// try repeats a request until it succeeds: the API server may just be coming back.
func (w *work) try(what string, request func(context.Context) error) {
	w.t.Helper()
	await.Within(w.t, patience, what, request)
}

func (w *work) create() {
	w.t.Helper()
	w.next++
	name := fmt.Sprintf("d-%d", w.next)
	labels := map[string]string{"app": name}
	n := int32(w.random.IntN(replicas))
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &n,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To[int64](0),
					Containers:                    []corev1.Container{{Name: "c", Image: "x"}},
				},
			},
		},
	}
	w.try("a Deployment is created", func(ctx context.Context) error {
		_, err := w.client.AppsV1().Deployments(w.namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return nil // it was, and the answer was lost
		}
		_, err = w.client.AppsV1().Deployments(w.namespace).Create(ctx, d, metav1.CreateOptions{})
		return err
	})
	w.want[name] = n
}

// change scales, changes or replaces a Deployment.
func (w *work) change() {
	w.t.Helper()
	all := w.client.AppsV1().Deployments(w.namespace)
	name := w.some()
	switch w.random.IntN(3) {
	case 0:
		n := int32(w.random.IntN(replicas))
		w.patch(name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
		w.want[name] = n
	case 1:
		w.patch(name, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"n":"%d"}}}}}`, w.random.Int()))
	default:
		w.try("a Deployment is deleted", func(ctx context.Context) error {
			return notFoundIsFine(all.Delete(ctx, name, metav1.DeleteOptions{}))
		})
		delete(w.want, name)
		w.create()
	}
}

// some is one Deployment, drawn at random.
func (w *work) some() string {
	names := slices.Sorted(maps.Keys(w.want))
	return names[w.random.IntN(len(names))]
}

func (w *work) patch(name, patch string) {
	w.t.Helper()
	w.try("a Deployment is changed", func(ctx context.Context) error {
		_, err := w.client.AppsV1().Deployments(w.namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
}

// converged waits until there is just what ought to be there.
func (w *work) converged() {
	w.t.Helper()
	await.Within(w.t, patience, "all Deployments are available and nothing else is left", func(ctx context.Context) error {
		owners := map[types.UID]bool{}
		found, err := w.client.AppsV1().Deployments(w.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		total := int32(0)
		for _, d := range found.Items {
			owners[d.UID] = true
			n, wanted := w.want[d.Name]
			if !wanted || d.Status.AvailableReplicas != n || d.Status.UpdatedReplicas != n || d.Status.Replicas != n || d.Status.ObservedGeneration != d.Generation {
				return fmt.Errorf("%s, wanted %v with %d replicas, is %+v", d.Name, wanted, n, d.Status)
			}
			total += n
		}
		if len(found.Items) != len(w.want) {
			return fmt.Errorf("there are %d Deployments, want %d", len(found.Items), len(w.want))
		}
		return w.noOrphans(ctx, owners, total)
	})
}

func (w *work) noOrphans(ctx context.Context, owners map[types.UID]bool, total int32) error {
	sets, err := w.client.AppsV1().ReplicaSets(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, rs := range sets.Items {
		if ref := metav1.GetControllerOf(&rs); ref == nil || !owners[ref.UID] {
			return fmt.Errorf("ReplicaSet %s is without its owner", rs.Name)
		}
		owners[rs.UID] = true
	}
	pods, err := w.client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if ref := metav1.GetControllerOf(&pod); ref == nil || !owners[ref.UID] {
			return fmt.Errorf("%s is without its owner: %v", described(&pod), pod.OwnerReferences)
		}
	}
	if len(pods.Items) != int(total) {
		var all []string
		for i := range pods.Items {
			all = append(all, described(&pods.Items[i]))
		}
		return fmt.Errorf("there are %d pods, want %d:\n%s", len(pods.Items), total, strings.Join(all, "\n"))
	}
	return nil
}

// described says of a pod what decides who removes it.
func described(pod *corev1.Pod) string {
	text := fmt.Sprintf("pod %s on %q is %s", pod.Name, pod.Spec.NodeName, pod.Status.Phase)
	if pod.DeletionTimestamp != nil {
		text += fmt.Sprintf(", deleted at %v with a grace period of %d s, finalizers %q",
			pod.DeletionTimestamp, ptr.Deref(pod.DeletionGracePeriodSeconds, -1), pod.Finalizers)
	}
	return text
}
