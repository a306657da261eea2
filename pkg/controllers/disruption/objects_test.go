package disruption

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

// start is what the clocks of tests begin with.
var start = controllertest.Epoch

func budget(edit ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "pdb", UID: "pdb", Generation: 3, ResourceVersion: "7"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
	return controllertest.Changed(pdb, edit...)
}

func minAvailable(value string) func(*policyv1.PodDisruptionBudget) {
	return func(pdb *policyv1.PodDisruptionBudget) { pdb.Spec.MinAvailable = ptr.To(intstr.Parse(value)) }
}

func maxUnavailable(value string) func(*policyv1.PodDisruptionBudget) {
	return func(pdb *policyv1.PodDisruptionBudget) { pdb.Spec.MaxUnavailable = ptr.To(intstr.Parse(value)) }
}

// pod makes a Ready pod with the label app=web.
func pod(name string, edit ...func(*corev1.Pod)) *corev1.Pod {
	p := controllertest.Pod("n", name, controllertest.OnNode(""), controllertest.Labeled(map[string]string{"app": "web"}))
	p.ResourceVersion, p.Generation = "5", 2
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return controllertest.Changed(p, edit...)
}

func notReady(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

var beingDeleted = controllertest.Terminating

// ownedBy gives a pod a controller whose UID is its name.
func ownedBy(apiVersion, kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.OwnerReferences = ownersOf(apiVersion, kind, name) }
}

func ownersOf(apiVersion, kind, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(name), Controller: ptr.To(true)}}
}

func owner(name string, refs ...metav1.OwnerReference) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name), OwnerReferences: refs}
}

func replicaSet(name string, replicas int32, refs ...metav1.OwnerReference) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: owner(name, refs...), Spec: appsv1.ReplicaSetSpec{Replicas: &replicas}}
}

func marked(reason string, age time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: "because",
			LastTransitionTime: metav1.NewTime(start.Add(-age)),
		})
	}
}

// mapperWith knows the built-in kinds and one more.
func mapperWith(kind schema.GroupVersionKind) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, gv := range []schema.GroupVersion{appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion, corev1.SchemeGroupVersion} {
		for known := range scheme.Scheme.KnownTypes(gv) {
			mapper.Add(gv.WithKind(known), meta.RESTScopeNamespace)
		}
	}
	mapper.Add(kind, meta.RESTScopeNamespace)
	return mapper
}
