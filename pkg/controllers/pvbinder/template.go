package pvbinder

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// recyclerConfig is how volumes of a kind are emptied.
type recyclerConfig struct {
	// template is a file with the pod, empty for the built-in one.
	template string
	// minimum is the least time that a pod has, increment what it has for each gibibyte.
	minimum, increment time.Duration
}

// recyclerPods makes the pods that empty volumes of a kind.
type recyclerPods struct {
	template           *corev1.Pod
	minimum, increment time.Duration
}

// podsOf reads the template of a kind.
func podsOf(cfg recyclerConfig) (recyclerPods, error) {
	pods := recyclerPods{template: defaultTemplate(), minimum: cfg.minimum, increment: cfg.increment}
	if cfg.template == "" {
		return pods, nil
	}
	content, err := os.ReadFile(cfg.template)
	if err != nil {
		return recyclerPods{}, fmt.Errorf("reading a pod that empties volumes: %w", err)
	}
	pods.template = &corev1.Pod{}
	if err := yaml.UnmarshalStrict(content, pods.template); err != nil {
		return recyclerPods{}, fmt.Errorf("reading a pod that empties volumes from %s: %w", cfg.template, err)
	}
	if len(pods.template.Spec.Volumes) == 0 {
		return recyclerPods{}, fmt.Errorf("pod specification (%s): does not contain any volume(s)", cfg.template)
	}
	pods.template.Namespace = cmp.Or(pods.template.Namespace, metav1.NamespaceDefault)
	return pods, nil
}

// podFor returns the pod that empties a volume. It is a copy of the template with the volume in place
// of its first one.
func (p recyclerPods) podFor(v *corev1.PersistentVolume, source corev1.VolumeSource) *corev1.Pod {
	pod := p.template.DeepCopy()
	pod.Name, pod.GenerateName = "recycler-for-"+v.Name, ""
	deadline := int64(p.deadline(gibibytes(v)) / time.Second)
	pod.Spec.ActiveDeadlineSeconds = &deadline
	pod.Spec.Volumes[0].VolumeSource = source
	return pod
}

// maxDeadline is the longest activeDeadlineSeconds that the API server accepts.
const maxDeadline = math.MaxInt32 * time.Second

// deadline returns how long a pod may take for a volume of a size.
func (p recyclerPods) deadline(gibibytes int64) time.Duration {
	if p.increment > 0 && gibibytes > int64(maxDeadline/p.increment) {
		return maxDeadline
	}
	return min(max(p.minimum, time.Duration(gibibytes)*p.increment), maxDeadline)
}

const gibibyte = 1 << 30

// scrub deletes everything in /scrub, and fails unless it is empty then.
const scrub = `test -e /scrub && find /scrub -mindepth 1 -delete && test -z "$(ls -A /scrub)" || exit 1`

// defaultTemplate is the built-in pod.
func defaultTemplate() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Volumes:       []corev1.Volume{{Name: "vol"}},
			Containers: []corev1.Container{{
				Name:         "pv-recycler",
				Image:        "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6",
				Command:      []string{"/bin/sh"},
				Args:         []string{"-c", scrub},
				VolumeMounts: []corev1.VolumeMount{{Name: "vol", MountPath: "/scrub"}},
			}},
		},
	}
}
