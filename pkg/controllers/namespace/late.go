package namespace

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/requests"
)

// lateDeletions are the namespaces of which the deletion of a collection had no answer. The API server may execute it
// for some time, whatever a cache shows of the namespace meanwhile, so they are kept until then, and handed over.
type lateDeletions struct {
	mu    sync.Mutex
	until map[types.UID]time.Time
}

func newLateDeletions() *lateDeletions { return &lateDeletions{until: map[types.UID]time.Time{}} }

func (d *lateDeletions) add(namespace types.UID, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for known, until := range d.until {
		if until.Before(now) {
			delete(d.until, known)
		}
	}
	d.until[namespace] = now.Add(requests.LateWithin)
}

// rest returns for how long the deletion of a collection of a namespace may still be executed; zero or less if there is
// none.
func (d *lateDeletions) rest(namespace types.UID, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return min(d.until[namespace].Sub(now), requests.LateWithin) // a clock that was set back does not make it longer
}
