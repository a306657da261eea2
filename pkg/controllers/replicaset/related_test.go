package replicaset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/test/fakeclient"
	"kcmd.dev/test/must"
)

// newFamily is a family over caches that hold the objects.
func newFamily(t *testing.T, objects ...any) family {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fakeclient.New(), 0)
	podInformer, setInformer := factory.Core().V1().Pods().Informer(), factory.Apps().V1().ReplicaSets().Informer()
	pods := index.NewPods(podInformer)
	sets := index.NewReplicaSets(setInformer)
	for _, object := range objects {
		store := podInformer.GetStore()
		if _, ok := object.(*appsv1.ReplicaSet); ok {
			store = setInformer.GetStore()
		}
		if err := store.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return family{pods: pods, replicaSets: sets}
}

// set is a ReplicaSet of a deployment; no deployment means that nothing controls it.
func set(name, deployment string, selector map[string]string) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: selector}},
	}
	if deployment != "" {
		owner := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: deployment, UID: types.UID(deployment)}}
		rs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	}
	return rs
}

func podOf(rs *appsv1.ReplicaSet, name, node string, labels map[string]string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: labels},
		Spec:       corev1.PodSpec{NodeName: node},
	}
	if rs != nil {
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// Pins RS-24.
func TestActiveByNode(t *testing.T) {
	v1, v2, all := map[string]string{"app": "a", "v": "1"}, map[string]string{"app": "a", "v": "2"}, map[string]string{"app": "a"}
	old, current, wide := set("old", "d", v1), set("current", "d", v2), set("wide", "d", all)
	stranger, bare := set("stranger", "other", v2), set("bare", "", v2)
	finished := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	leaving := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	objects := []any{
		podOf(old, "o1", "n1", v1),
		podOf(current, "c1", "n1", v2),
		podOf(current, "c2", "n2", v2),
		podOf(current, "finished", "n2", v2, finished),
		podOf(current, "leaving", "n2", v2, leaving),
		podOf(current, "relabeled", "n2", map[string]string{"app": "b"}),
		podOf(nil, "orphan", "n3", v2),
		podOf(nil, "foreign-orphan", "n3", map[string]string{"app": "b"}),
		podOf(stranger, "s1", "n2", v2),
		podOf(bare, "b1", "n2", v2),
	}
	for _, test := range []struct {
		name string
		of   *appsv1.ReplicaSet
		sets []any
		want map[string]int
	}{
		{"RS-48, RS-56: the family", current, []any{old, current, stranger, bare}, map[string]int{"n1": 2, "n2": 1, "n3": 1}},
		{"seen from another member", old, []any{old, current, stranger, bare}, map[string]int{"n1": 2, "n2": 1, "n3": 1}},
		{"a pod that several match counts once", current, []any{old, current, wide}, map[string]int{"n1": 2, "n2": 1, "n3": 1}},
		{"alone in its family", current, []any{current}, map[string]int{"n1": 1, "n2": 1, "n3": 1}},
		{"RS-42: without a controller", bare, []any{old, current, bare}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := must.Get(newFamily(t, append(test.sets, objects...)...).activeByNode(test.of))(t)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAMemberWithAnInvalidSelectorIsAnError(t *testing.T) {
	invalid := set("invalid", "d", nil)
	invalid.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Bad"}}
	valid := set("valid", "d", nil)
	if _, err := newFamily(t, valid, invalid).activeByNode(valid); err == nil {
		t.Error("no error")
	}
}
