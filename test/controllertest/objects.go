package controllertest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Epoch is when the clock of each Env begins.
var Epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Pod makes a pod that runs on the node "node" and is not ready. Its UID is its name.
func Pod(namespace, name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	return Changed(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{NodeName: "node"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}, changes...)
}

// Backend makes pod number i of an app: one that is ready, with an address of its own and the
// label app.
func Backend(namespace, app string, i int, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := Pod(namespace, fmt.Sprintf("%s-%d", app, i), OnNode("node-a"), Labeled(map[string]string{"app": app}))
	pod.UID, pod.ResourceVersion = types.UID(fmt.Sprintf("pod-%d", i)), "1"
	pod.Status.PodIP = fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return Changed(pod, changes...)
}

// Service makes a Service of the Backends of the app that has its name, with the port http,
// which is older than the Epoch. Its UID is "service", whatever it is called.
func Service(namespace, name string, changes ...func(*corev1.Service)) *corev1.Service {
	return Changed(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: "service", ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(ServiceCreated),
			Labels:            map[string]string{"team": "a"},
		},
		Spec: corev1.ServiceSpec{
			Selector:   map[string]string{"app": name},
			ClusterIP:  "10.0.0.1",
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:      []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}},
		},
	}, changes...)
}

// ServiceCreated is when Services were created.
var ServiceCreated = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Changed makes changes to an object that is new.
func Changed[T any](object *T, changes ...func(*T)) *T {
	for _, change := range changes {
		change(object)
	}
	return object
}

// All makes several changes one.
func All[T any](changes ...func(*T)) func(*T) {
	return func(object *T) { Changed(object, changes...) }
}

// ReadySince makes a pod ready since a time.
func ReadySince(at time.Time) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		NotReady(pod)
		pod.Status.Conditions = append(pod.Status.Conditions,
			corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)})
	}
}

// NotReady makes a pod one that has never been ready.
func NotReady(pod *corev1.Pod) {
	pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
}

// InPhase gives a pod a phase.
func InPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = phase }
}

// OnNode gives a pod a node.
func OnNode(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeName = name }
}

// Labeled gives a pod these labels and no others.
func Labeled(labels map[string]string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels = maps.Clone(labels) }
}

// ControlledBy gives a pod a controller.
func ControlledBy(owner metav1.Object, kind schema.GroupVersionKind) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)}
	}
}

// Orphaned takes a pod's owners away.
func Orphaned(pod *corev1.Pod) { pod.OwnerReferences = nil }

// Terminating makes a pod one that is being deleted since the Epoch.
func Terminating(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: Epoch} }

// Created gives a pod a time of creation.
func Created(at time.Time) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(at) }
}

// SameVersions reports that two lists have the same objects in the same versions, in any order.
func SameVersions[T metav1.Object](a, b []T) bool {
	versions := sets.New[string]()
	for _, object := range b {
		versions.Insert(versionOf(object))
	}
	return len(a) == len(b) && !slices.ContainsFunc(a, func(object T) bool { return !versions.Has(versionOf(object)) })
}

func versionOf(object metav1.Object) string {
	return fmt.Sprint(object.GetNamespace(), "/", object.GetName(), " ", object.GetUID(), " ", object.GetResourceVersion())
}

// Names returns the names of objects, in order of names.
func Names[T metav1.Object](objects []T) []string {
	names := make([]string, 0, len(objects))
	for _, object := range objects {
		names = append(names, object.GetName())
	}
	slices.Sort(names)
	return names
}
