package job

import (
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

func startJobs(t testing.TB, w *simulation.World, cfg config) func(controller.Env, any) simulation.Instance {
	return func(env controller.Env, left any) simulation.Instance {
		c := must.Get(newController(env, cfg))(t)
		queue := simulation.NewQueue(w, c.owners.Reconcile)
		orphans := simulation.NewQueue(w, c.reconcileOrphan)
		c.owners.Queue, c.orphanQueue = queue, orphans
		if left != nil {
			c.takeOver(left.(handover))
		}
		return simulation.Instance{Runners: []simulation.Runner{queue, orphans}, HandOver: func() any { return c.HandOver() }}
	}
}

// named are the pods that the status of a Job has named in uncountedTerminatedPods.
type named struct{ succeeded, failed sets.Set[types.UID] }

// jobWorld is a world with a Job.
type jobWorld struct {
	*simulation.World
	t     testing.TB
	fails int // how many of ten pods
	// named are the pods of each Job that its status has named.
	named map[types.UID]*named
	// freed are the pods that have lost the finalizer.
	freed sets.Set[types.UID]
	// lossy is set if lists may lack pods, or Jobs too.
	lossy bool
	// scaled is whether a Job was, which the cache may not show: what forms a gang depends on that.
	scaled bool
	// parallel is the largest number of pods that ever was to run at once.
	parallel int32
}

func (w *jobWorld) job() (*batchv1.Job, bool) {
	return simulation.Get[*batchv1.Job](w.World, "ns", "pi")
}

// kubelet does something with a pod.
func (w *jobWorld) kubelet(finish bool) bool {
	did := false
	for _, pod := range simulation.All[*corev1.Pod](w.World) {
		if !finish && w.Rand.IntN(3) > 0 {
			continue
		}
		if w.kubeletOf(pod, finish) {
			did = true
			if !finish {
				return true
			}
		}
	}
	return did
}

func (w *jobWorld) kubeletOf(pod *corev1.Pod, finish bool) bool {
	now := metav1.NewTime(w.Clock.Now().Truncate(time.Second))
	set := func(phase corev1.PodPhase) {
		w.Note("kubelet: %s is %s", pod.Name, phase)
		simulation.Change(w.World, pod, func(p *corev1.Pod) {
			p.Status.Phase = phase
			p.Spec.NodeName = "n"
			code := int32(0)
			if phase == corev1.PodFailed {
				code = int32(1 + w.Rand.IntN(4))
			}
			if phase != corev1.PodRunning {
				ended := &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: now}
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Terminated: ended}}}
				p.Status.Conditions = nil
				return
			}
			if w.Rand.IntN(2) == 0 {
				ready(p)
			}
		})
	}
	terminal := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case pod.DeletionTimestamp != nil && !terminal:
		switch w.Rand.IntN(4) {
		case 0:
			set(corev1.PodSucceeded)
		default:
			set(corev1.PodFailed)
		}
	case pod.DeletionTimestamp != nil && ptr.Deref(pod.DeletionGracePeriodSeconds, 0) > 0:
		w.Note("kubelet: %s is removed", pod.Name)
		w.Delete(pod, ptr.To[int64](0))
	case terminal || pod.DeletionTimestamp != nil:
		return false
	case pod.Status.Phase == "" || pod.Status.Phase == corev1.PodPending:
		set(corev1.PodRunning)
	default:
		if w.Rand.IntN(10) < w.fails {
			set(corev1.PodFailed)
		} else {
			set(corev1.PodSucceeded)
		}
	}
	return true
}

// admit checks that no more pods are created than were ever to run at once, and one for each index. While requests fail
// that may happen, if the caches are behind for long, and if a list lacks a pod, until its handlers have been called.
func (w *jobWorld) admit(o runtime.Object) {
	if job, ok := o.(*batchv1.Job); ok {
		w.parallel = max(w.parallel, *job.Spec.Parallelism)
	}
	pod, ok := o.(*corev1.Pod)
	if ok {
		w.admitToGang(pod)
	}
	if !ok || w.Faulty || w.lossy || w.IsLateWrite() {
		return
	}
	if job, ok := w.job(); ok {
		w.parallel = max(w.parallel, *job.Spec.Parallelism)
	}
	owner := &metav1.ObjectMeta{UID: metav1.GetControllerOf(pod).UID} // which may be gone
	active := int32(1)
	for _, other := range simulation.All[*corev1.Pod](w.World) {
		if !pods.IsActive(other) || !metav1.IsControlledBy(other, owner) {
			continue
		}
		active++
		if i := indexOf(pod); i != unknownIndex && i == indexOf(other) {
			w.t.Errorf("two pods of index %d", i)
		}
	}
	if active > w.parallel {
		w.t.Errorf("%d pods are active, of %d", active, w.parallel)
	}
}

// admitToGang checks that a pod is in the gang of its Job, if there is one.
func (w *jobWorld) admitToGang(pod *corev1.Pod) {
	job, ok := w.job()
	if !ok || w.scaled || !formsGang(job) || !metav1.IsControlledBy(pod, job) || index.GroupOf(pod) != "" {
		return
	}
	if _, ok := simulation.Get[*schedulingv1alpha2.Workload](w.World, "ns", workloadName(job)); ok {
		w.t.Errorf("pod %s is not in the gang of the Job", pod.Name)
	}
}

// namedBy returns the pods that the status of a Job has named up to now.
func (w *jobWorld) namedBy(job *batchv1.Job) *named {
	if w.named[job.UID] == nil {
		w.named[job.UID] = &named{sets.New[types.UID](), sets.New[types.UID]()}
	}
	all := w.named[job.UID]
	if uncounted := job.Status.UncountedTerminatedPods; uncounted != nil {
		all.succeeded.Insert(uncounted.Succeeded...)
		all.failed.Insert(uncounted.Failed...)
	}
	return all
}

// validate checks a status. A pod is counted once, after the status named it and it lost its finalizer. The succeeded
// indexes of an indexed Job are counted otherwise.
func (w *jobWorld) validate(old, new runtime.Object) error {
	if before, ok := old.(*corev1.Pod); ok {
		if after := new.(*corev1.Pod); isTracked(before) && !isTracked(after) {
			w.freed.Insert(before.UID)
		}
		return nil
	}
	was, ok := old.(*batchv1.Job)
	if !ok {
		return nil
	}
	w.parallel = max(w.parallel, ptr.Deref(was.Spec.Parallelism, 1))
	is := new.(*batchv1.Job)
	all := w.namedBy(was)
	succeeded, failed := all.succeeded.Intersection(w.freed).Len(), all.failed.Intersection(w.freed).Len()
	if int(is.Status.Failed) > failed || !isIndexed(is) && int(is.Status.Succeeded) > succeeded {
		w.t.Errorf("counts %d succeeded and %d failed pods, there were %d and %d",
			is.Status.Succeeded, is.Status.Failed, succeeded, failed)
	}
	if !isFinished(was) && isFinished(is) {
		w.ends(is)
	}
	if faults := faultsIn(was, new.(*batchv1.Job)); len(faults) > 0 {
		return errors.New(strings.Join(faults, ", "))
	}
	return nil
}

// ends checks that a Job is complete only with as many completions as it requires, and does not end while a pod exists
// that it must account for and that its cache lacks.
func (w *jobWorld) ends(job *batchv1.Job) {
	required, why := ptr.Deref(job.Spec.Completions, 1), trueCondition(job, batchv1.JobComplete)
	if !isIndexed(job) && why != nil && why.Reason == batchv1.JobReasonCompletionsReached && job.Status.Succeeded < required {
		w.t.Errorf("the Job is complete with %d of %d completions", job.Status.Succeeded, required)
	}
	for _, pod := range simulation.All[*corev1.Pod](w.World) {
		if w.Lacks(pod) && metav1.IsControlledBy(pod, job) && isTracked(pod) {
			w.t.Errorf("the Job ends, but pod %s of phase %s exists", pod.Name, pod.Status.Phase)
		}
	}
}

func randomJob(w *simulation.World) *batchv1.Job {
	n := w.Rand.IntN
	j := newJob(sized(int32(n(5)), int32(n(5))))
	j.UID, j.ResourceVersion = "", ""
	j.Spec.Selector.MatchLabels = map[string]string{"app": "pi"}
	j.Spec.Template.Labels = map[string]string{"app": "pi"}
	switch n(5) {
	case 0:
		sized(-1, int32(1+n(4)))(j)
	case 1:
		indexed(j)
	case 2:
		perIndex(int32(n(3)))(j)
		if n(2) == 0 {
			j.Spec.MaxFailedIndexes = ptr.To(int32(n(3)))
		}
	case 3:
		indexed(j)
		k := int32(1 + n(5))
		j.Spec.Completions, j.Spec.Parallelism = &k, ptr.To(k)
	}
	if isIndexed(j) && n(3) == 0 {
		rule := batchv1.SuccessPolicyRule{SucceededCount: ptr.To(int32(1 + n(3)))}
		j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{rule}}
	}
	if n(3) == 0 {
		rules := []batchv1.PodFailurePolicyRule{
			onExit(batchv1.PodFailurePolicyActionIgnore, 1), onExit(batchv1.PodFailurePolicyActionCount, 2),
		}
		if n(3) == 0 {
			rules = append(rules, onExit(batchv1.PodFailurePolicyActionFailJob, 3))
		}
		if hasBackoffPerIndex(j) {
			rules = append(rules, onExit(batchv1.PodFailurePolicyActionFailIndex, 4))
		}
		withFailurePolicy(rules...)(j)
		replacesFailed(j)
	} else if n(3) == 0 {
		replacesFailed(j)
	}
	if n(4) == 0 {
		suspended(j)
	}
	if n(6) == 0 {
		j.Spec.ActiveDeadlineSeconds = ptr.To(int64(30 + n(500)))
	}
	if !hasBackoffPerIndex(j) || n(3) == 0 {
		j.Spec.BackoffLimit = ptr.To(int32(n(7)))
	}
	return j
}

func (w *jobWorld) user() {
	job, ok := w.job()
	n := w.Rand.IntN
	if !ok {
		if n(2) == 0 {
			w.Create(randomJob(w.World))
		}
		return
	}
	switch n(10) {
	case 5:
		if job.Spec.PodFailurePolicy == nil {
			w.Note("user changes the replacement policy")
			simulation.Change(w.World, job, func(j *batchv1.Job) {
				j.Spec.PodReplacementPolicy = ptr.To([]batchv1.PodReplacementPolicy{batchv1.Failed, batchv1.TerminatingOrFailed}[n(2)])
			})
		}
	case 6:
		w.Note("user changes limits")
		simulation.Change(w.World, job, func(j *batchv1.Job) {
			j.Spec.BackoffLimit = ptr.To(int32(n(7)))
			if hasBackoffPerIndex(j) {
				j.Spec.MaxFailedIndexes = ptr.To(int32(n(3)))
			}
			if j.Spec.ActiveDeadlineSeconds = nil; n(3) == 0 {
				j.Spec.ActiveDeadlineSeconds = ptr.To(int64(30 + n(500)))
			}
		})
	case 0, 1:
		w.Note("user toggles suspend")
		simulation.Change(w.World, job, func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(!isSuspended(j)) })
	case 2:
		k := int32(n(6))
		w.Note("user scales to %d", k)
		w.scaled = true
		w.parallel = max(w.parallel, k, *job.Spec.Parallelism)
		simulation.Change(w.World, job, func(j *batchv1.Job) {
			if isIndexed(j) && ptr.Equal(j.Spec.Completions, j.Spec.Parallelism) && j.Spec.SuccessPolicy == nil {
				j.Spec.Completions = &k
			}
			j.Spec.Parallelism = &k
		})
	case 3:
		if n(4) == 0 {
			w.Delete(job, nil)
		}
	case 4:
		if all := simulation.All[*corev1.Pod](w.World); len(all) > 0 {
			if pod := all[n(len(all))]; pod.DeletionTimestamp == nil {
				w.Delete(pod, nil)
			}
		}
	}
}

// TestWhateverHappensTheJobEnds has pods fail and deleted, specs edited, requests fail and the controller restarted,
// while the caches are behind or incomplete. No status is refused, no pod is counted twice, none keeps its finalizer,
// and none is outside of the gang of its Job.
func TestWhateverHappensTheJobEnds(t *testing.T) {
	simulation.Run(t, 60, func(t *testing.T, w *simulation.World) {
		(&jobWorld{World: w, t: t, named: map[types.UID]*named{}, freed: sets.New[types.UID]()}).run(t)
	})
}

func (w *jobWorld) run(t *testing.T) {
	w.fails = w.Rand.IntN(8)
	w.Validate = w.validate
	w.Admit = w.admit
	cfg := defaults
	cfg.requireFresh = w.Rand.IntN(2) == 0
	cfg.resetStartTimeOfSuspended = w.Rand.IntN(3) > 0
	cfg.gangScheduling = w.OneIn(2)
	w.Start = startJobs(t, w.World, cfg)
	w.Create(randomJob(w.World))
	if w.lossy = w.OneIn(2); w.lossy {
		onlyPods := w.OneIn(2)
		w.Lossy = func(o runtime.Object) bool { _, ok := o.(*corev1.Pod); return ok || !onlyPods }
	}
	w.MayComeLate = simulation.AnyWrite
	w.Begin()
	w.Play(func() {
		if w.OneIn(3) {
			w.CollectGarbage()
		} else {
			w.kubelet(false)
		}
	}, w.user)
	w.fails = 1
	if job, ok := w.job(); ok {
		simulation.Change(w.World, job, func(j *batchv1.Job) {
			j.Spec.Suspend = ptr.To(false)
			if !isIndexed(j) || !ptr.Equal(j.Spec.Completions, j.Spec.Parallelism) {
				j.Spec.Parallelism = ptr.To(max(1, ptr.Deref(j.Spec.Parallelism, 1)))
			}
		})
	}
	w.Settle(12*time.Hour, func() bool { return w.CollectGarbage() || w.kubelet(true) })
	job, ok := w.job()
	if ok && !isFinished(job) {
		t.Errorf("the Job does not end: spec %+v, status %+v", job.Spec, job.Status)
	}
	for _, pod := range simulation.All[*corev1.Pod](w.World) {
		if isTracked(pod) {
			t.Errorf("pod %s keeps the finalizer, phase %s deleted %v", pod.Name, pod.Status.Phase, pod.DeletionTimestamp)
		}
		if !ok {
			t.Errorf("pod %s stays though the Job is gone", pod.Name)
		}
	}
}
