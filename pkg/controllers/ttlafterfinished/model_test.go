package ttlafterfinished

import (
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world in which Jobs come and go under the same names.
type model struct {
	*simulation.World
	t *testing.T
}

// isDue reports whether a Job is to be deleted now.
func (m *model) isDue(job *batchv1.Job) bool {
	ttl := job.Spec.TTLSecondsAfterFinished
	if ttl == nil || job.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		isEnd := c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed
		return isEnd && m.Clock.Since(c.LastTransitionTime.Time) >= time.Duration(*ttl)*time.Second
	})
}

// deleted checks a deletion by the controller.
func (m *model) deleted(object runtime.Object) {
	if job := object.(*batchv1.Job); !m.isDue(job) {
		m.t.Errorf("job %s %s is deleted: %+v", job.Name, job.UID, job)
	}
}

// run has Jobs finish, and what is deleted in the foreground end.
func (m *model) run() {
	for _, job := range simulation.All[*batchv1.Job](m.World) {
		switch {
		case !m.OneIn(3):
		case job.DeletionTimestamp != nil:
			simulation.Change(m.World, job, func(j *batchv1.Job) { j.Finalizers = nil })
		case len(job.Status.Conditions) == 0:
			m.Note("job %s finishes", job.Name)
			simulation.Change(m.World, job, func(j *batchv1.Job) {
				how := []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed}[m.Rand.IntN(2)]
				skew := time.Duration(m.Rand.IntN(20)-10) * time.Second
				j.Status.Conditions = []batchv1.JobCondition{{
					Type: how, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(m.Clock.Now().Add(skew)),
				}}
			})
		}
	}
}

func (m *model) ttl() *int32 {
	return []*int32{nil, ptr.To[int32](0), ptr.To[int32](20), ptr.To[int32](120), ptr.To[int32](9000)}[m.Rand.IntN(5)]
}

func (m *model) user() {
	name := fmt.Sprint("j", m.Rand.IntN(4))
	job, ok := simulation.Get[*batchv1.Job](m.World, "ns", name)
	switch {
	case !ok:
		m.Create(&batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			Spec:       batchv1.JobSpec{TTLSecondsAfterFinished: m.ttl()},
		})
	case m.OneIn(3):
		m.Delete(job, nil)
	default:
		m.Note("user changes the time to live of %s", name)
		ttl := m.ttl()
		simulation.Change(m.World, job, func(j *batchv1.Job) { j.Spec.TTLSecondsAfterFinished = ttl })
	}
}

// TestWhateverHappensAJobLivesForItsTime has Jobs deleted, created again and given another time to live, requests fail
// and the controller restarted, while the cache is behind.
func TestWhateverHappensAJobLivesForItsTime(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		m := &model{World: w, t: t}
		w.Deleted = m.deleted
		w.Start = func(env controller.Env, _ any) simulation.Instance {
			c := must.Get(newController(env, config{workers: 1}))(t)
			queue := simulation.NewQueue(w, c.reconcile)
			c.queue = queue
			return simulation.Instance{Runners: []simulation.Runner{queue}}
		}
		w.MayComeLate = simulation.AnyWrite
		w.Begin()
		w.Hasty = []int{0, 3}[w.Rand.IntN(2)]
		w.MayBeLossy(3)
		w.Play(func() {
			m.run()
			if w.OneIn(3) {
				m.user()
			}
		}, m.user)
		w.Clock.Step(3 * time.Hour) // most Jobs are due at once, with whatever trouble there is
		w.Drain()
		w.Settle(3*time.Hour, nil)
		for _, job := range simulation.All[*batchv1.Job](w) {
			if m.isDue(job) {
				t.Errorf("job %s stays: %+v", job.Name, job)
			}
		}
	})
}
