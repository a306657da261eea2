package cronjob

import (
	"maps"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// starts are the scheduled times whose Jobs were created, but that the stored status of their CronJobs is not known to
// show. The name of a Job keeps its time from being run again only as long as the Job exists: one that has finished may
// be deleted, because its time to live is over for instance, before its time could be recorded.
type starts struct {
	mu sync.Mutex
	of map[types.NamespacedName]startsOf
}

// startsOf are those of one CronJob.
type startsOf struct {
	uid   types.UID
	times []time.Time
}

func newStarts() *starts { return &starts{of: map[types.NamespacedName]startsOf{}} }

// add adds a time. What is known of an earlier CronJob of the name is forgotten.
func (s *starts) add(cj *batchv1.CronJob, scheduled time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of[reconcile.KeyOf(cj)]
	if known.uid != cj.UID {
		known = startsOf{uid: cj.UID}
	}
	if !slices.ContainsFunc(known.times, scheduled.Equal) {
		known.times = append(slices.Clone(known.times), scheduled)
	}
	s.of[reconcile.KeyOf(cj)] = known
}

// has reports whether a time is among them, or another one that a Job of the same name was created for.
func (s *starts) has(cj *batchv1.CronJob, scheduled time.Time) bool {
	return slices.ContainsFunc(s.all(cj), func(t time.Time) bool { return jobName(cj, t) == jobName(cj, scheduled) })
}

// all returns the times of a CronJob.
func (s *starts) all(cj *batchv1.CronJob) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of[reconcile.KeyOf(cj)]
	if known.uid != cj.UID {
		return nil
	}
	return known.times // replaced when they change
}

// recorded drops the times up to the last one in the status of a CronJob, as it is stored.
func (s *starts) recorded(cj *batchv1.CronJob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, last := reconcile.KeyOf(cj), cj.Status.LastScheduleTime
	known, found := s.of[key]
	if !found || known.uid != cj.UID || last == nil {
		return
	}
	known.times = slices.DeleteFunc(slices.Clone(known.times), func(t time.Time) bool { return !t.After(last.Time) })
	if s.of[key] = known; len(known.times) == 0 {
		delete(s.of, key)
	}
}

// forget drops those of any CronJob of a name.
func (s *starts) forget(cronJob types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, cronJob)
}

// copy returns all of them, to be handed over.
func (s *starts) copy() map[types.NamespacedName]startsOf {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.of) // the times are replaced when they change
}

// takeOver adds those of the predecessor. Events may have added some already.
func (s *starts) takeOver(left map[types.NamespacedName]startsOf) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cronJob, was := range left {
		known, found := s.of[cronJob]
		switch {
		case !found:
			s.of[cronJob] = was
		case known.uid == was.uid:
			s.of[cronJob] = startsOf{uid: was.uid, times: slices.Concat(was.times, known.times)}
		}
	}
}
