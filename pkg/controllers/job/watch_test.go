package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/test/controllertest"
)

var (
	fresh   = reconcile.Fresh
	backlog = reconcile.Backlog
)

func newVersion(pod *corev1.Pod) { pod.ResourceVersion = "21" }

func otherPod(pod *corev1.Pod) { pod.UID = "another" }

func otherJob(j *batchv1.Job) {
	j.Name, j.UID = "other", "other-uid"
	j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "pi"}}
}

// Only this controller removes the finalizer of a pod, no matter what owns the pod.
func TestPodsThatWakeTheHandler(t *testing.T) {
	pods := &controllertest.Captured{}
	newFixture(t, defaults).c.watch(&controllertest.Captured{}, pods)
	h := pods.Handler.(informers.Selective)
	foreign := func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" }
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"of a Job":                          {newPod("p", untracked), true},
		"an orphan":                         {newPod("p", untracked, alone), true},
		"of something else":                 {newPod("p", untracked, foreign), false},
		"of something else, with finalizer": {newPod("p", foreign), true},
	} {
		if h.WantsAdd(test.pod) != test.want || h.WantsUpdate(test.pod, test.pod) != test.want || h.WantsDelete(test.pod) != test.want {
			t.Errorf("%s: is wanted, want %v", name, test.want)
		}
	}
}

// Pins JOB-15, JOB-16 and JOB-17.
func TestPodEvents(t *testing.T) {
	owned := func(kind, name string, uid types.UID) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: kind, Name: name, UID: uid, Controller: ptr.To(true)}}
		}
	}
	finished := withStatusCondition(batchv1.JobComplete, "True", "X")
	const soon, both, orphanKey = "ns/pi in 1s", "ns/other in 1s, ns/pi in 1s", "ns/name p"
	for _, test := range []struct {
		name    string
		job     *batchv1.Job
		event   func(f *fixture)
		queued  string
		orphans string
	}{
		{"added", newJob(), func(f *fixture) { f.c.podAdded(fresh, newPod("p")) }, soon, ""},
		{"replayed", newJob(), func(f *fixture) { f.c.podAdded(backlog, newPod("p")) }, "backlog ns/pi", ""},
		{"added while it terminates", newJob(), func(f *fixture) { f.c.podAdded(fresh, newPod("p", leaving)) }, soon, ""},
		{"JOB-90: added, of a job that is gone", newJob(), func(f *fixture) { f.c.podAdded(fresh, newPod("p", owned("Job", "pi", "old"))) }, "", ""},
		{"added, of something else", newJob(), func(f *fixture) { f.c.podAdded(fresh, newPod("p", owned("ReplicaSet", "pi", "job-uid"))) }, "", ""},
		{"orphan added", newJob(), func(f *fixture) { f.c.podAdded(fresh, newPod("p", alone)) }, both, orphanKey},
		{"JOB-13: orphan with the finalizer added", newJob(), func(f *fixture) {
			f.c.podAdded(fresh, newPod("p", alone, withFinalizer("batch.kubernetes.io/job-tracking")))
		}, both, orphanKey},
		{"JOB-13: orphan with another finalizer added", newJob(), func(f *fixture) { f.c.podAdded(fresh, newPod("p", alone, withFinalizer("example.com/job-tracking"))) }, both, ""},
		{"orphan without finalizer added", newJob(), func(f *fixture) { f.c.podAdded(fresh, newPod("p", alone, untracked)) }, both, ""},
		{"resynced", newJob(), func(f *fixture) { f.c.podUpdated(backlog, newPod("p"), newPod("p")) }, "", ""},
		{"JOB-90: updated, of a job that is gone", newJob(), func(f *fixture) {
			f.c.podUpdated(fresh, newPod("p", owned("Job", "pi", "old")), newPod("p", owned("Job", "pi", "old"), newVersion))
		}, "", ""},
		{"JOB-90: terminating, of a job that is gone", newJob(), func(f *fixture) {
			f.c.podUpdated(fresh, newPod("p", owned("Job", "pi", "old")), newPod("p", owned("Job", "pi", "old"), newVersion, leaving))
		}, "", orphanKey},
		{"updated", newJob(), func(f *fixture) { f.c.podUpdated(fresh, newPod("p"), newPod("p", newVersion)) }, soon, ""},
		{"terminating", newJob(), func(f *fixture) { f.c.podUpdated(fresh, newPod("p"), newPod("p", newVersion, leaving)) }, soon, ""},
		{"WL-107: released while it terminates", newJob(), func(f *fixture) {
			f.c.podUpdated(fresh, newPod("p", leaving), newPod("p", newVersion, alone, untracked, leaving))
		}, soon, ""},
		{"JOB-120: replaced by an orphan that terminates", newJob(), func(f *fixture) {
			f.c.podUpdated(fresh, newPod("p"), newPod("p", newVersion, otherPod, alone, untracked, leaving))
		}, soon, ""},
		{"JOB-120: replaced by one of another job that terminates", newJob(), func(f *fixture) {
			f.c.podUpdated(fresh, newPod("p"), newPod("p", newVersion, otherPod, owned("Job", "other", "other-uid"), leaving))
		}, "ns/pi in 1s, ns/other in 1s", ""},
		{"given to another job", newJob(), func(f *fixture) {
			f.c.podUpdated(fresh, newPod("p"), newPod("p", newVersion, owned("Job", "other", "other-uid")))
		}, "ns/pi in 1s, ns/other in 1s", ""},
		{"released", newJob(), func(f *fixture) { f.c.podUpdated(fresh, newPod("p"), newPod("p", newVersion, alone)) }, "ns/pi in 1s, " + both, orphanKey},
		{"orphan updated", newJob(), func(f *fixture) { f.c.podUpdated(fresh, newPod("p", alone), newPod("p", alone, newVersion)) }, "", orphanKey},
		{"orphan relabeled", newJob(), func(f *fixture) {
			f.c.podUpdated(fresh, newPod("p", alone, untracked, func(p *corev1.Pod) { p.Labels = nil }), newPod("p", alone, untracked, newVersion))
		}, both, ""},
		{"deleted", newJob(), func(f *fixture) { f.c.podDeleted(newPod("p")) }, soon, ""},
		{"deleted, of a finished job", newJob(finished), func(f *fixture) { f.c.podDeleted(newPod("p")) }, "", orphanKey},
		{"terminating, of a finished job", newJob(finished), func(f *fixture) { f.c.podUpdated(fresh, newPod("p"), newPod("p", newVersion, leaving)) }, "", orphanKey},
		{"deleted without finalizer, of a finished job", newJob(finished), func(f *fixture) { f.c.podDeleted(newPod("p", untracked)) }, "", ""},
		{"deleted, of a job that is gone", newJob(), func(f *fixture) { f.c.podDeleted(newPod("p", owned("Job", "pi", "old"))) }, "", orphanKey},
		{"orphan deleted", newJob(), func(f *fixture) { f.c.podDeleted(newPod("p", alone)) }, "", orphanKey},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, defaults, test.job, newJob(otherJob))
			test.event(f)
			queued := strings.Join(f.Queued.Take(), ", ")
			if test.queued == both || strings.HasSuffix(test.queued, both) {
				parts := strings.Split(queued, ", ")
				slices.Sort(parts[len(parts)-min(2, len(parts)):])
				queued = strings.Join(parts, ", ")
			}
			if orphans := strings.Join(f.orphans.Take(), ", "); queued != test.queued || orphans != test.orphans {
				t.Errorf("queued %q and %q, want %q and %q", queued, orphans, test.queued, test.orphans)
			}
		})
	}
}

func TestJobEvents(t *testing.T) {
	finished := withStatusCondition(batchv1.JobComplete, "True", "X")
	generation2 := func(j *batchv1.Job) { j.Generation = 2 }
	deadline := func(seconds int64) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = &seconds }
	}
	const sweep = "ns/selector batch.kubernetes.io/controller-uid=job-uid"
	for _, test := range []struct {
		name    string
		pod     *corev1.Pod
		event   func(f *fixture)
		queued  string
		orphans string
	}{
		{"added", nil, func(f *fixture) { f.c.jobAdded(fresh, newJob()) }, "ns/pi", ""},
		{"replayed", nil, func(f *fixture) { f.c.jobAdded(backlog, newJob()) }, "backlog ns/pi", ""},
		{"JOB-8, JOB-11: status changed", nil, func(f *fixture) { f.c.jobUpdated(fresh, newJob(), newJob(started)) }, "ns/pi in 1s", ""},
		{"resynced", nil, func(f *fixture) { f.c.jobUpdated(backlog, newJob(), newJob()) }, "backlog ns/pi", ""},
		{"JOB-8, JOB-11: spec changed", nil, func(f *fixture) { f.c.jobUpdated(fresh, newJob(), newJob(generation2)) }, "ns/pi", ""},
		{"JOB-11: deadline set", nil, func(f *fixture) { f.c.jobUpdated(fresh, newJob(started), newJob(started, generation2, deadline(3605))) }, "ns/pi, ns/pi in 5s", ""},
		{"JOB-11: deadline changed to one that is over", nil, func(f *fixture) {
			f.c.jobUpdated(fresh, newJob(started, deadline(9000)), newJob(started, generation2, deadline(60)))
		}, "ns/pi, ns/pi in 0s", ""},
		{"JOB-115, JOB-141: deadline set to one that never comes", nil, func(f *fixture) {
			f.c.jobUpdated(fresh, newJob(started), newJob(started, generation2, deadline(9999999999)))
		}, "ns/pi, ns/pi in 1h0m0s", ""},
		{"JOB-11: deadline set before the start", nil, func(f *fixture) { f.c.jobUpdated(fresh, newJob(), newJob(generation2, deadline(60))) }, "ns/pi", ""},
		{"JOB-93, JOB-109: finished, no pod is left", newPod("p", untracked), func(f *fixture) { f.c.jobUpdated(fresh, newJob(), newJob(finished)) }, "", ""},
		{"JOB-11, JOB-109: finished, a pod is left", newPod("p"), func(f *fixture) { f.c.jobUpdated(fresh, newJob(), newJob(finished)) }, "", sweep},
		{"finished, a removal is not seen", newPod("p"), func(f *fixture) {
			f.c.memory.removals.add(key, []*corev1.Pod{newPod("p")})
			f.c.jobUpdated(fresh, newJob(), newJob(finished))
		}, "ns/pi in 1s", ""},
		{"deleted", newPod("p"), func(f *fixture) { f.c.jobDeleted(newJob()) }, "ns/pi", sweep},
		{"recreated in between", newPod("p"), func(f *fixture) {
			f.c.jobUpdated(fresh, newJob(), newJob(func(j *batchv1.Job) { j.UID = "new" }))
		}, "ns/pi, ns/pi in 1s", sweep},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, defaults)
			if test.pod != nil {
				f.Cache(t, test.pod)
			}
			test.event(f)
			if queued, orphans := strings.Join(f.Queued.Take(), ", "), strings.Join(f.orphans.Take(), ", "); queued != test.queued || orphans != test.orphans {
				t.Errorf("queued %q and %q, want %q and %q", queued, orphans, test.queued, test.orphans)
			}
		})
	}
}

// Pins JOB-12.
func TestADeletedJobIsForgottenAtOnce(t *testing.T) {
	f := newFixture(t, defaults)
	f.c.memory.backoffs.set(key, "job-uid", backoffRecord{failures: 1, last: start})
	f.c.memory.sightings.set(key, "job-uid", sightings{"p": start})
	f.c.memory.finished.set(key, "job-uid", start)
	f.c.owners.Writes.Wrote(newJob(), jobResource, "7")
	f.c.jobDeleted(newJob())
	if f.c.memory.knows(key) || len(f.c.owners.Writes.HandOver()) != 0 {
		t.Error("it is remembered")
	}
}

// Pins JOB-20 and JOB-21.
func TestFailuresBackOff(t *testing.T) {
	jobs, orphans := backoffOf[types.NamespacedName](), backoffOf[orphan]()
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		if got := [2]time.Duration{jobs.When(key), orphans.When(orphan{})}; got != [2]time.Duration{want * time.Second, want * time.Second} {
			t.Errorf("the delays are %v, want %v seconds", got, int(want))
		}
	}
	for n := range 200 { // without a limit for all keys together
		if got := jobs.When(types.NamespacedName{Name: fmt.Sprint(n)}); got != time.Second {
			t.Fatalf("the first delay of another Job is %v", got)
		}
	}
}

// Pins JOB-2, JOB-3, JOB-4, JOB-5, JOB-6 and JOB-108.
func TestValue(t *testing.T) {
	gates := func(set map[string]bool) func(*v1beta1.KubeControllerManagerConfiguration) {
		return func(c *v1beta1.KubeControllerManagerConfiguration) { c.FeatureGates = set }
	}
	with := func(change func(*config)) config {
		cfg := defaults
		change(&cfg)
		return cfg
	}
	gang := with(func(cfg *config) { cfg.gangScheduling = true })
	emulating := func(version, gate string) func(*v1beta1.KubeControllerManagerConfiguration) {
		return func(c *v1beta1.KubeControllerManagerConfiguration) {
			c.EmulatedVersion, c.FeatureGates = version, map[string]bool{gate: false}
		}
	}
	// Emulated versions before 1.36 do not have two of the gates.
	older := config{concurrentSyncs: 5, podReplacementPolicy: true, managedBy: true}
	for _, test := range []struct {
		name   string
		change func(*v1beta1.KubeControllerManagerConfiguration)
		want   config
	}{
		{"defaults", gates(nil), defaults},
		{"workers", func(c *v1beta1.KubeControllerManagerConfiguration) { *c.Controllers.Job.ConcurrentSyncs = 7 }, with(func(cfg *config) { cfg.concurrentSyncs = 7 })},
		{"consistency", gates(map[string]bool{"StaleControllerConsistencyJob": false}), with(func(cfg *config) { cfg.requireFresh = false })},
		{"start time", gates(map[string]bool{"MutableSchedulingDirectivesForSuspendedJobs": false}), with(func(cfg *config) { cfg.resetStartTimeOfSuspended = false })},
		{"workloads without what they need", gates(map[string]bool{"WorkloadWithJob": true}), defaults},
		{"workloads", gates(map[string]bool{"WorkloadWithJob": true, "GenericWorkload": true}), gang},
		{"replacement policies", emulating("1.33", "JobPodReplacementPolicy"), config{concurrentSyncs: 5, managedBy: true}},
		{"replacement policies, locked", emulating("1.34", "JobPodReplacementPolicy"), older},
		{"other controllers", emulating("1.34", "JobManagedBy"), config{concurrentSyncs: 5, podReplacementPolicy: true}},
		{"other controllers, locked", emulating("1.36", "JobManagedBy"), defaults},
	} {
		c := v1beta1.NewDefault()
		test.change(c)
		if got := Descriptor().Value(c); got != test.want {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
	if n := len(Descriptor().Resources(gang)); n != 4 {
		t.Errorf("with workloads %d resources are needed", n)
	}
}
