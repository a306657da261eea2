package job

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// finishedMarks remembers the Jobs that this process has finished and the cache may not
// show as such: they must not be worked on again.
type finishedMarks struct {
	mu   sync.Mutex
	jobs map[types.NamespacedName]types.UID
}

func (f *finishedMarks) set(job types.NamespacedName, uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs[job] = uid
}

// get returns the UID of the Job with the name that was finished, empty if none was.
func (f *finishedMarks) get(job types.NamespacedName) types.UID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.jobs[job]
}

// drop forgets a Job. An empty UID means whatever Job had the name.
func (f *finishedMarks) drop(job types.NamespacedName, uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if uid == "" || f.jobs[job] == uid {
		delete(f.jobs, job)
	}
}

func (f *finishedMarks) copy() map[types.NamespacedName]types.UID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.jobs)
}

func (f *finishedMarks) adopt(jobs map[types.NamespacedName]types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for job, uid := range jobs {
		if _, known := f.jobs[job]; !known {
			f.jobs[job] = uid
		}
	}
}
