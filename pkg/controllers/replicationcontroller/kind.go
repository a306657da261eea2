package replicationcontroller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/workloads/replicas"
)

// kind describes ReplicationControllers to the engine.
func kind(env controller.Env) replicas.Kind[*corev1.ReplicationController] {
	cached := env.Informers.Core().V1().ReplicationControllers()
	client := env.Client.CoreV1()
	return replicas.Kind[*corev1.ReplicationController]{
		GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ReplicationController"),
		Resource:         corev1.Resource("replicationcontrollers"),
		Informer:         cached.Informer(),
		Live: func(ctx context.Context, namespace, name string) (*corev1.ReplicationController, error) {
			return client.ReplicationControllers(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		Selector:   selectorOf,
		Spec:       specOf,
		Template:   templateOf,
		Status:     statusOf,
		Metadata:   func(rc *corev1.ReplicationController) *metav1.ObjectMeta { return &rc.ObjectMeta },
		WithStatus: withStatus,
		UpdateStatus: func(ctx context.Context, rc *corev1.ReplicationController) (*corev1.ReplicationController, error) {
			return client.ReplicationControllers(rc.Namespace).UpdateStatus(ctx, rc, metav1.UpdateOptions{})
		},
	}
}

// selectorOf returns the selector. An empty one matches nothing.
func selectorOf(rc *corev1.ReplicationController) (labels.Selector, error) {
	if len(rc.Spec.Selector) == 0 {
		return labels.Nothing(), nil
	}
	return labels.ValidatedSelectorFromSet(rc.Spec.Selector)
}

func specOf(rc *corev1.ReplicationController) replicas.Spec {
	// The API server defaults replicas to 1.
	return replicas.Spec{Replicas: ptr.Deref(rc.Spec.Replicas, 1), MinReadySeconds: rc.Spec.MinReadySeconds}
}

func statusOf(rc *corev1.ReplicationController) replicas.Status {
	status := replicas.Status{
		Replicas:           rc.Status.Replicas,
		FullyLabeled:       rc.Status.FullyLabeledReplicas,
		Ready:              rc.Status.ReadyReplicas,
		Available:          rc.Status.AvailableReplicas,
		ObservedGeneration: rc.Status.ObservedGeneration,
	}
	for _, c := range rc.Status.Conditions {
		status.Conditions = append(status.Conditions, replicas.Condition{
			Type:               string(c.Type),
			Status:             c.Status,
			LastTransitionTime: c.LastTransitionTime,
			Reason:             c.Reason,
			Message:            c.Message,
		})
	}
	return status
}

// withStatus returns a copy of the ReplicationController with another status, which shares
// everything else with rc.
func withStatus(rc *corev1.ReplicationController, status replicas.Status) *corev1.ReplicationController {
	out := *rc
	out.Status = corev1.ReplicationControllerStatus{
		Replicas:             status.Replicas,
		FullyLabeledReplicas: status.FullyLabeled,
		ReadyReplicas:        status.Ready,
		AvailableReplicas:    status.Available,
		ObservedGeneration:   status.ObservedGeneration,
	}
	for _, c := range status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, corev1.ReplicationControllerCondition{
			Type:               corev1.ReplicationControllerConditionType(c.Type),
			Status:             c.Status,
			LastTransitionTime: c.LastTransitionTime,
			Reason:             c.Reason,
			Message:            c.Message,
		})
	}
	return &out
}
