package endpointslice

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/endpointslice/metrics"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

var web = types.NamespacedName{Namespace: "n", Name: "web"}

type sliceChange = func(*discoveryv1.EndpointSlice)

func generation(g int64) sliceChange {
	return func(s *discoveryv1.EndpointSlice) { s.Generation = g }
}

func service(name string) sliceChange {
	return func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = name }
}

func syncs(t testing.TB, result string) float64 {
	t.Helper()
	n, err := testutil.GetCounterMetricValue(metrics.EndpointSliceSyncs.WithLabelValues(result))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func testService(changes ...func(*corev1.Service)) *corev1.Service {
	return controllertest.Service("n", "web", changes...)
}

func testPod(i int, changes ...func(*corev1.Pod)) *corev1.Pod {
	return controllertest.Backend("n", "web", i, changes...)
}

func testNode(name, zone string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func testSlice(name string, change ...func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: name, UID: types.UID(name), Generation: 1, ResourceVersion: "1",
			Labels: map[string]string{
				"team": "a", discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: managedBy,
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Service", Name: "web", UID: "service",
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
	return controllertest.Changed(slice, change...)
}
