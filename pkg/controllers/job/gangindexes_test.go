package job

import (
	"slices"
	"testing"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/client-go/informers"

	"kcmd.dev/test/fakeclient"
)

func TestWorkloadsAndPodGroups(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fakeclient.New(), 0).Scheduling().V1alpha2()
	workloads := newWorkloadIndex(factory.Workloads().Informer())
	groups := newPodGroupIndex(factory.PodGroups().Informer())
	for name, ref := range map[string]*schedulingv1alpha2.TypedLocalObjectReference{
		"mine":             {APIGroup: "batch", Kind: "Job", Name: "pi"},
		"of-another-group": {APIGroup: "apps", Kind: "Job", Name: "pi"},
		"of-another-kind":  {APIGroup: "batch", Kind: "CronJob", Name: "pi"},
		"of-no-name":       {APIGroup: "batch", Kind: "Job"},
		"of-none":          nil,
	} {
		w := &schedulingv1alpha2.Workload{ObjectMeta: objectMeta("ns", name), Spec: schedulingv1alpha2.WorkloadSpec{ControllerRef: ref}}
		if err := factory.Workloads().Informer().GetStore().Add(w); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := workloads.ofJob("ns", "pi"); err != nil || !slices.Equal(keysOf(got), []string{"ns/mine"}) {
		t.Errorf("%v, %v", keysOf(got), err)
	}
	for name, ref := range map[string]*schedulingv1alpha2.PodGroupTemplateReference{
		"mine":           {Workload: &schedulingv1alpha2.WorkloadPodGroupTemplateReference{WorkloadName: "w"}},
		"of-no-workload": {},
		"of-no-name":     {Workload: &schedulingv1alpha2.WorkloadPodGroupTemplateReference{}},
		"of-none":        nil,
	} {
		g := &schedulingv1alpha2.PodGroup{ObjectMeta: objectMeta("ns", name), Spec: schedulingv1alpha2.PodGroupSpec{PodGroupTemplateRef: ref}}
		if err := factory.PodGroups().Informer().GetStore().Add(g); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := groups.ofWorkload("ns", "w"); err != nil || !slices.Equal(keysOf(got), []string{"ns/mine"}) {
		t.Errorf("%v, %v", keysOf(got), err)
	}
}
