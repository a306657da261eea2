package job

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/v1beta1"
)

// without returns the config for an emulated version in which a gate can be switched off, with that
// gate off.
func without(version, gate string) config {
	c := v1beta1.NewDefault()
	c.EmulatedVersion, c.FeatureGates = version, map[string]bool{gate: false}
	cfg := configOf(c)
	cfg.requireFresh = true // later versions only have its gate
	return cfg
}

// Pins JOB-108.
func TestTerminatingPodsWithAndWithoutReplacementPolicies(t *testing.T) {
	off := without("1.33", gates.JobPodReplacementPolicy)
	failurePolicy := withFailurePolicy(onExit(batchv1.PodFailurePolicyActionIgnore, 6))
	for _, test := range []struct {
		name        string
		config      config
		job         *batchv1.Job
		requests    string
		active      int32
		terminating *int32
		reason      string
	}{
		{"policy Failed", defaults, newJob(started, replacesFailed),
			"update jobs/status", 0, ptr.To[int32](1), ""},
		{"policy Failed, gate off", off, newJob(started, replacesFailed),
			"create pods, update jobs/status, patch pods p, update jobs/status", 1, nil, "reason=new status=succeeded 1"},
		{"failure policy", defaults, newJob(started, failurePolicy),
			"update jobs/status", 0, ptr.To[int32](1), ""},
		{"failure policy, gate off", off, newJob(started, failurePolicy),
			"create pods, update jobs/status", 1, nil, "reason=new status=succeeded 1"},
		{"failure policy of an Indexed Job, gate off", off, newJob(started, indexed, failurePolicy),
			"create pods, update jobs/status", 1, nil, "reason=new status=succeeded 1"},
		{"no policy, gate off", off, newJob(started, func(j *batchv1.Job) { j.Status.Failed = 3 }),
			"create pods, update jobs/status, patch pods p, update jobs/status", 1, nil, "reason=new status=succeeded 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, test.config, test.job, newPod("p", leaving, atIndex(0)))
			// The backoff after the failure has passed.
			f.Clock.Step(maxPodBackoff)
			f.MustReconcile(t)
			f.WantRequests(t, listed(test.requests)...)
			if s := f.stored(t).Status; s.Active != test.active || !ptr.Equal(s.Terminating, test.terminating) {
				t.Errorf("active %d, terminating %v", s.Active, ptr.Deref(s.Terminating, -1))
			}
			if got := f.metric(t, "job_controller_job_pods_creation_total"); got != test.reason {
				t.Errorf("counted %q, want %q", got, test.reason)
			}
		})
	}
}

func TestAJobEndsOnlyWithItsPodsWithoutReplacementPoliciesToo(t *testing.T) {
	f := newFixture(t, without("1.33", gates.JobPodReplacementPolicy), newJob(started), newPod("s", succeeded), newPod("p", leaving))
	f.MustReconcile(t)
	if s := f.stored(t).Status; conditionsOf(f.stored(t)) != "SuccessCriteriaMet=True CompletionsReached" || s.Terminating != nil {
		t.Errorf("conditions %s, terminating %v", conditionsOf(f.stored(t)), s.Terminating)
	}
}

// Pins JOB-108.
func TestManagedByWithoutItsGate(t *testing.T) {
	external := func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("example.com/other") }
	f := newFixture(t, without("1.34", gates.JobManagedBy), newJob(external))
	f.MustReconcile(t)
	f.WantRequests(t, "create pods", "update jobs/status")
	f.c.jobAdded(fresh, newJob(external))
	if got := f.metric(t, "job_controller_jobs_by_external_controller_total"); got != "" {
		t.Errorf("counted %q", got)
	}

	f = newFixture(t, without("1.34", gates.JobManagedBy), newJob(external, withStatusCondition(batchv1.JobFailed, "True", "X")), newPod("p"))
	if err := f.c.reconcileOrphan(f.Context(), orphan{orphanPod, "ns", "p"}); err != nil {
		t.Fatal(err)
	}
	f.WantRequests(t, "patch pods p")
}
