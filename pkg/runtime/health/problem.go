package health

import (
	"sync"
	"time"

	"kcmd.dev/pkg/runtime/supervisor"
)

// A controller that was started again after a crash has recovered when it has run for as
// long as the pause before, within these bounds. Otherwise one that crashes as soon as it
// starts would seem healthy each time.
const shortestProbation, longestProbation = time.Second, 30 * time.Second

// longestBackoff is the longest pause between a crash and the next start, with a margin.
const longestBackoff = 6 * time.Minute

// Problem describes what is wrong with a controller, empty if nothing is.
func Problem(s supervisor.Status, now time.Time) string {
	if ok, why := s.Healthy(); !ok {
		return why
	}
	if s.State != supervisor.Running || s.LastErrorTime.IsZero() || !s.Started.After(s.LastErrorTime) {
		return ""
	}
	pause := s.Started.Sub(s.LastErrorTime)
	probation := min(max(pause, shortestProbation), longestProbation)
	if pause < longestBackoff && now.Sub(s.Started) < probation {
		return "restarted after: " + s.LastError
	}
	return ""
}

// problems remembers what is wrong with every controller for a moment: a health page asks
// once per controller, and anybody may ask for a health page.
type problems struct {
	mu    sync.Mutex // guards what follows
	at    time.Time
	known map[string]string
}

// knownFor is how long a snapshot of the controllers is reused.
const knownFor = 100 * time.Millisecond

// now returns what is wrong, by controller.
func (p *problems) now(o *Options) map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := o.Clock.Now()
	if p.known != nil && now.Sub(p.at) < knownFor && !now.Before(p.at) {
		return p.known
	}
	p.at, p.known = now, map[string]string{}
	for _, s := range o.Controllers() {
		if why := Problem(s, now); why != "" {
			p.known[s.Name] = why
		}
	}
	return p.known
}
