package policy

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	kcmruntime "kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// counted is a kind that quotas limit: what one object uses, and how to create and delete it.
type counted struct {
	used   string
	create func(ctx context.Context, namespace string) error
	delete func(ctx context.Context, namespace string) error
}

// kinds are those of which a quota limits the number, or more than that.
func kinds() map[string]counted {
	named := metav1.ObjectMeta{Name: "counted"}
	core := admin.CoreV1()
	options, now := metav1.CreateOptions{}, metav1.DeleteOptions{}
	return map[string]counted{
		"secret": {
			used: "secrets=1 count/secrets=1",
			create: func(ctx context.Context, ns string) error {
				_, err := core.Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: named}, options)
				return err
			},
			delete: func(ctx context.Context, ns string) error { return core.Secrets(ns).Delete(ctx, "counted", now) },
		},
		"replication controller": {
			used: "replicationcontrollers=1 count/replicationcontrollers=1",
			create: func(ctx context.Context, ns string) error {
				template := harness.PodTemplate("counted", "web")
				_, err := core.ReplicationControllers(ns).Create(ctx, &corev1.ReplicationController{ObjectMeta: named, Spec: corev1.ReplicationControllerSpec{
					Replicas: ptr.To[int32](0), Selector: template.Labels, Template: &template,
				}}, options)
				return err
			},
			delete: func(ctx context.Context, ns string) error {
				// Without this, its pods are orphaned first, which needs a garbage collector.
				return core.ReplicationControllers(ns).Delete(ctx, "counted", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
			},
		},
		"lease": {
			used: "count/leases.coordination.k8s.io=1",
			create: func(ctx context.Context, ns string) error {
				_, err := admin.CoordinationV1().Leases(ns).Create(ctx, &coordinationv1.Lease{ObjectMeta: named}, options)
				return err
			},
			delete: func(ctx context.Context, ns string) error {
				return admin.CoordinationV1().Leases(ns).Delete(ctx, "counted", now)
			},
		},
		"service": {
			used: "services=1 count/services=1 services.nodeports=2 services.loadbalancers=1",
			create: func(ctx context.Context, ns string) error {
				_, err := core.Services(ns).Create(ctx, &corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{
					Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 81}},
				}}, options)
				return err
			},
			delete: func(ctx context.Context, ns string) error { return core.Services(ns).Delete(ctx, "counted", now) },
		},
		"claim of a volume": {
			used: "persistentvolumeclaims=1 requests.storage=1Gi gold.storageclass.storage.k8s.io/requests.storage=1Gi gold.storageclass.storage.k8s.io/persistentvolumeclaims=1",
			create: func(ctx context.Context, ns string) error {
				_, err := core.PersistentVolumeClaims(ns).Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: named, Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("gold"),
					Resources: corev1.VolumeResourceRequirements{Requests: resources("storage=1Gi")},
				}}, options)
				return err
			},
			delete: func(ctx context.Context, ns string) error {
				claims := core.PersistentVolumeClaims(ns)
				if _, err := claims.Patch(ctx, "counted", "application/merge-patch+json", []byte(harness.NoFinalizers), metav1.PatchOptions{}); err != nil {
					return err
				}
				return claims.Delete(ctx, "counted", now)
			},
		},
		"claim of devices": {
			used: "count/resourceclaims.resource.k8s.io=1 gpu.deviceclass.resource.k8s.io/devices=2",
			create: func(ctx context.Context, ns string) error {
				_, err := admin.ResourceV1().ResourceClaims(ns).Create(ctx, &resourcev1.ResourceClaim{ObjectMeta: named, Spec: resourcev1.ResourceClaimSpec{
					Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "gpus", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", Count: 2}}}},
				}}, options)
				return err
			},
			delete: func(ctx context.Context, ns string) error {
				return admin.ResourceV1().ResourceClaims(ns).Delete(ctx, "counted", now)
			},
		},
	}
}

// fill replaces the quantity of each name.
func fill(list, quantity string) string {
	var filled []string
	for pair := range strings.FieldsSeq(list) {
		name, _, _ := strings.Cut(pair, "=")
		filled = append(filled, name+"="+quantity)
	}
	return strings.Join(filled, " ")
}

// Whatever is limited is counted, whether it was there before the quota or not, and released when
// it is deleted.
func TestQuotaLimitsKinds(t *testing.T) {
	for name, kind := range kinds() {
		t.Run(name, func(t *testing.T) {
			namespace := cluster.NamespaceForPods(t)
			must.Succeed(t, kind.create(t.Context(), namespace))
			createQuota(t, namespace, "quota", fill(kind.used, "10Gi"))
			waitForUsed(t, namespace, "quota", kind.used)
			must.Succeed(t, kind.delete(t.Context(), namespace))
			waitForUsed(t, namespace, "quota", fill(kind.used, "0"))
			must.Succeed(t, kind.create(t.Context(), namespace))
			waitForUsed(t, namespace, "quota", kind.used)
		})
	}
}

// Usage that an update releases is given back, which admission never does. Pins QUOTA-14.
func TestQuotaReleasesWhatAnUpdateReleases(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	services := admin.CoreV1().Services(namespace)
	service := must.Get(services.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}},
	}}, metav1.CreateOptions{}))(t)
	createQuota(t, namespace, "quota", "services=10 services.nodeports=10")
	waitForUsed(t, namespace, "quota", "services=1 services.nodeports=1")
	service.Spec.Type, service.Spec.Ports[0].NodePort = corev1.ServiceTypeClusterIP, 0
	must.Get(services.Update(t.Context(), service, metav1.UpdateOptions{}))(t)
	waitForUsed(t, namespace, "quota", "services=1 services.nodeports=0")
}

// A claim counts for the volume attributes class that it has and for the one that it is to get. Pins
// QUOTA-80.
func TestQuotaScopesOfVolumeAttributesClasses(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	const limits = "persistentvolumeclaims=5 requests.storage=5Gi"
	for _, class := range []string{"gold", "silver"} {
		createQuota(t, namespace, class, limits, func(q *corev1.ResourceQuota) {
			q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
				ScopeName: corev1.ResourceQuotaScopeVolumeAttributesClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{class},
			}}}
		})
		waitForUsed(t, namespace, class, fill(limits, "0"))
	}
	const one = "persistentvolumeclaims=1 requests.storage=1Gi"
	used := func(gold, silver string) {
		t.Helper()
		waitForUsed(t, namespace, "gold", gold)
		waitForUsed(t, namespace, "silver", silver)
	}
	claims := admin.CoreV1().PersistentVolumeClaims(namespace)
	must.Get(claims.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("csi"), VolumeName: "volume",
		VolumeAttributesClassName: ptr.To("silver"), Resources: corev1.VolumeResourceRequirements{Requests: resources("storage=1Gi")},
	}}, metav1.CreateOptions{}))(t)
	patch := func(change string, subresources ...string) {
		t.Helper()
		must.Get(claims.Patch(t.Context(), "claim", types.MergePatchType, []byte(change), metav1.PatchOptions{}, subresources...))(t)
	}
	used(fill(limits, "0"), one)
	patch(`{"status":{"phase":"Bound","currentVolumeAttributesClassName":"silver"}}`, "status")
	patch(`{"spec":{"volumeAttributesClassName":"gold"}}`)
	used(one, one)
	patch(`{"status":{"currentVolumeAttributesClassName":"gold"}}`, "status")
	used(one, fill(limits, "0"))
	patch(harness.NoFinalizers)
	must.Succeed(t, claims.Delete(t.Context(), "claim", metav1.DeleteOptions{}))
	used(fill(limits, "0"), fill(limits, "0"))
}

// A kind that is served later is counted without an event of the quota, while it is served, and again
// when it is served again. Pins QUOTA-85 and QUOTA-86.
func TestQuotaLimitsCustomResources(t *testing.T) {
	const group = "quota.test.kcmd.dev"
	const name = "count/crontabs." + group
	namespace := cluster.NamespaceForPods(t)
	createQuota(t, namespace, "quota", "pods=5 "+name+"=5")
	await.That(t, "the pods are counted", func(ctx context.Context) error {
		quota, err := admin.CoreV1().ResourceQuotas(namespace).Get(ctx, "quota", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return differ(quota.Status.Used, "pods=0")
	})
	remove := createCronTabs(t, group)
	client := must.Get(dynamic.NewForConfig(cluster.AdminConfig()))(t)
	tabs := client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "crontabs"}).Namespace(namespace)
	create := func(ctx context.Context, name string) error {
		tab := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "CronTab", "metadata": map[string]any{"name": name}}}
		_, err := tabs.Create(ctx, tab, metav1.CreateOptions{})
		return err
	}
	// Discovery is asked every 30 seconds.
	await.Within(t, 90*time.Second, "the kind is counted", func(ctx context.Context) error {
		quota, err := admin.CoreV1().ResourceQuotas(namespace).Get(ctx, "quota", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return differ(quota.Status.Used, "pods=0 "+name+"=0")
	})
	await.That(t, "an object can be created", func(ctx context.Context) error { return create(ctx, "one") })
	await.That(t, "another can be created", func(ctx context.Context) error { return create(ctx, "two") })
	waitForUsed(t, namespace, "quota", "pods=0 "+name+"=2")
	must.Succeed(t, tabs.Delete(t.Context(), "one", metav1.DeleteOptions{}))
	waitForUsed(t, namespace, "quota", "pods=0 "+name+"=1")

	remove()
	waitForUsed(t, namespace, "quota", "pods=0 "+name+"=0") // its objects go first
	await.That(t, "the kind is not served", func(ctx context.Context) error {
		_, err := tabs.List(ctx, metav1.ListOptions{})
		return await.Gone(err)
	})
	createCronTabs(t, group)
	await.That(t, "an object can be created again", func(ctx context.Context) error { return create(ctx, "three") })
	waitForUsed(t, namespace, "quota", "pods=0 "+name+"=1") // by admission
	// The kind came back before anybody noticed that it was gone, and its watch only after a backoff. What came and
	// went meanwhile is counted with the next resync.
	harness.Wait(t, cluster.Manager, "the object is seen", func(s *kcmruntime.Status) error {
		for _, i := range s.Informers {
			if i.Group == group && i.Objects == 1 && i.LastError == "" {
				return nil
			}
		}
		return errors.New("it is not")
	})
	must.Succeed(t, tabs.Delete(t.Context(), "three", metav1.DeleteOptions{}))
	await.Within(t, 90*time.Second, "the objects are counted again", func(ctx context.Context) error {
		quota, err := admin.CoreV1().ResourceQuotas(namespace).Get(ctx, "quota", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return differ(quota.Status.Used, "pods=0 "+name+"=0")
	})
}
