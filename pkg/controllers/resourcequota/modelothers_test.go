package resourcequota

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/simulation"
)

// admit creates an object, if the quotas have room, which are charged.
func (m *model) admit(o object) {
	if !m.charge(nil, o) {
		m.Note("%s is refused", o.GetName())
		return
	}
	if !m.OneIn(4) || m.calm {
		m.Create(o)
		return
	}
	m.charged = append(m.charged, o)
}

// alter changes an object, if the quotas have room for what it uses more.
func alter[T object](m *model, o T, do func(T)) {
	next := o.DeepCopyObject().(T)
	do(next)
	if m.charge(o, next) {
		simulation.Change(m.World, o, do)
	}
}

func (m *model) charge(was runtime.Object, is object) bool {
	charges := map[types.UID]corev1.ResourceList{}
	for _, q := range simulation.All[*corev1.ResourceQuota](m.World) {
		if q.Namespace != is.GetNamespace() || m.Clock.Since(q.CreationTimestamp.Time) < 2*time.Second && m.OneIn(2) {
			continue // or it is not known yet
		}
		old, s := corev1.ResourceList{}, selectedBy(q.Spec)
		if was != nil {
			old = m.of(s, was)
		}
		used := q.Status.Used.DeepCopy()
		for name, more := range m.of(s, is) {
			more = more.DeepCopy()
			more.Sub(old[name])
			hard, limited := q.Status.Hard[name]
			if !limited || more.Sign() <= 0 {
				continue
			}
			if _, ok := used[name]; !ok {
				return false
			}
			if plus(used, name, more); ptr.To(used[name]).Cmp(hard) > 0 {
				return false
			}
		}
		charges[q.UID] = used
	}
	for _, q := range simulation.All[*corev1.ResourceQuota](m.World) {
		if used, ok := charges[q.UID]; ok {
			m.Note("charged %s/%s: %s", q.Namespace, q.Name, text(used))
			simulation.Change(m.World, q, func(q *corev1.ResourceQuota) { q.Status.Used = used })
		}
	}
	return true
}

// arrive has the API server show what it has charged, or refuse it after all.
func (m *model) arrive() bool {
	if len(m.charged) == 0 {
		return false
	}
	o := m.charged[0]
	m.charged = m.charged[1:]
	if !m.OneIn(4) {
		m.Create(o)
	}
	return true
}

func (m *model) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: []string{"a", "b"}[m.Rand.IntN(2)], GenerateName: "o"}
}

func (m *model) randomObject() object {
	meta, n := m.meta(), m.Rand.IntN
	storage := resource.MustParse([]string{"1Gi", "2Gi", "500m"}[n(3)])
	switch n(7) {
	case 0:
		return &corev1.ConfigMap{ObjectMeta: meta}
	case 1:
		return &corev1.Service{ObjectMeta: meta, Spec: m.randomService()}
	case 2:
		pvc := &corev1.PersistentVolumeClaim{ObjectMeta: meta}
		pvc.Spec.StorageClassName, pvc.Spec.VolumeAttributesClassName = ptr.To("fast"), ptr.To([]string{"", "gold"}[n(2)])
		pvc.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: storage}
		return pvc
	case 3:
		if m.metadata.IsServed(cronJobs) || m.metadata.IsServed(laterCronJobs) {
			return &batchv1.CronJob{ObjectMeta: meta}
		}
	case 4:
		if !m.calm {
			return m.randomClaim(meta)
		}
	}
	pod := &corev1.Pod{ObjectMeta: meta}
	pod.Spec.PriorityClassName = []string{"", "high"}[n(2)]
	if n(2) == 0 {
		pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](100)
	}
	c := corev1.Container{Name: "c"}
	if n(3) > 0 {
		c.Resources.Requests = corev1.ResourceList{
			"cpu": *resource.NewMilliQuantity(int64(1+n(2000)), resource.DecimalSI), "example.com/gpu": number(int64(n(3))),
		}
	}
	pod.Spec.Containers = []corev1.Container{c}
	return pod
}

func (m *model) randomService() corev1.ServiceSpec {
	kinds := []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer}
	return corev1.ServiceSpec{Type: kinds[m.Rand.IntN(3)], Ports: make([]corev1.ServicePort, m.Rand.IntN(3))}
}

// randomClaim is one for devices, which may have been made for a pod.
func (m *model) randomClaim(meta metav1.ObjectMeta) object {
	claim := &resourcev1.ResourceClaim{ObjectMeta: meta}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: int64(1 + m.Rand.IntN(3)),
	}}}
	if pods := stored[*corev1.Pod](m, meta.Namespace); len(pods) > 0 && m.OneIn(2) {
		owner := pods[m.Rand.IntN(len(pods))].(*corev1.Pod)
		claim.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
		ref := metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("Pod"))
		claim.OwnerReferences = []metav1.OwnerReference{*ref}
	}
	return claim
}

var limitable = []corev1.ResourceName{
	"pods", "count/pods", "requests.cpu", "requests.example.com/gpu", "services", "services.nodeports",
	"services.loadbalancers", "persistentvolumeclaims", "requests.storage",
	"fast.storageclass.storage.k8s.io/requests.storage",
	"configmaps", "count/cronjobs.batch", countClaims, "gpu.deviceclass.resource.k8s.io/devices", "x",
}

func (m *model) randomHard() corev1.ResourceList {
	hard := corev1.ResourceList{}
	for range m.Rand.IntN(6) {
		hard[limitable[m.Rand.IntN(len(limitable))]] = number([]int64{3, 10, 1 << 40}[m.Rand.IntN(3)])
	}
	return hard
}

func (m *model) randomSelector() *corev1.ScopeSelector {
	expression := []corev1.ScopedResourceSelectorRequirement{
		{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"high"}},
		{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpDoesNotExist},
		{ScopeName: corev1.ResourceQuotaScopeTerminating, Operator: corev1.ScopeSelectorOpExists},
		{
			ScopeName: corev1.ResourceQuotaScopeVolumeAttributesClass, Operator: corev1.ScopeSelectorOpIn,
			Values: []string{"gold"},
		},
		{ScopeName: corev1.ResourceQuotaScopeBestEffort, Operator: corev1.ScopeSelectorOpExists},
	}[m.Rand.IntN(5)]
	return &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{expression}}
}

// user changes quotas, or objects.
func (m *model) user() {
	n := m.Rand.IntN
	switch n(10) {
	case 0, 1, 2:
		m.editQuota()
	case 3, 4, 5, 6:
		m.admit(m.randomObject())
	case 7, 8:
		if all := m.objects(m.meta().Namespace); len(all) > 0 {
			if o := all[n(len(all))].(object); o.GetLabels()["kept"] == "" && o.GetDeletionTimestamp() == nil {
				m.Delete(o, nil)
			}
		}
	case 9:
		m.editObject()
	}
}

func (m *model) editQuota() {
	n := m.Rand.IntN
	meta := metav1.ObjectMeta{Namespace: m.meta().Namespace, Name: fmt.Sprint("q", n(3))}
	q, ok := simulation.Get[*corev1.ResourceQuota](m.World, meta.Namespace, meta.Name)
	if !ok {
		created := &corev1.ResourceQuota{ObjectMeta: meta}
		created.Spec.Hard = m.randomHard()
		if n(2) == 0 {
			created.Spec.ScopeSelector = m.randomSelector()
		}
		m.Create(created)
		return
	}
	switch n(6) {
	case 0:
		m.Delete(q, nil)
	case 1, 2:
		hard := m.randomHard()
		m.Note("user limits %s to %v", q.Name, hard)
		simulation.Change(m.World, q, func(q *corev1.ResourceQuota) { q.Spec.Hard = hard })
	case 3, 4:
		if q.Spec.ScopeSelector != nil {
			m.Note("user edits the scopes of %s", q.Name)
			simulation.Change(m.World, q, func(q *corev1.ResourceQuota) { q.Spec.ScopeSelector = m.randomSelector() })
		}
	case 5:
		if !m.calm {
			m.Note("user edits the status of %s", q.Name)
			simulation.Change(m.World, q, func(q *corev1.ResourceQuota) {
				used := corev1.ResourceList{"pods": number(int64(100 + n(5)))}
				q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: used}
			})
		}
	}
}

// editObject changes an object, or what kinds there are.
func (m *model) editObject() {
	n := m.Rand.IntN
	if all := m.objects(m.meta().Namespace); n(2) == 0 && len(all) > 0 {
		if o := all[n(len(all))].(object); o.GetLabels()["kept"] == "" {
			m.edit(o)
		}
		return
	}
	class, ok := simulation.Get[*resourcev1.DeviceClass](m.World, "", "gpu")
	switch {
	case m.calm:
	case n(2) == 0:
		m.metadata.Serve([]schema.GroupVersionResource{configMaps, claims, cronJobs, laterCronJobs}[n(4)], n(2) == 0)
	case ok:
		m.Delete(class, nil)
	default:
		m.Create(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{
			ExtendedResourceName: ptr.To("example.com/gpu"),
		}})
	}
}

func (m *model) edit(o object) {
	n := m.Rand.IntN
	switch o := o.(type) {
	case *corev1.Service:
		spec := m.randomService()
		alter(m, o, func(s *corev1.Service) { s.Spec = spec })
	case *corev1.PersistentVolumeClaim:
		storage, class := resource.MustParse([]string{"1Gi", "3Gi"}[n(2)]), []string{"", "gold", "silver"}[n(3)]
		alter(m, o, func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: storage}
			c.Spec.VolumeAttributesClassName = &class
		})
	case *corev1.Pod:
		resized := corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": number(int64(n(3)))}}
		allocated := corev1.ResourceList{"cpu": number(int64(n(3)))}
		reason := []string{corev1.PodReasonDeferred, corev1.PodReasonInfeasible}[n(2)]
		isSpec := n(2) == 0
		alter(m, o, func(p *corev1.Pod) {
			if isSpec {
				p.Spec.Containers[0].Resources = resized
				return
			}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Resources: &resized, AllocatedResources: allocated}}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: reason}}
		})
	}
}
