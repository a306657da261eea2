package benchmark

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// parallelism bounds the requests of the benchmark in flight.
const parallelism = 16

// each calls do for every number below n, some at a time.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelism)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// podTemplate is a pod of ordinary size: two containers with environment, probes,
// resources and volumes.
func podTemplate(labels map[string]string, restart corev1.RestartPolicy) corev1.PodTemplateSpec {
	container := func(name string) corev1.Container {
		return corev1.Container{
			Name: name, Image: "registry.example.com/team/" + name + ":1.2.3",
			Args:  []string{"--config=/etc/" + name + "/config.yaml", "--log-format=json"},
			Ports: []corev1.ContainerPort{{Name: name, ContainerPort: 8080}},
			Env: []corev1.EnvVar{
				{Name: "LOG_LEVEL", Value: "info"},
				{Name: "REGION", Value: "region-0"},
				{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
		}
	}
	spec := corev1.PodSpec{
		RestartPolicy: restart,
		Containers:    []corev1.Container{container("app"), container("proxy")},
		Volumes:       []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		Tolerations:   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}
	spec.Containers[1].Ports[0].ContainerPort = 9090
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
}

func numbered(kind string, i int) string { return fmt.Sprintf("%s-%d", kind, i) }

// newDeployment is the i-th Deployment; group is the value of its pods' label "group".
func newDeployment(i int, replicas int32, group string) *appsv1.Deployment {
	name := numbered("web", i)
	labels := map[string]string{"app": name, "group": group}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: podTemplate(labels, corev1.RestartPolicyAlways),
		},
	}
}

func createDeployments(ctx context.Context, client kubernetes.Interface, namespace string, n int, replicas int32) error {
	return each(ctx, n, func(ctx context.Context, i int) error {
		_, err := client.AppsV1().Deployments(namespace).Create(ctx, newDeployment(i, replicas, numbered("group", i)), metav1.CreateOptions{})
		return err
	})
}

// deploymentsComplete returns nil when all Deployments of a namespace have the replicas
// they are to have, of the newest template, and all are available. It asks for the newest
// state: an older one would be that before the change whose end is waited for.
func deploymentsComplete(client kubernetes.Interface, namespace string, n int) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != n {
			return fmt.Errorf("there are %d of %d Deployments", len(list.Items), n)
		}
		for _, d := range list.Items {
			want, s := *d.Spec.Replicas, d.Status
			if s.ObservedGeneration < d.Generation || s.Replicas != want || s.UpdatedReplicas != want || s.AvailableReplicas != want {
				return fmt.Errorf("of %d replicas of Deployment %s %d exist, %d are updated, %d available", want, d.Name, s.Replicas, s.UpdatedReplicas, s.AvailableReplicas)
			}
		}
		return nil
	}
}

// count returns how many objects a list would have, at the price of one of them.
func count(items int, meta metav1.ListMeta) int {
	return items + int(ptr.Deref(meta.RemainingItemCount, 0))
}

// one asks for a single object, and with it for the number of the others.
var one = metav1.ListOptions{Limit: 1}

// podsPerSet is the number of pods of each ReplicaSet.
const podsPerSet = 100

// createPods creates ReplicaSets of a hundred pods each, and their pods, as they are when
// no scheduler has seen them. No manager may run, or it would create the pods.
func createPods(ctx context.Context, client kubernetes.Interface, namespace string, from, to int) error {
	if from%podsPerSet != 0 {
		return errors.New("the first pod is not the first of a ReplicaSet")
	}
	sets := (to - from + podsPerSet - 1) / podsPerSet
	return each(ctx, sets, func(ctx context.Context, i int) error {
		first := from + i*podsPerSet
		set, err := createReplicaSet(ctx, client, namespace, numbered("set", first/podsPerSet), min(podsPerSet, to-first))
		if err != nil {
			return err
		}
		for p := range int(*set.Spec.Replicas) {
			if _, err := client.CoreV1().Pods(namespace).Create(ctx, newPod(set, p), metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating a pod: %w", err)
			}
		}
		return nil
	})
}

// createReplicaSet creates a ReplicaSet without its pods.
func createReplicaSet(ctx context.Context, client kubernetes.Interface, namespace, name string, pods int) (*appsv1.ReplicaSet, error) {
	labels := map[string]string{"app": name}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: appsv1.ReplicaSetSpec{
		Replicas: ptr.To(int32(pods)),
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: podTemplate(labels, corev1.RestartPolicyAlways),
	}}
	created, err := client.AppsV1().ReplicaSets(namespace).Create(ctx, set, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating a ReplicaSet: %w", err)
	}
	return created, nil
}

// newPod is the i-th pod of a ReplicaSet.
func newPod(set *appsv1.ReplicaSet, i int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
	pod.Name = numbered(set.Name, i)
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	return pod
}
