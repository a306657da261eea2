package job

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func gangConfig() config {
	cfg := defaults
	cfg.gangScheduling = true
	return cfg
}

// Pins JOB-77.
func TestFormsGang(t *testing.T) {
	for _, test := range []struct {
		name string
		job  *batchv1.Job
		want bool
	}{
		{"parallel", newJob(indexed, sized(3, 3)), true},
		{"one pod", newJob(indexed, sized(1, 1)), false},
		{"not indexed", newJob(sized(3, 3)), false},
		{"more completions", newJob(indexed, sized(4, 3)), false},
		{"has a group already", newJob(indexed, sized(3, 3), func(j *batchv1.Job) {
			j.Spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("g")}
		}), false},
	} {
		if got := formsGang(test.job); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}

// Pins JOB-18.
func TestRequestsOfAJob(t *testing.T) {
	foreign := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "other"} }
	own := []string{"create pods", "delete pods", "get jobs", "patch pods", "update jobs/status"}
	for name, test := range map[string]struct {
		config config
		want   []string
	}{
		"without gangs": {defaults, own},
		"with gangs":    {gangConfig(), slices.Sorted(slices.Values(append(own, "create podgroups", "create workloads")))},
	} {
		t.Run(name, func(t *testing.T) {
			sent := map[string]bool{}
			observe := func(f *fixture) {
				for _, action := range f.Fake.Actions() {
					request := action.GetVerb() + " " + action.GetResource().Resource
					if action.GetSubresource() != "" {
						request += "/" + action.GetSubresource()
					}
					sent[request] = true
					if patch, ok := action.(ktesting.PatchAction); ok && patch.GetPatchType() != types.StrategicMergePatchType {
						t.Errorf("a patch is %s", patch.GetPatchType())
					}
				}
			}
			f := newFixture(t, test.config, newJob(indexed, sized(3, 3)))
			f.Kinds = append(f.Kinds, &schedulingv1alpha2.Workload{}, &schedulingv1alpha2.PodGroup{})
			f.MustReconcile(t)
			observe(f)
			// A pod to be adopted, one to be released, one that has finished, and one of no index.
			for _, pod := range []*corev1.Pod{
				newPod("a", alone, atIndex(9)), newPod("b", foreign), newPod("c", succeeded, atIndex(0)), newPod("d", atIndex(8)),
			} {
				f.Store(t, pod)
			}
			f.CatchUp(t)
			f.MustReconcile(t)
			observe(f)
			if got := slices.Sorted(maps.Keys(sent)); !slices.Equal(got, test.want) {
				t.Errorf("requests are %q, want %q", got, test.want)
			}
		})
	}
}

// Pins JOB-34, JOB-78, JOB-79 and JOB-80.
func TestGangOfANewJob(t *testing.T) {
	f := newFixture(t, gangConfig(), newJob(indexed, sized(2, 2)))
	f.MustReconcile(t)
	f.WantRequests(t, "create workloads", "create podgroups", "create pods", "create pods", "update jobs/status")
	name := workloadName(newJob())
	if got := f.RecordedEvents()[0]; got != "Normal WorkloadCreated Created Workload "+name+" for Job pi" {
		t.Errorf("event %q", got)
	}
	scheduling := f.Fake.SchedulingV1alpha2()
	workload, err := scheduling.Workloads("ns").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := schedulingv1alpha2.WorkloadSpec{
		ControllerRef: &schedulingv1alpha2.TypedLocalObjectReference{APIGroup: "batch", Kind: "Job", Name: "pi"},
		PodGroupTemplates: []schedulingv1alpha2.PodGroupTemplate{{
			Name:             "pi-pgt-0",
			SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: 2}},
		}},
	}
	if diff := cmp.Diff(want, workload.Spec); diff != "" || !metav1.IsControlledBy(workload, newJob()) {
		t.Errorf("owners %v, %s", workload.OwnerReferences, diff)
	}
	groupName := podGroupName(name, "pi-pgt-0")
	group, err := scheduling.PodGroups("ns").Get(t.Context(), groupName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantGroup := schedulingv1alpha2.PodGroupSpec{
		PodGroupTemplateRef: &schedulingv1alpha2.PodGroupTemplateReference{
			Workload: &schedulingv1alpha2.WorkloadPodGroupTemplateReference{WorkloadName: name, PodGroupTemplateName: "pi-pgt-0"},
		},
		SchedulingPolicy: want.PodGroupTemplates[0].SchedulingPolicy,
	}
	if diff := cmp.Diff(wantGroup, group.Spec); diff != "" || !metav1.IsControlledBy(group, newJob()) {
		t.Errorf("owners %v, %s", group.OwnerReferences, diff)
	}
	if refs := group.OwnerReferences; len(refs) != 2 || refs[1].Kind != "Workload" || refs[1].Controller != nil || refs[1].BlockOwnerDeletion != nil {
		t.Errorf("owners %v", refs)
	}
	for _, pod := range f.storedPods(t) {
		if g := pod.Spec.SchedulingGroup; g == nil || *g.PodGroupName != groupName {
			t.Errorf("pod %s has group %v", pod.Name, g)
		}
	}
}

// Pins JOB-77.
func TestGangsThatAreNotUsed(t *testing.T) {
	ownWorkload := newWorkload(newJob(indexed, sized(2, 2)))
	ownWorkload.UID = "w"
	foreign := ownWorkload.DeepCopy()
	foreign.Name, foreign.OwnerReferences = "foreign", nil
	two := ownWorkload.DeepCopy()
	two.Spec.PodGroupTemplates = append(two.Spec.PodGroupTemplates, schedulingv1alpha2.PodGroupTemplate{Name: "b"})
	group := newPodGroup(newJob(), ownWorkload)
	foreignGroup := group.DeepCopy()
	foreignGroup.OwnerReferences[0].UID = "other"
	secondGroup := group.DeepCopy()
	secondGroup.Name = "second"
	started := func(j *batchv1.Job) { started(j); j.Status.Active = 0 }
	for _, test := range []struct {
		name      string
		change    func(*batchv1.Job)
		workloads []*schedulingv1alpha2.Workload
		groups    []*schedulingv1alpha2.PodGroup
		used      bool
	}{
		{"both are there", started, []*schedulingv1alpha2.Workload{ownWorkload}, []*schedulingv1alpha2.PodGroup{group}, true},
		{"none, and the job has started", started, nil, nil, false},
		{"none, and the job was suspended", withStatusCondition(batchv1.JobSuspended, "True", "X"), nil, nil, false},
		{"none, and pods were counted", func(j *batchv1.Job) { j.Status.Failed = 1 }, nil, nil, false},
		{"no group, and the job has started (F)", started, []*schedulingv1alpha2.Workload{ownWorkload}, nil, true},
		{"no group of a new job", func(*batchv1.Job) {}, []*schedulingv1alpha2.Workload{ownWorkload}, nil, true},
		{"a workload of somebody else", func(*batchv1.Job) {}, []*schedulingv1alpha2.Workload{foreign}, nil, false},
		{"several workloads", func(*batchv1.Job) {}, []*schedulingv1alpha2.Workload{ownWorkload, foreign}, nil, false},
		{"several templates", func(*batchv1.Job) {}, []*schedulingv1alpha2.Workload{two}, nil, false},
		{"a group of somebody else", func(*batchv1.Job) {}, []*schedulingv1alpha2.Workload{ownWorkload}, []*schedulingv1alpha2.PodGroup{foreignGroup}, false},
		{"several groups", func(*batchv1.Job) {}, []*schedulingv1alpha2.Workload{ownWorkload}, []*schedulingv1alpha2.PodGroup{group, secondGroup}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, gangConfig(), newJob(indexed, sized(2, 2), test.change))
			scheduling := f.Informers.Scheduling().V1alpha2()
			for _, w := range test.workloads {
				if err := scheduling.Workloads().Informer().GetStore().Add(w); err != nil {
					t.Fatal(err)
				}
			}
			for _, g := range test.groups {
				if err := scheduling.PodGroups().Informer().GetStore().Add(g); err != nil {
					t.Fatal(err)
				}
			}
			f.MustReconcile(t)
			if got := strings.Join(f.Requests(), ", "); strings.Contains(got, "create workloads") {
				t.Errorf("requests %s", got)
			}
			pods := f.storedPods(t)
			if used := pods[0].Spec.SchedulingGroup != nil; len(pods) != 2 || used != test.used {
				t.Errorf("%d pods, in a group: %t", len(pods), used)
			}
		})
	}
}

func TestGangFailures(t *testing.T) {
	f := newFixture(t, gangConfig(), newJob(indexed, sized(2, 2)))
	works := f.Refuse("create podgroups", errBoom)
	err := f.Reconcile()
	if err == nil || err.Error() != "ensuring Workload and PodGroup for Job ns/pi: boom" {
		t.Errorf("the error is %v", err)
	}
	works()
	// The cache does not show the Workload until after the first attempt to create it again.
	f.Fake.PrependReactor("create", "workloads", func(ktesting.Action) (bool, runtime.Object, error) {
		workload := newWorkload(newJob(indexed, sized(2, 2)))
		if err := f.Informers.Scheduling().V1alpha2().Workloads().Informer().GetStore().Add(workload); err != nil {
			return true, nil, err
		}
		return true, nil, apierrors.NewAlreadyExists(schedulingv1alpha2.Resource("workloads"), workload.Name)
	})
	f.MustReconcile(t)
	if pod := f.storedPods(t)[0]; pod.Spec.SchedulingGroup == nil {
		t.Error("pods are not in a group")
	}
}

// Pins JOB-79.
func TestWorkloadNames(t *testing.T) {
	long := strings.Repeat("x", 300)
	job := newJob(func(j *batchv1.Job) { j.Name = long })
	if name := workloadName(job); len(name) != 253 || !strings.HasPrefix(name, "xxx") {
		t.Errorf("%d: %s", len(name), name)
	}
	other := newJob(func(j *batchv1.Job) { j.UID = types.UID("other") })
	if workloadName(newJob()) == workloadName(other) {
		t.Error("a recreated Job has the same Workload")
	}
	for _, test := range []struct {
		workload, template string
		room               int
		want               string
	}{
		{"aaaaaaaaaa", "bb", 9, "aaaaaaa bb"},
		{"aa", "bbbbbbbbbb", 9, "aa bbbbbbb"},
		{"aaaaaaaaaa", "bbbbbbbbbb", 9, "aaaaa bbbb"},
	} {
		w, tpl := share(test.workload, test.template, test.room)
		if got := w + " " + tpl; got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
	if name := podGroupName(long, long); len(name) != 253 {
		t.Errorf("%d: %s", len(name), name)
	}
	if name := podGroupName("w", "t"); !strings.HasPrefix(name, "w-t-") {
		t.Error(name)
	}
}

// No pod is created without its group. Pins WL-119.
func TestAPodGroupThatIsNotCreatedInTime(t *testing.T) {
	f := newFixture(t, gangConfig(), newJob(indexed, sized(2, 2)))
	f.Refuse("create podgroups", &url.Error{Op: "Post", URL: "https://server", Err: context.DeadlineExceeded})
	if err := f.Reconcile(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if slices.ContainsFunc(f.Requests(), func(r string) bool { return strings.HasPrefix(r, "create pods") }) {
		t.Errorf("requests: %q", f.Requests())
	}
}

// The cache of Workloads is behind those of Jobs and pods, by which the Job has started. Pins JOB-142.
func TestPodsJoinAGangThatTheCacheDoesNotShowYet(t *testing.T) {
	for name, requireFresh := range map[string]bool{"with its gate": true, "without its gate": false} {
		t.Run(name, func(t *testing.T) {
			cfg := gangConfig()
			cfg.requireFresh = requireFresh
			f := newFixture(t, cfg, newJob(indexed, sized(2, 2)))
			f.CompleteWrites("workloads", "podgroups")
			scheduling := []runtime.Object{&schedulingv1alpha2.Workload{}, &schedulingv1alpha2.PodGroup{}}
			for _, kind := range scheduling {
				f.EmptyCache(t, kind, "1")
			}
			f.RefuseIf("create pods", errBoom, func(n int) bool { return n == 2 })
			if err := f.Reconcile(); err == nil {
				t.Fatal("both pods were created")
			}
			f.CatchUp(t)
			f.Clock.Step(time.Minute)
			if err := f.Reconcile(); err != nil && !reconcile.IsRequeue(err) {
				t.Fatal(err)
			}
			f.Env.CatchUp(t, scheduling...)
			f.CatchUp(t)
			f.Clock.Step(time.Minute)
			f.MustReconcile(t)
			all := f.storedPods(t)
			for _, pod := range all {
				if pod.Spec.SchedulingGroup == nil {
					t.Errorf("pod %s is not in the group", pod.Name)
				}
			}
			if len(all) != 2 {
				t.Errorf("there are %d pods", len(all))
			}
		})
	}
}

// A list after a break of the watch has lacked the Workload of a Job that has started.
func TestAWorkloadThatTheCacheLacks(t *testing.T) {
	workload := newWorkload(newJob(indexed, sized(2, 2)))
	workload.UID = "w"
	foreign := workload.DeepCopy()
	foreign.OwnerReferences = nil
	group := newPodGroup(newJob(), workload)
	for name, test := range map[string]struct {
		edit   func(*batchv1.Job)
		stored []runtime.Object
		read   error
		reads  bool
		used   bool
	}{
		"JOB-143: it exists":              {stored: []runtime.Object{workload, group}, reads: true, used: true},
		"JOB-143: it has no PodGroup":     {stored: []runtime.Object{workload}, reads: true, used: true},
		"JOB-143: it is gone":             {reads: true},
		"JOB-143: it is of somebody else": {stored: []runtime.Object{foreign}, reads: true},
		"JOB-143: it cannot be read":      {stored: []runtime.Object{workload}, read: errBoom, reads: true},
		"JOB-143: the Job needs no pods":  {edit: suspended, stored: []runtime.Object{workload}},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(indexed, sized(2, 2), started)
			if test.edit != nil {
				test.edit(job)
			}
			f := newFixture(t, gangConfig(), job)
			f.Store(t, test.stored...)
			if test.read != nil {
				f.Refuse("get workloads", test.read)
			}
			if err := f.Reconcile(); !errors.Is(err, test.read) {
				t.Fatalf("got %v", err)
			}
			if got := f.Requests(); slices.ContainsFunc(got, func(r string) bool { return strings.HasPrefix(r, "get workloads") }) != test.reads {
				t.Errorf("requests: %q", got)
			}
			all := f.storedPods(t)
			if mayCreate := test.read == nil && test.edit == nil; len(all) == 2 != mayCreate {
				t.Errorf("there are %d pods", len(all))
			}
			for _, pod := range all {
				if (index.GroupOf(pod) == group.Name) != test.used {
					t.Errorf("pod %s is in group %q", pod.Name, index.GroupOf(pod))
				}
			}
		})
	}
}
