package cronjob

import (
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

func (s *starts) has(cj *batchv1.CronJob, scheduled time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of[reconcile.KeyOf(cj)]
	return known.uid == cj.UID && slices.ContainsFunc(known.times, scheduled.Equal)
}

// recorded drops the times up to the last one in a status that was stored.
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

func (s *starts) forget(cj types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, cj)
}
