package job

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"

	"kcmd.dev/test/fakeclient"
)

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}
}

// keysOf are the sorted keys of objects.
func keysOf[T metav1.Object](objects []T) []string {
	var keys []string
	for _, object := range objects {
		keys = append(keys, object.GetNamespace()+"/"+object.GetName())
	}
	slices.Sort(keys)
	return keys
}

func TestTrackedPods(t *testing.T) {
	pod := func(namespace, name, finalizer string, set map[string]string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: objectMeta(namespace, name)}
		p.Finalizers, p.Labels = []string{finalizer}, set
		return p
	}
	const tracking = batchv1.JobTrackingFinalizer
	of := func(uid string) map[string]string {
		return map[string]string{batchv1.ControllerUidLabel: uid, "app": "a"}
	}
	informer := informers.NewSharedInformerFactory(fakeclient.New(), 0).Core().V1().Pods().Informer()
	tracked := newTrackedPods(informer)
	for _, p := range []*corev1.Pod{
		pod("ns", "mine", tracking, of("j")), pod("ns", "other", tracking, of("k")), pod("ns", "free", "x", of("j")),
		pod("elsewhere", "mine", tracking, of("j")), pod("ns", "unlabeled", tracking, nil), pod("ns", "by-app", tracking, map[string]string{"app": "a"}),
	} {
		if err := informer.GetStore().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	for selector, want := range map[string][]string{
		batchv1.ControllerUidLabel + "=j":       {"ns/mine"},
		batchv1.ControllerUidLabel + "=j,app=b": nil,
		"app=a":                                 {"ns/by-app", "ns/mine", "ns/other"},
	} {
		parsed, err := labels.Parse(selector)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tracked.matching("ns", parsed)
		if err != nil || !slices.Equal(keysOf(got), want) {
			t.Errorf("%s: %v, %v", selector, keysOf(got), err)
		}
	}
}
