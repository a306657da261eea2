package job

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/expectations"
)

// finishedMarks remembers the Jobs that this process has finished and the cache may not
// show as such: they must not be worked on again. A Job that is not shown as finished five
// minutes later was brought back by a backup, unfinished.
type finishedMarks struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	jobs map[types.NamespacedName]finishedMark
}

type finishedMark struct {
	uid types.UID
	at  time.Time
}

func (f *finishedMarks) set(job types.NamespacedName, uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs[job] = finishedMark{uid: uid, at: f.clock.Now()}
}

// get returns the UID of the Job with the name that was finished, empty if none was.
func (f *finishedMarks) get(job types.NamespacedName) types.UID {
	f.mu.Lock()
	defer f.mu.Unlock()
	mark := f.jobs[job]
	if f.clock.Since(mark.at) >= expectations.Timeout {
		delete(f.jobs, job)
		return ""
	}
	return mark.uid
}

// drop forgets a Job. An empty UID means whatever Job had the name.
func (f *finishedMarks) drop(job types.NamespacedName, uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if uid == "" || f.jobs[job].uid == uid {
		delete(f.jobs, job)
	}
}

func (f *finishedMarks) copy() map[types.NamespacedName]finishedMark {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.jobs)
}

func (f *finishedMarks) adopt(jobs map[types.NamespacedName]finishedMark) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for job, mark := range jobs {
		if _, known := f.jobs[job]; !known {
			f.jobs[job] = mark
		}
	}
}
