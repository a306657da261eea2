package takeover

import (
	"context"
	"fmt"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

// workload is something that a leader is in the middle of when it ends.
type workload struct {
	name string
	// begin starts it, and says how many pods are to be created from then on.
	begin func(t *testing.T, namespace string) (pods int)
	// done is nil when it has come to its end, exactly as asked for.
	done func(ctx context.Context, namespace string) error
}

func workloads() []workload {
	return []workload{
		{"scale-out", createReplicaSet, replicaSetReady},
		{"rollout", rollOut, rolledOut},
		{"job", createJob, jobComplete},
		{"stateful rollout", rollOutStatefulSet, statefulSetRolledOut},
	}
}

const scaleOut, rollout, completions, ordinals = 120, 12, 40, 4

func template(image string, policy corev1.RestartPolicy) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			RestartPolicy:                 policy,
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers:                    []corev1.Container{{Name: "web", Image: image}},
		},
	}
}

func selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
}

func createReplicaSet(t *testing.T, namespace string) int {
	t.Helper()
	_, err := plane.AdminClient().AppsV1().ReplicaSets(namespace).Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](scaleOut), Selector: selector(), Template: template("a", corev1.RestartPolicyAlways)},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
	return scaleOut
}

func replicaSetReady(ctx context.Context, namespace string) error {
	rs, err := plane.AdminClient().AppsV1().ReplicaSets(namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if s := rs.Status; s.Replicas != scaleOut || s.ReadyReplicas != scaleOut {
		return fmt.Errorf("%d pods, %d ready", s.Replicas, s.ReadyReplicas)
	}
	return nil
}

func rollOut(t *testing.T, namespace string) int {
	t.Helper()
	deployments := plane.AdminClient().AppsV1().Deployments(namespace)
	_, err := deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](rollout), Selector: selector(), Template: template("a", corev1.RestartPolicyAlways)},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
	await.That(t, "the first revision is complete", func(ctx context.Context) error { return rolledOut(ctx, namespace) })
	_, err = deployments.Patch(t.Context(), "web", types.JSONPatchType,
		[]byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"b"}]`), metav1.PatchOptions{})
	must.Succeed(t, err)
	return 2 * rollout
}

func rolledOut(ctx context.Context, namespace string) error {
	d, err := plane.AdminClient().AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if s := d.Status; s.ObservedGeneration != d.Generation || s.Replicas != rollout || s.UpdatedReplicas != rollout || s.AvailableReplicas != rollout {
		return fmt.Errorf("%+v", s)
	}
	return nil
}

func createJob(t *testing.T, namespace string) int {
	t.Helper()
	_, err := plane.AdminClient().BatchV1().Jobs(namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: batchv1.JobSpec{
			Completions: ptr.To[int32](completions), Parallelism: ptr.To[int32](8),
			Template: template("a", corev1.RestartPolicyNever),
		},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
	return completions
}

func jobComplete(ctx context.Context, namespace string) error {
	job, err := plane.AdminClient().BatchV1().Jobs(namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if s := job.Status; s.CompletionTime == nil || s.Succeeded != completions || s.Failed != 0 || s.Active != 0 {
		return fmt.Errorf("%+v", s)
	}
	return nil
}

func rollOutStatefulSet(t *testing.T, namespace string) int {
	t.Helper()
	sets := plane.AdminClient().AppsV1().StatefulSets(namespace)
	_, err := sets.Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](ordinals), Selector: selector(), PodManagementPolicy: appsv1.ParallelPodManagement,
			Template: template("a", corev1.RestartPolicyAlways),
		},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
	await.That(t, "the first revision is complete", func(ctx context.Context) error {
		return statefulSetIs(ctx, namespace, func(s *appsv1.StatefulSetStatus) bool { return s.ReadyReplicas == ordinals })
	})
	_, err = sets.Patch(t.Context(), "web", types.JSONPatchType, []byte(
		`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"b"},
		  {"op":"replace","path":"/spec/updateStrategy","value":{"type":"RollingUpdate","rollingUpdate":{"partition":2}}}]`), metav1.PatchOptions{})
	must.Succeed(t, err)
	return ordinals + 2
}

// statefulSetRolledOut checks that the revision below the partition is still the first.
func statefulSetRolledOut(ctx context.Context, namespace string) error {
	revisions, err := plane.AdminClient().AppsV1().ControllerRevisions(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	first := ""
	for _, r := range revisions.Items {
		if r.Revision == 1 {
			first = r.Name
		}
	}
	if len(revisions.Items) != 2 || first == "" {
		return fmt.Errorf("there are %d revisions, the first is %q", len(revisions.Items), first)
	}
	return statefulSetIs(ctx, namespace, func(s *appsv1.StatefulSetStatus) bool {
		return s.ReadyReplicas == ordinals && s.UpdatedReplicas == 2 && s.CurrentReplicas == 2 && s.CurrentRevision == first
	})
}

func statefulSetIs(ctx context.Context, namespace string, as func(*appsv1.StatefulSetStatus) bool) error {
	set, err := plane.AdminClient().AppsV1().StatefulSets(namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if set.Status.ObservedGeneration != set.Generation || !as(&set.Status) {
		return fmt.Errorf("%+v", set.Status)
	}
	return nil
}

// count watches a namespace from now on, and returns how many pods have been created there.
// The audit log would not do: a creation whose client was killed is carried out, and logged
// as failed.
func count(t *testing.T, namespace string) (created func() int) {
	t.Helper()
	pods := plane.AdminClient().CoreV1().Pods(namespace)
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	must.Succeed(t, err)
	w, err := watchtools.NewRetryWatcherWithContext(t.Context(), list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, options)
		},
	})
	must.Succeed(t, err)
	t.Cleanup(w.Stop)
	var mu sync.Mutex
	seen := map[types.UID]bool{}
	go func() {
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				t.Errorf("the watch that counts pods ended with %+v", event.Object)
				return
			}
			mu.Lock()
			seen[pod.UID] = true
			mu.Unlock()
		}
	}()
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(seen)
	}
}
