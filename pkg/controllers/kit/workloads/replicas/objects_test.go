package replicas

import (
	"context"
	"errors"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/controllertest"
)

var (
	setKind     = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	setResource = appsv1.Resource("replicasets")
	key         = types.NamespacedName{Namespace: "ns", Name: "rs"}
	appLabels   = map[string]string{"app": "a"}
	start       = controllertest.Epoch

	inPhase, readySince  = controllertest.InPhase, controllertest.ReadySince
	on, createdAt        = controllertest.OnNode, controllertest.Created
	orphan, beingDeleted = controllertest.Orphaned, controllertest.Terminating
)

func testKind(env *controllertest.Env) Kind[*appsv1.ReplicaSet] {
	client := env.Client.AppsV1()
	return Kind[*appsv1.ReplicaSet]{
		GroupVersionKind: setKind,
		Resource:         setResource,
		Informer:         env.Informers.Apps().V1().ReplicaSets().Informer(),
		Live: func(ctx context.Context, namespace, name string) (*appsv1.ReplicaSet, error) {
			return client.ReplicaSets(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		Selector: func(rs *appsv1.ReplicaSet) (labels.Selector, error) {
			return metav1.LabelSelectorAsSelector(rs.Spec.Selector)
		},
		Spec: func(rs *appsv1.ReplicaSet) Spec {
			return Spec{Replicas: *rs.Spec.Replicas, MinReadySeconds: rs.Spec.MinReadySeconds}
		},
		Template: func(rs *appsv1.ReplicaSet) *corev1.PodTemplateSpec { return &rs.Spec.Template },
		Status: func(rs *appsv1.ReplicaSet) Status {
			s := rs.Status
			status := Status{
				Replicas: s.Replicas, FullyLabeled: s.FullyLabeledReplicas, Ready: s.ReadyReplicas, Available: s.AvailableReplicas,
				Terminating: s.TerminatingReplicas, ObservedGeneration: s.ObservedGeneration,
			}
			for _, c := range s.Conditions {
				status.Conditions = append(status.Conditions, Condition{string(c.Type), c.Status, c.LastTransitionTime, c.Reason, c.Message})
			}
			return status
		},
		Metadata: func(rs *appsv1.ReplicaSet) *metav1.ObjectMeta { return &rs.ObjectMeta },
		WithStatus: func(rs *appsv1.ReplicaSet, s Status) *appsv1.ReplicaSet {
			out := *rs
			out.Status = appsv1.ReplicaSetStatus{
				Replicas: s.Replicas, FullyLabeledReplicas: s.FullyLabeled, ReadyReplicas: s.Ready, AvailableReplicas: s.Available,
				TerminatingReplicas: s.Terminating, ObservedGeneration: s.ObservedGeneration,
			}
			for _, c := range s.Conditions {
				out.Status.Conditions = append(out.Status.Conditions, appsv1.ReplicaSetCondition{
					Type: appsv1.ReplicaSetConditionType(c.Type), Status: c.Status,
					LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
				})
			}
			return &out
		},
		// The API server answers with the metadata alone, as it is asked to.
		UpdateStatus: func(ctx context.Context, rs *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
			if !controller.WantsOnlyMetadata(ctx) {
				return nil, errors.New("the whole object is asked for")
			}
			rs = rs.DeepCopy()
			version, err := strconv.Atoi("0" + rs.ResourceVersion)
			if err != nil {
				return nil, errors.New("the cached version is no number")
			}
			rs.ResourceVersion = strconv.Itoa(version + 1)
			stored, err := client.ReplicaSets(rs.Namespace).UpdateStatus(ctx, rs, metav1.UpdateOptions{})
			if err != nil {
				return nil, err
			}
			return &appsv1.ReplicaSet{ObjectMeta: stored.ObjectMeta}, nil
		},
	}
}

// replicaSet makes an owner whose status is up to date for no pods.
func replicaSet(replicas int32, changes ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "rs", UID: "o", Generation: 1, ResourceVersion: "10"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: appLabels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: appLabels}},
		},
		Status: appsv1.ReplicaSetStatus{ObservedGeneration: 1, TerminatingReplicas: new(int32)},
	}
	return controllertest.Changed(rs, changes...)
}

func named(name string, uid types.UID) func(*appsv1.ReplicaSet) {
	return func(rs *appsv1.ReplicaSet) { rs.Name, rs.UID = name, uid }
}

// replicaPod makes an active pod that the owner controls.
func replicaPod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := controllertest.Pod("ns", name, controllertest.Labeled(appLabels), controllertest.ControlledBy(replicaSet(0), setKind))
	pod.ResourceVersion = "20"
	return controllertest.Changed(pod, changes...)
}

func labeled(value string) func(*corev1.Pod) {
	return controllertest.Labeled(map[string]string{"app": value})
}
