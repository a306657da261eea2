package resourcequota

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/test/simulation"
)

// of returns what an object adds to the usage of a quota that selects so.
func (m *model) of(s selected, o runtime.Object) corev1.ResourceList {
	f := m.features
	switch o := o.(type) {
	case *corev1.Pod:
		if s.includes(profileOfPod(o, f).meets) {
			return podUsage(o, m.Clock.Now(), f)
		}
	case *corev1.PersistentVolumeClaim:
		if s.includes(profileOfVolumeClaim(o, f).meets) {
			return volumeClaimUsage(o, f)
		}
	case *corev1.Service:
		if s.any() {
			return serviceUsage(o)
		}
	case *corev1.ConfigMap:
		if s.any() {
			return corev1.ResourceList{"configmaps": one, "count/configmaps": one}
		}
	case *batchv1.CronJob:
		if s.any() {
			return corev1.ResourceList{"count/cronjobs.batch": one}
		}
	case *resourcev1.ResourceClaim:
		if s.any() {
			return m.ofClaim(o)
		}
	}
	return nil
}

func (m *model) ofClaim(claim *resourcev1.ResourceClaim) corev1.ResourceList {
	if !m.features.deviceClaims {
		return corev1.ResourceList{countClaims: one}
	}
	devices := devicesByClass(claim)
	used := deviceClaimUsage(devices)
	class, ok := simulation.Get[*resourcev1.DeviceClass](m.World, "", "gpu")
	if !m.features.extendedResources || !ok || class.Spec.ExtendedResourceName == nil {
		return used
	}
	left := devices["gpu"].DeepCopy()
	if owner := podOfClaim(claim); owner != nil {
		pod, ok := simulation.Get[*corev1.Pod](m.World, claim.Namespace, owner.Name)
		if ok && pod.UID == owner.UID && isClaimOfPod(claim, pod, m.claimsOf(pod)) {
			left.Sub(podUsage(pod, m.Clock.Now(), m.features)["requests.example.com/gpu"])
		}
	}
	if left.Sign() > 0 {
		used["requests.example.com/gpu"] = left
	}
	return used
}

func (m *model) claimsOf(pod *corev1.Pod) (all []*resourcev1.ResourceClaim) {
	for _, claim := range simulation.All[*resourcev1.ResourceClaim](m.World) {
		if owner := podOfClaim(claim); owner != nil && owner.UID == pod.UID {
			all = append(all, claim)
		}
	}
	return all
}

// objects returns what is stored in a namespace.
func (m *model) objects(namespace string) (all []runtime.Object) {
	return append(append(append(append(append(append(all,
		stored[*corev1.Pod](m, namespace)...), stored[*corev1.PersistentVolumeClaim](m, namespace)...),
		stored[*corev1.Service](m, namespace)...), stored[*corev1.ConfigMap](m, namespace)...),
		stored[*batchv1.CronJob](m, namespace)...), stored[*resourcev1.ResourceClaim](m, namespace)...)
}

type object interface {
	runtime.Object
	metav1.Object
}

func stored[T object](m *model, namespace string) (all []runtime.Object) {
	for _, o := range simulation.All[T](m.World) {
		if o.GetNamespace() == namespace {
			all = append(all, o)
		}
	}
	return all
}

// usage is what the status of a quota is to have, of those objects that count.
func (m *model) usage(q *corev1.ResourceQuota, counts func(object) bool) corev1.ResourceList {
	sums, used := corev1.ResourceList{}, corev1.ResourceList{}
	for _, o := range m.objects(q.Namespace) {
		if !counts(o.(object)) {
			continue
		}
		for name, quantity := range m.of(selectedBy(q.Spec), o) {
			plus(sums, name, quantity)
		}
	}
	for name := range q.Spec.Hard {
		quantity, ok := sums[name]
		if !ok {
			quantity = number(0)
		}
		if name != "x" && (m.features.deviceClaims || !strings.HasSuffix(string(name), devicesOfClass)) {
			used[name] = quantity // others are not known
		}
	}
	return used
}

// validate checks what the controller publishes: of what it has computed, at least what was there all the time.
func (m *model) validate(old, is runtime.Object) error {
	was, q := old.(*corev1.ResourceQuota), is.(*corev1.ResourceQuota)
	m.Note("%s/%s has usage %s", q.Namespace, q.Name, text(q.Status.Used))
	if !same(q.Spec.Hard, q.Status.Hard) {
		return fmt.Errorf("limits are %v, want %v", q.Status.Hard, q.Spec.Hard)
	}
	least := m.usage(q, func(o object) bool { return o.GetLabels()["kept"] != "" })
	for name, used := range q.Status.Used {
		if _, ok := q.Spec.Hard[name]; !ok {
			return fmt.Errorf("usage of %s, which is not limited", name)
		}
		before, ok := was.Status.Used[name]
		if (!ok || used.Cmp(before) != 0) && used.Cmp(least[name]) < 0 {
			return fmt.Errorf("usage of %s is %v, want %v at least", name, used.String(), least[name])
		}
	}
	return nil
}
