package job

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pins JOB-97 and JOB-107.
func TestHandOver(t *testing.T) {
	cfg := defaults
	cfg.requireFresh = false
	first := newFixture(t, cfg, newJob(sized(9, 9), started), newPod("a", succeeded), newPod("f", exited(1, 0)))
	first.MustReconcile(t)
	second := newFixture(t, cfg, newJob(sized(9, 9), started, func(j *batchv1.Job) {
		j.Status.Succeeded, j.Status.Failed = 1, 1
	}), newPod("a", succeeded), newPod("f", exited(1, 0)))
	second.c.takeOver(first.c.HandOver())
	second.MustReconcile(t)
	if s := second.stored(t).Status; s.Succeeded != 1 || s.Failed != 1 || len(s.UncountedTerminatedPods.Succeeded) != 0 {
		t.Errorf("pods were counted again: %+v", s)
	}
	if got, _ := second.c.memory.backoffs.get(key, "job-uid"); got.failures != 1 {
		t.Errorf("remembered %+v", got)
	}
	if second.c.memory.removals.has(key, types.UID("other")) || !second.c.memory.removals.has(key, "a") {
		t.Error("removals were not handed over")
	}
}

// Pins JOB-25.
func TestAJobThatIsGoneIsForgotten(t *testing.T) {
	f := newFixture(t, defaults)
	f.rememberAll("u")
	f.MustReconcile(t)
	if f.c.memory.knows(key) {
		t.Error("it is remembered")
	}
}

// The cache of pods is behind, and shows the finalizers that were removed, when the Job is shown again. Pins JOB-132.
func TestNoPodIsCountedTwiceIfAListLacksTheJob(t *testing.T) {
	cfg := defaults
	cfg.requireFresh = false
	job := newJob(sized(9, 9), started)
	f := newFixture(t, cfg, job, newPod("a", succeeded), newPod("f", exited(1, 0)))
	f.MustReconcile(t)
	f.Uncache(t, job)
	f.c.jobMissed(job)
	f.MustReconcile(t)
	f.Cache(t, f.stored(t))
	f.MustReconcile(t)
	if s := f.stored(t).Status; s.Succeeded != 1 || s.Failed != 1 {
		t.Errorf("%d succeeded, %d failed, of one each", s.Succeeded, s.Failed)
	}
	if got, _ := f.c.memory.backoffs.get(key, "job-uid"); got.failures != 1 {
		t.Errorf("the backoff is %+v", got)
	}
}

// rememberAll makes the controller have state of every kind of the Job.
func (f *fixture) rememberAll(uid types.UID) {
	f.c.memory.backoffs.set(key, uid, backoffRecord{failures: 1, last: start})
	f.c.memory.sightings.set(key, uid, sightings{"p": start})
	f.c.memory.finished.set(key, uid, start)
	f.c.memory.removals.add(key, []*corev1.Pod{newPod("p")})
	f.c.memory.missed.add(key, "p")
}

// There is no event for a Job that was deleted between two instances. Pins JOB-117.
func TestASuccessorForgetsAJobThatIsGone(t *testing.T) {
	first := newFixture(t, defaults)
	first.rememberAll("job-uid")
	second := newFixture(t, defaults)
	second.c.takeOver(first.c.HandOver())
	second.Queued.Want(t, "ns/pi in 5m0s")
	if !second.c.memory.knows(key) {
		t.Error("the cache, which may be stale, is believed at once")
	}
	second.MustReconcile(t)
	if second.c.memory.knows(key) || len(second.c.HandOver().memory.jobs()) != 0 {
		t.Error("it is remembered")
	}
}

// Each kind of state alone makes a successor look at the Job. Pins JOB-117.
func TestASuccessorLooksAtEveryJobOfWhichItHasState(t *testing.T) {
	for kind, set := range map[string]func(*jobController){
		"backoff":  func(c *jobController) { c.memory.backoffs.set(key, "u", backoffRecord{failures: 1}) },
		"sighting": func(c *jobController) { c.memory.sightings.set(key, "u", sightings{"p": start}) },
		"finish":   func(c *jobController) { c.memory.finished.set(key, "u", start) },
		"removal":  func(c *jobController) { c.memory.removals.add(key, []*corev1.Pod{newPod("p")}) },
		"miss":     func(c *jobController) { c.memory.missed.add(key, "p") },
	} {
		first, second := newFixture(t, defaults), newFixture(t, defaults)
		set(first.c)
		second.c.takeOver(first.c.HandOver())
		if !second.c.memory.knows(key) {
			t.Errorf("%s: it was not handed over", kind)
		}
		second.Queued.Want(t, "ns/pi in 5m0s")
	}
}
