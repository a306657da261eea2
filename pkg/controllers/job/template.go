package job

import (
	"maps"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/storage/names"
)

// template returns the template that all new pods of a Job share.
func (r *reconciliation) template() *corev1.PodTemplateSpec {
	template := r.job.Spec.Template.DeepCopy()
	if !slices.Contains(template.Finalizers, batchv1.JobTrackingFinalizer) {
		template.Finalizers = append(template.Finalizers, batchv1.JobTrackingFinalizer)
	}
	if r.podGroup != "" {
		template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &r.podGroup}
	}
	if isIndexed(r.job) {
		addIndexVariable(template.Spec.InitContainers)
		addIndexVariable(template.Spec.Containers)
	}
	return template
}

// indexTemplate returns the template of the pod of an index. It shares the lists of the spec
// with base.
func (r *reconciliation) indexTemplate(base *corev1.PodTemplateSpec, index int) *corev1.PodTemplateSpec {
	template := *base
	number := strconv.Itoa(index)
	template.Labels = withEntry(base.Labels, batchv1.JobCompletionIndexAnnotation, number)
	template.Annotations = withEntry(base.Annotations, batchv1.JobCompletionIndexAnnotation, number)
	template.Spec.Hostname = r.job.Name + "-" + number
	if hasBackoffPerIndex(r.job) {
		failures, ignored := r.nextCounts(r.indexed.retained[index])
		template.Annotations[failureCount] = strconv.Itoa(int(failures))
		if ignored > 0 {
			template.Annotations[ignoredFailureCount] = strconv.Itoa(int(ignored))
		}
	}
	return &template
}

func withEntry(set map[string]string, key, value string) map[string]string {
	out := make(map[string]string, len(set)+3)
	maps.Copy(out, set)
	out[key] = value
	return out
}

// indexVariable returns the environment variable with the completion index.
const indexVariable = "JOB_COMPLETION_INDEX"

func addIndexVariable(containers []corev1.Container) {
	for i := range containers {
		if slices.ContainsFunc(containers[i].Env, func(e corev1.EnvVar) bool { return e.Name == indexVariable }) {
			continue
		}
		containers[i].Env = append(containers[i].Env, corev1.EnvVar{
			Name: indexVariable,
			ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
				FieldPath: "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']",
			}},
		})
	}
}

// indexPrefix returns the prefix for the generated name of an index's pod. A long Job name is
// truncated so that the name contains the index.
func indexPrefix(job string, index int) string {
	suffix := "-" + strconv.Itoa(index) + "-"
	return job[:min(len(job), names.MaxGeneratedNameLength-len(suffix))] + suffix
}
