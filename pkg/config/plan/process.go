package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/locks"
)

// part reads what one part of the process depends on, as a value to be compared.
type part func(*Config) any

// wide are the parts that every controller depends on, and what a change of them does besides
// restarting all.
func wide() []struct {
	effect string
	read   part
} {
	return []struct {
		effect string
		read   part
	}{
		{"rebuilds the clients", func(c *Config) any { return SourceOf(c) }},
		{"starts a new leadership term", func(c *Config) any { return locks.ElectionOf(c) }},
	}
}

// inPlace are the parts that the running process takes over as they are. All of them read an
// effective configuration.
func inPlace() []part {
	return []part{
		func(c *Config) any {
			return [2]any{ptr.Deref(c.ClientConnection.QPS, 0), c.ClientConnection.EffectiveBurst()}
		},
		func(c *Config) any {
			e := c.LeaderElection
			return []any{e.LeaseDuration, e.RenewDeadline, e.RetryPeriod, e.Standby, e.Spread}
		},
		// The object that events of the process itself refer to.
		func(c *Config) any {
			return locks.Lease{Namespace: c.LeaderElection.ResourceNamespace, Name: c.LeaderElection.ResourceName}
		},
		func(c *Config) any { return c.Reload },
		func(c *Config) any { return c.ControllerStartInterval },
		func(c *Config) any { return c.Serving },
		func(c *Config) any { return c.Metrics },
		func(c *Config) any { return c.Logging },
		func(c *Config) any { return c.DeletionBreaker },
		// Shown, and reported to the API server by candidates for a lease.
		func(c *Config) any { return [2]string{c.EmulatedVersion, c.MinCompatibilityVersion} },
		processGates,
	}
}

// processGates are the gates that the process itself reads.
func processGates(c *Config) any {
	var on [3]bool
	for i, name := range []string{gates.LoggingAlphaOptions, gates.LoggingBetaOptions, gates.RemoteRequestHeaderUID} {
		on[i] = gates.Enabled(c, name)
	}
	return on
}

// Resync is how often a controller reconciles every object again, which changes in place.
type Resync struct {
	// Period is the time between two of these resyncs; 0 means never.
	Period time.Duration
	// Inherited says that it is that of all controllers, which each of them varies.
	Inherited bool
}

// ResyncOf is how often a controller reconciles every object again.
func ResyncOf(cfg *Config, controller string) Resync {
	return resync(cfg, cfg.ResyncPeriodOf(controller))
}

func resync(cfg *Config, own *metav1.Duration) Resync {
	period, inherited := cfg.ResyncPeriod(own)
	return Resync{Period: period, Inherited: inherited && period != 0}
}

// resyncs is how often each of some controllers reconciles every object again.
func resyncs(controllers map[string]bool) part {
	return func(cfg *Config) any {
		var all []Resync
		for _, c := range cfg.Controllers.All() {
			if controllers[c.Name] {
				all = append(all, resync(cfg, c.ResyncPeriod))
			}
		}
		return all
	}
}

// pauses are the namespaces in which each of some controllers is paused, and all are.
func pauses(controllers map[string]bool) part {
	return func(cfg *Config) any {
		all := [][]string{cfg.PausedNamespacesOf("")}
		for _, c := range cfg.Controllers.All() {
			if controllers[c.Name] {
				all = append(all, cfg.PausedNamespacesOf(c.Name))
			}
		}
		return all
	}
}

// lease is what a lock depends on that a Lease carries.
type lease struct {
	key    locks.Key
	source Source
}

// leasesOf are the leases that a process contends for, by the names of their locks.
func leasesOf(cfg *Config) map[string]lease {
	all := map[string]lease{}
	if !locks.ElectionOf(cfg).Elect {
		return all
	}
	for _, l := range locks.All(cfg) {
		all[l.Name] = lease{key: locks.KeyOf(cfg, l.Name), source: SourceOf(cfg)}
	}
	return all
}
