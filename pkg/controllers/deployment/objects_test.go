package deployment

import (
	"maps"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/workloads/podtemplate"
	"kcmd.dev/test/controllertest"
)

// now is the time of tests, birth that of the oldest objects.
var (
	now   = controllertest.Epoch
	birth = now.Add(-time.Hour)
)

const namespace = "shop"

var key = types.NamespacedName{Namespace: namespace, Name: "web"}

func podTemplate(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}},
	}
}

// makeDeployment makes a Deployment of image v1 with the defaults of the API server.
func makeDeployment(replicas int32, changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", UID: "d-1", Generation: 1},
		Spec: appsv1.DeploymentSpec{
			Replicas:                ptr.To(replicas),
			Selector:                &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template:                podTemplate("v1"),
			ProgressDeadlineSeconds: ptr.To[int32](600),
			RevisionHistoryLimit:    ptr.To[int32](10),
		},
	}
	rolling("25%", "25%")(d)
	return controllertest.Changed(d, changes...)
}

func rolling(surge, unavailable string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{
			Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge:       ptr.To(intstr.Parse(surge)),
				MaxUnavailable: ptr.To(intstr.Parse(unavailable)),
			},
		}
	}
}

func recreating(d *appsv1.Deployment) {
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
}

func paused(d *appsv1.Deployment) { d.Spec.Paused = true }

func withoutDeadline(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = nil }

func image(name string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template = podTemplate(name) }
}

func annotated(pairs ...string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { annotate(&d.ObjectMeta, pairs) }
}

func conditions(all ...appsv1.DeploymentCondition) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Status.Conditions = all }
}

// counts sets the counts of a status: all, updated, ready, available.
func counts(replicas, updated, ready, available int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Status.Replicas, d.Status.UpdatedReplicas = replicas, updated
		d.Status.ReadyReplicas, d.Status.AvailableReplicas = ready, available
		d.Status.ObservedGeneration = d.Generation
		d.Status.UnavailableReplicas = max(0, replicasOf(d)-available)
	}
}

func annotate(meta *metav1.ObjectMeta, pairs []string) {
	meta.Annotations = maps.Clone(meta.Annotations)
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	for i := 0; i < len(pairs); i += 2 {
		meta.Annotations[pairs[i]] = pairs[i+1]
	}
}

type setChange = func(*appsv1.ReplicaSet)

// makeSet makes a ReplicaSet of the Deployment with all of its pods available. Its image
// and, as far as tests order by it, its age follow from its revision.
func makeSet(revision int, size int32, changes ...setChange) *appsv1.ReplicaSet {
	name := "web-" + strconv.Itoa(revision)
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         namespace,
			Name:              name,
			UID:               types.UID(name),
			Generation:        1,
			Labels:            map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: name},
			Annotations:       map[string]string{revisionAnnotation: strconv.Itoa(revision)},
			CreationTimestamp: metav1.NewTime(birth.Add(time.Duration(revision) * time.Second)),
			OwnerReferences:   []metav1.OwnerReference{*metav1.NewControllerRef(makeDeployment(0), deploymentKind)},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To(size),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: name}},
			Template: podTemplate("v" + strconv.Itoa(revision)),
		},
	}
	rs.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = name
	observed(size, size, size)(rs)
	return controllertest.Changed(rs, changes...)
}

// observed sets the status: all, ready and available pods.
func observed(replicas, ready, available int32) setChange {
	return func(rs *appsv1.ReplicaSet) {
		rs.Status = appsv1.ReplicaSetStatus{
			Replicas: replicas, ReadyReplicas: ready, AvailableReplicas: available,
			ObservedGeneration: rs.Generation, TerminatingReplicas: ptr.To[int32](0),
		}
	}
}

// scaledFor sets the annotations that record what a ReplicaSet was scaled for.
func scaledFor(desired, most string) setChange {
	return noted(desiredReplicasAnnotation, desired, maxReplicasAnnotation, most)
}

func noted(pairs ...string) setChange {
	return func(rs *appsv1.ReplicaSet) { annotate(&rs.ObjectMeta, pairs) }
}

func oldOf(sets ...*appsv1.ReplicaSet) replicaSets { return replicaSets{old: sets} }

func currentAnd(current *appsv1.ReplicaSet, old ...*appsv1.ReplicaSet) replicaSets {
	return replicaSets{current: current, old: old}
}

// sizes is what a plan makes of the ReplicaSets it names.
func sizes(plan []resize) map[string]int32 {
	named := map[string]int32{}
	for _, step := range plan {
		named[step.rs.Name] = step.size
	}
	return named
}

func podOf(rs *appsv1.ReplicaSet, name string, phase corev1.PodPhase) *corev1.Pod {
	return controllertest.Pod(namespace, name, controllertest.InPhase(phase), controllertest.OnNode(""),
		controllertest.Labeled(rs.Spec.Template.Labels), controllertest.ControlledBy(rs, replicaSetKind))
}

func names(sets []*appsv1.ReplicaSet) []string {
	var all []string
	for _, rs := range sets {
		all = append(all, rs.Name)
	}
	return all
}

var current = scaledFor("10", "13")

func version(rv string) setChange { return func(rs *appsv1.ReplicaSet) { rs.ResourceVersion = rv } }

func hashName(d *appsv1.Deployment) string {
	return "web-" + podtemplate.Hash(&d.Spec.Template, d.Status.CollisionCount)
}
