package replicaset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/workloads/replicas"
)

// kind describes ReplicaSets to the engine.
func kind(env controller.Env, f family) replicas.Kind[*appsv1.ReplicaSet] {
	cached := env.Informers.Apps().V1().ReplicaSets()
	client := env.Client.AppsV1()
	return replicas.Kind[*appsv1.ReplicaSet]{
		GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		Resource:         appsv1.Resource("replicasets"),
		Informer:         cached.Informer(),
		Live: func(ctx context.Context, namespace, name string) (*appsv1.ReplicaSet, error) {
			return client.ReplicaSets(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		Selector:   selectorOf,
		Spec:       specOf,
		Template:   func(rs *appsv1.ReplicaSet) *corev1.PodTemplateSpec { return &rs.Spec.Template },
		Status:     statusOf,
		Metadata:   func(rs *appsv1.ReplicaSet) *metav1.ObjectMeta { return &rs.ObjectMeta },
		WithStatus: withStatus,
		UpdateStatus: func(ctx context.Context, rs *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
			return client.ReplicaSets(rs.Namespace).UpdateStatus(ctx, rs, metav1.UpdateOptions{})
		},
		RelatedByNode: f.activeByNode,
	}
}

func selectorOf(rs *appsv1.ReplicaSet) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(rs.Spec.Selector)
}

func specOf(rs *appsv1.ReplicaSet) replicas.Spec {
	// The API server defaults replicas to 1.
	return replicas.Spec{Replicas: ptr.Deref(rs.Spec.Replicas, 1), MinReadySeconds: rs.Spec.MinReadySeconds}
}

func statusOf(rs *appsv1.ReplicaSet) replicas.Status {
	status := replicas.Status{
		Replicas:           rs.Status.Replicas,
		FullyLabeled:       rs.Status.FullyLabeledReplicas,
		Ready:              rs.Status.ReadyReplicas,
		Available:          rs.Status.AvailableReplicas,
		Terminating:        rs.Status.TerminatingReplicas,
		ObservedGeneration: rs.Status.ObservedGeneration,
	}
	for _, c := range rs.Status.Conditions {
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

// withStatus returns a copy of the ReplicaSet with another status, which shares everything else
// with rs.
func withStatus(rs *appsv1.ReplicaSet, status replicas.Status) *appsv1.ReplicaSet {
	out := *rs
	out.Status = appsv1.ReplicaSetStatus{
		Replicas:             status.Replicas,
		FullyLabeledReplicas: status.FullyLabeled,
		ReadyReplicas:        status.Ready,
		AvailableReplicas:    status.Available,
		TerminatingReplicas:  status.Terminating,
		ObservedGeneration:   status.ObservedGeneration,
	}
	for _, c := range status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, appsv1.ReplicaSetCondition{
			Type:               appsv1.ReplicaSetConditionType(c.Type),
			Status:             c.Status,
			LastTransitionTime: c.LastTransitionTime,
			Reason:             c.Reason,
			Message:            c.Message,
		})
	}
	return &out
}
