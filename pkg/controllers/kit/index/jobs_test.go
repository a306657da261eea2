package index

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

func TestTrackedPods(t *testing.T) {
	pod := func(namespace, name, finalizer string, set map[string]string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: objectMeta(namespace, name, "1")}
		p.Finalizers, p.Labels = []string{finalizer}, set
		return p
	}
	const tracking = batchv1.JobTrackingFinalizer
	of := func(uid string) map[string]string {
		return map[string]string{batchv1.ControllerUidLabel: uid, "app": "a"}
	}
	informer := podInformer(t)
	tracked, err := NewTrackedPods(informer)
	if err != nil {
		t.Fatal(err)
	}
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
		got, err := tracked.Matching("ns", parsed)
		if err != nil || !slices.Equal(keysOf(got), want) {
			t.Errorf("%s: %v, %v", selector, keysOf(got), err)
		}
	}
}

func TestWorkloadsAndPodGroups(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Scheduling().V1alpha2()
	workloads, err := NewWorkloads(factory.Workloads().Informer())
	if err != nil {
		t.Fatal(err)
	}
	groups, err := NewPodGroups(factory.PodGroups().Informer())
	if err != nil {
		t.Fatal(err)
	}
	for name, ref := range map[string]*schedulingv1alpha2.TypedLocalObjectReference{
		"mine":  {APIGroup: "batch", Kind: "Job", Name: "pi"},
		"group": {APIGroup: "apps", Kind: "Job", Name: "pi"},
		"kind":  {APIGroup: "batch", Kind: "CronJob", Name: "pi"},
		"empty": {APIGroup: "batch", Kind: "Job"},
		"none":  nil,
	} {
		w := &schedulingv1alpha2.Workload{ObjectMeta: objectMeta("ns", name, "1"), Spec: schedulingv1alpha2.WorkloadSpec{ControllerRef: ref}}
		if err := factory.Workloads().Informer().GetStore().Add(w); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := workloads.OfJob("ns", "pi"); err != nil || !slices.Equal(keysOf(got), []string{"ns/mine"}) {
		t.Errorf("%v, %v", keysOf(got), err)
	}
	for name, ref := range map[string]*schedulingv1alpha2.PodGroupTemplateReference{
		"mine":        {Workload: &schedulingv1alpha2.WorkloadPodGroupTemplateReference{WorkloadName: "w"}},
		"of nothing":  {},
		"of no name":  {Workload: &schedulingv1alpha2.WorkloadPodGroupTemplateReference{}},
		"of no other": nil,
	} {
		g := &schedulingv1alpha2.PodGroup{ObjectMeta: objectMeta("ns", name, "1"), Spec: schedulingv1alpha2.PodGroupSpec{PodGroupTemplateRef: ref}}
		if err := factory.PodGroups().Informer().GetStore().Add(g); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := groups.OfWorkload("ns", "w"); err != nil || !slices.Equal(keysOf(got), []string{"ns/mine"}) {
		t.Errorf("%v, %v", keysOf(got), err)
	}
}
