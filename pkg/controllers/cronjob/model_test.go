package cronjob

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with a CronJob.
type model struct {
	*simulation.World
	t *testing.T
	c *cronJobController
	// started has all Jobs that were created.
	started map[string]bool
	// deleted has those that the user has deleted.
	deleted []string
	// again has the Jobs that were created once more, late.
	again map[types.UID]bool
	// forbid is whether no Job may run beside another.
	forbid bool
	// wall is the clock of the process.
	wall *simulation.Wall
}

func (m *model) cronJob() (*batchv1.CronJob, bool) {
	return simulation.Get[*batchv1.CronJob](m.World, "ns", "cj")
}

func (m *model) admit(o runtime.Object) {
	job, ok := o.(*batchv1.Job)
	if !ok {
		return
	}
	ref := metav1.GetControllerOf(job)
	if cj, ok := m.cronJob(); !ok || cj.UID != ref.UID {
		return // it is gone, which the cache does not show yet
	}
	if m.started[idOf(job)] && m.IsLateWrite() {
		m.again[job.UID] = true // its Job has run and was deleted: a create has no precondition that could prevent it
		return
	}
	if m.started[idOf(job)] {
		m.t.Errorf("%s is created again", job.Name)
	}
	m.started[idOf(job)] = true
	if !m.forbid {
		return
	}
	for _, other := range simulation.All[*batchv1.Job](m.World) {
		owner := metav1.GetControllerOf(other)
		isRunning := howEnded(other) == "" && other.DeletionTimestamp == nil && !m.again[other.UID]
		if owner != nil && owner.UID == ref.UID && isRunning {
			m.t.Errorf("%s is created while %s runs", job.Name, other.Name)
		}
	}
}

// maxAhead is how much the clock of the process may be ahead.
const maxAhead = 20 * time.Minute

// idOf is what tells the Jobs of a CronJob and of another one of its name apart.
func idOf(job *batchv1.Job) string { return fmt.Sprint(metav1.GetControllerOf(job).UID, job.Name) }

// finish has Jobs finish, and garbage be collected.
func (m *model) finish(all bool) bool {
	did := m.CollectGarbage()
	for _, job := range simulation.All[*batchv1.Job](m.World) {
		if howEnded(job) != "" || !all && !m.OneIn(4) {
			continue
		}
		how := batchv1.JobComplete
		if m.OneIn(4) {
			how = batchv1.JobFailed
		}
		m.Note("job %s: %s", job.Name, how)
		simulation.Change(m.World, job, func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue}}
			if how == batchv1.JobComplete {
				j.Status.CompletionTime = &metav1.Time{Time: m.Clock.Now().Truncate(time.Second)}
			}
		})
		did = true
	}
	return did
}

func (m *model) randomCronJob() *batchv1.CronJob {
	n := m.Rand.IntN
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cj"}}
	cj.Spec.Schedule = []string{"* * * * *", "*/5 * * * *", "@every 2m", "0 * * * *"}[n(4)]
	cj.Spec.ConcurrencyPolicy = []batchv1.ConcurrencyPolicy{
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent,
	}[n(3)]
	if n(3) == 0 {
		cj.Spec.StartingDeadlineSeconds = ptr.To(int64(20 + n(300)))
	}
	cj.Spec.SuccessfulJobsHistoryLimit, cj.Spec.FailedJobsHistoryLimit = ptr.To(int32(n(3))), ptr.To(int32(n(3)))
	return cj
}

func (m *model) user() {
	n := m.Rand.IntN
	cj, ok := m.cronJob()
	if !ok {
		created := m.randomCronJob()
		m.forbid = created.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent
		m.Create(created)
		return
	}
	switch n(7) {
	case 0:
		m.Note("user toggles suspend")
		suspend := !ptr.Deref(cj.Spec.Suspend, false)
		simulation.Change(m.World, cj, func(c *batchv1.CronJob) { c.Spec.Suspend = &suspend })
	case 1:
		if n(4) == 0 {
			m.Delete(cj, nil)
		}
	case 2:
		if all := simulation.All[*batchv1.Job](m.World); len(all) > 0 && !m.forbid {
			job := all[n(len(all))]
			m.Delete(job, nil)
			if m.isKnown(cj, job) {
				m.deleted = append(m.deleted, idOf(job))
			} else {
				delete(m.started, idOf(job)) // nobody knows that it was created
			}
		}
	case 3:
		other := m.randomCronJob()
		m.Note("user sets schedule %s", other.Spec.Schedule)
		simulation.Change(m.World, cj, func(c *batchv1.CronJob) { c.Spec.Schedule = other.Spec.Schedule })
	case 4:
		m.wall.Ahead = time.Duration(n(3)*n(int(maxAhead/time.Second))) * time.Second / 2
		m.Note("the clock is %v ahead", m.wall.Ahead)
	}
}

// forget is for an instance that was killed: what it had started, and was yet to record, the next one finds only if a
// list shows it.
func (m *model) forget() {
	for _, job := range m.deleted {
		delete(m.started, job)
	}
	cj, ok := m.cronJob()
	if !ok {
		return
	}
	for _, job := range simulation.All[*batchv1.Job](m.World) {
		if isUnrecorded(cj, job) {
			m.again[job.UID] = true
		}
	}
}

// isKnown reports whether the time of a Job is recorded, or the controller remembers that it was started.
func (m *model) isKnown(cj *batchv1.CronJob, job *batchv1.Job) bool {
	return !isUnrecorded(cj, job) || m.c.starts.has(cj, scheduledTime(cj, job))
}

// TestWhateverHappensNoTimeIsRunTwice has Jobs fail, schedules edited and suspended, requests fail and the controller
// restarted, while the caches are behind or incomplete. Nothing runs beside another Job if that is forbidden, and in
// the end the schedule is followed.
func TestWhateverHappensNoTimeIsRunTwice(t *testing.T) {
	simulation.Run(t, 60, func(t *testing.T, w *simulation.World) {
		(&model{World: w, t: t, started: map[string]bool{}, again: map[types.UID]bool{}, wall: simulation.NewWall(w)}).run(t)
	})
}

func (m *model) run(t *testing.T) {
	m.Admit = m.admit
	m.Start = func(env controller.Env, left any) simulation.Instance {
		env.Clock = m.wall
		if left == nil {
			m.DropLate() // nobody knows of the Jobs that an instance which was killed has sent
			m.forget()
		}
		c := must.Get(newController(env, config{concurrentSyncs: 1}))(t)
		m.c = c
		if left != nil {
			c.takeOver(left.(handover))
		}
		instance := simulation.StartOwners(m.World, c.owners, nil)
		instance.HandOver = func() any { return c.HandOver() }
		return instance
	}
	m.MayBeLossy(2)
	m.user()
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Hasty = []int{0, 3}[m.Rand.IntN(2)]
	m.Play(func() { m.finish(false) }, m.user)
	m.Faulty, m.wall.Ahead = false, 0
	m.Drain()
	cj, ok := m.cronJob()
	if !ok {
		return
	}
	suspend := func(yes bool) {
		cj, _ = m.cronJob()
		simulation.Change(m.World, cj, func(c *batchv1.CronJob) { c.Spec.Suspend = &yes })
	}
	suspend(false)
	before := len(m.started)
	m.Settle(65*time.Minute+maxAhead, func() bool { return m.finish(true) })
	if len(m.started) == before {
		t.Errorf("nothing runs any more: %+v", cj.Status)
	}
	suspend(true)
	m.Settle(time.Minute, func() bool { return m.finish(true) })
	cj, _ = m.cronJob()
	if len(cj.Status.Active) > 0 {
		t.Errorf("active: %+v", cj.Status.Active)
	}
	succeeded, failed := 0, 0
	for _, job := range simulation.All[*batchv1.Job](m.World) {
		if howEnded(job) == batchv1.JobFailed {
			failed++
		} else {
			succeeded++
		}
	}
	if succeeded > int(*cj.Spec.SuccessfulJobsHistoryLimit) || failed > int(*cj.Spec.FailedJobsHistoryLimit) {
		t.Errorf("%d and %d Jobs stay", succeeded, failed)
	}
}
