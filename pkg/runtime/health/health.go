package health

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/supervisor"
)

// Leadership is what the checks need to know about the locks of the process.
type Leadership interface {
	// CheckRenewal fails if this process should renew a lease and does not manage to.
	CheckRenewal(*http.Request) error
	// CheckCandidate fails while the API server cannot choose this process as the leader.
	CheckCandidate(*http.Request) error
	// CheckClaims fails while nothing is started under a lease because what other processes run is not known, or while
	// these may not see what this one runs.
	CheckClaims(*http.Request) error
}

// Connection is what the checks need to know about the connection to the API server.
type Connection interface {
	// Reached reports whether discovery has succeeded.
	Reached() bool
	// Unsynced are the caches that controllers read and that are not filled.
	Unsynced() []string
}

// Options are the sources of the checks. All of them are required, and must be safe for
// concurrent use.
type Options struct {
	// Names are those of all controllers.
	Names []string
	// Controllers returns a snapshot of them.
	Controllers func() []supervisor.Status
	Leadership  Leadership
	// Connection is the one in force, nil before there is one.
	Connection func() Connection
	// Progress fails if a change of the configuration or of the leadership never ends.
	Progress func() error
	// Watched reports whether edits of the configuration file are noticed.
	Watched func() bool
	Clock   clock.PassiveClock
}

// Checks are the checks of the health pages.
type Checks struct {
	options  Options
	problems problems
}

// New makes the checks.
func New(o Options) *Checks { return &Checks{options: o} }

// Health are the checks of /healthz.
func (c *Checks) Health() []healthz.HealthChecker {
	shared := []healthz.HealthChecker{c.renewal(), c.candidate(), c.claims(), c.progress(), c.watch()}
	return append(shared, c.eachController()...)
}

// Live are the checks of /livez.
func (c *Checks) Live() []healthz.HealthChecker {
	return []healthz.HealthChecker{healthz.PingHealthz, c.renewal(), c.progress()}
}

// Ready are the checks of /readyz.
func (c *Checks) Ready() []healthz.HealthChecker {
	return []healthz.HealthChecker{c.catalog(), c.caches(), c.controllers(), c.claims(), c.progress(), c.watch()}
}

func (c *Checks) renewal() healthz.HealthChecker {
	return healthz.NamedCheck(election.HealthCheckName, c.options.Leadership.CheckRenewal)
}

func (c *Checks) candidate() healthz.HealthChecker {
	return healthz.NamedCheck(election.CandidateCheckName, c.options.Leadership.CheckCandidate)
}

// claims fails while this process holds a lease and does not work because of the claims of others, or is not seen by
// them.
func (c *Checks) claims() healthz.HealthChecker {
	return healthz.NamedCheck("lease-claims", c.options.Leadership.CheckClaims)
}

// progress fails if a reload or a change of the leadership never ends.
func (c *Checks) progress() healthz.HealthChecker {
	return healthz.NamedCheck("config-reload", func(*http.Request) error { return c.options.Progress() })
}

// watch fails if edits of the configuration file are not noticed any more.
func (c *Checks) watch() healthz.HealthChecker {
	return healthz.NamedCheck("config-watch", func(*http.Request) error {
		if !c.options.Watched() {
			return errors.New("the configuration file is no longer watched")
		}
		return nil
	})
}

// eachController has one check per controller, which fails while it is stuck or crashes.
func (c *Checks) eachController() []healthz.HealthChecker {
	var checks []healthz.HealthChecker
	for _, name := range c.options.Names {
		checks = append(checks, healthz.NamedCheck(name, func(*http.Request) error {
			if why := c.problems.now(&c.options)[name]; why != "" {
				return errors.New(why)
			}
			return nil
		}))
	}
	return checks
}

// controllers fails while any controller is not healthy.
func (c *Checks) controllers() healthz.HealthChecker {
	return healthz.NamedCheck("controllers", func(*http.Request) error {
		problems := c.problems.now(&c.options)
		for _, name := range c.options.Names {
			if why := problems[name]; why != "" {
				return fmt.Errorf("%s: %s", name, why)
			}
		}
		return nil
	})
}

// catalog fails until the API server has been reached.
func (c *Checks) catalog() healthz.HealthChecker {
	return healthz.NamedCheck("api-discovery", func(*http.Request) error {
		if conn := c.options.Connection(); conn == nil || !conn.Reached() {
			return errors.New("the API server has not been reached yet")
		}
		return nil
	})
}

// caches fails while a cache that a controller reads is not filled.
func (c *Checks) caches() healthz.HealthChecker {
	return healthz.NamedCheck("informer-sync", func(*http.Request) error {
		conn := c.options.Connection()
		if conn == nil {
			return errors.New("there are no caches yet")
		}
		if unsynced := conn.Unsynced(); len(unsynced) > 0 {
			return fmt.Errorf("%d informers not synced yet: %v", len(unsynced), unsynced)
		}
		return nil
	})
}
