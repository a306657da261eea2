package runtime

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"

	"kcmd.dev/pkg/runtime/supervisor"
)

// What the three health pages promise:
//
//   - /livez fails when only a new process can help: the process holds a lease and does not
//     get to renew it, or a change of the configuration or the leadership never ends.
//     It is what a kubelet restarts on.
//   - /readyz fails while the process could not take over work, or does not do all of it.
//   - /healthz has one check for each controller besides. It is for people and alerts. A
//     controller that fails is isolated and tried again; ending the process on its account
//     would take all others with it.
//
// A rejected edit fails none of them: the configuration in force is good.
func (r *Runtime) healthChecks() []healthz.HealthChecker {
	return append([]healthz.HealthChecker{r.leaderCheck(), r.candidateCheck(), r.pulseCheck(), r.watchCheck()}, r.controllerChecks()...)
}

func (r *Runtime) liveChecks() []healthz.HealthChecker {
	return []healthz.HealthChecker{healthz.PingHealthz, r.leaderCheck(), r.pulseCheck()}
}

func (r *Runtime) readyChecks() []healthz.HealthChecker {
	return []healthz.HealthChecker{r.catalogCheck(), r.cacheCheck(), r.controllersCheck(), r.pulseCheck(), r.watchCheck()}
}

// stuckAfter is how long, besides draining, one change may take before the goroutine that
// carries changes out counts as stuck. A change of the lease may drain twice.
const stuckAfter = 2 * time.Minute

// pulseCheck fails if a reload or a change of the leadership never ends.
func (r *Runtime) pulseCheck() healthz.HealthChecker {
	return healthz.NamedCheck("config-reload", func(*http.Request) error {
		limit := stuckAfter
		r.mu.Lock()
		if r.document != nil {
			limit += 2 * r.document.Config.Reload.DrainTimeout.Duration
		}
		r.mu.Unlock()
		return r.pulse.check(limit)
	})
}

// watchCheck fails if edits of the configuration file are not noticed any more.
func (r *Runtime) watchCheck() healthz.HealthChecker {
	return healthz.NamedCheck("config-watch", func(*http.Request) error {
		if r.unwatched.Load() {
			return errors.New("the configuration file is not watched any more")
		}
		return nil
	})
}

// controllerChecks has one check per controller, which fails while it is stuck or crashes.
func (r *Runtime) controllerChecks() []healthz.HealthChecker {
	var checks []healthz.HealthChecker
	for _, d := range r.options.Descriptors {
		checks = append(checks, healthz.NamedCheck(d.Name, func(*http.Request) error {
			if why := r.ailments.now(r)[d.Name]; why != "" {
				return errors.New(why)
			}
			return nil
		}))
	}
	return checks
}

// controllersCheck fails while any controller is not healthy.
func (r *Runtime) controllersCheck() healthz.HealthChecker {
	return healthz.NamedCheck("controllers", func(*http.Request) error {
		ailing := r.ailments.now(r)
		for _, d := range r.options.Descriptors {
			if why := ailing[d.Name]; why != "" {
				return fmt.Errorf("%s: %s", d.Name, why)
			}
		}
		return nil
	})
}

// A controller that was started again after a crash has recovered when it has run for as
// long as the pause before, within these bounds. Otherwise one that crashes as soon as it
// starts would seem healthy each time.
const shortestProbation, longestProbation = time.Second, 30 * time.Second

// longestBackoff is the longest pause between a crash and the next start, with a margin.
const longestBackoff = 6 * time.Minute

// ailment says what is wrong with a controller, empty if nothing is.
func ailment(s supervisor.Status, now time.Time) string {
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

// ailments remembers what is wrong with every controller for a moment: a health page asks
// once per controller, and anybody may ask for a health page.
type ailments struct {
	mu    sync.Mutex
	at    time.Time
	known map[string]string
}

// ailmentsFor is how long what is known about the controllers is good.
const ailmentsFor = 100 * time.Millisecond

// now returns what is wrong, by controller.
func (a *ailments) now(r *Runtime) map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := r.options.Clock.Now()
	if a.known != nil && now.Sub(a.at) < ailmentsFor && !now.Before(a.at) {
		return a.known
	}
	a.at, a.known = now, map[string]string{}
	for _, s := range r.Controllers() {
		if why := ailment(s, now); why != "" {
			a.known[s.Name] = why
		}
	}
	return a.known
}

// catalogCheck fails until the API server has been reached.
func (r *Runtime) catalogCheck() healthz.HealthChecker {
	return healthz.NamedCheck("api-discovery", func(*http.Request) error {
		r.mu.Lock()
		c := r.connection
		r.mu.Unlock()
		if c == nil || !c.catalog.Complete() {
			return errors.New("the API server has not been reached yet")
		}
		return nil
	})
}

// cacheCheck fails while a cache that a controller reads is not filled.
func (r *Runtime) cacheCheck() healthz.HealthChecker {
	return healthz.NamedCheck("informer-sync", func(*http.Request) error {
		r.mu.Lock()
		c := r.connection
		r.mu.Unlock()
		if c == nil {
			return errors.New("there are no caches yet")
		}
		if unsynced := c.informers.Unsynced(); len(unsynced) > 0 {
			return fmt.Errorf("%d informers not synced yet: %v", len(unsynced), unsynced)
		}
		return nil
	})
}
