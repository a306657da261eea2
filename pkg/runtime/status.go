package runtime

import (
	"time"

	"k8s.io/component-base/version"

	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/pkg/runtime/supervisor"
)

// Status is what /statusz shows.
type Status struct {
	Started       time.Time           `json:"startTime"`
	Version       string              `json:"version"`
	Configuration ConfigurationStatus `json:"configuration"`
	Connection    ConnectionStatus    `json:"connection"`
	Leadership    LeadershipStatus    `json:"leadership"`
	Controllers   []supervisor.Status `json:"controllers"`
	Informers     []informers.Status  `json:"informers"`
	Reloads       []Reload            `json:"reloads,omitempty"`
}

// ConfigurationStatus is what is in force.
type ConfigurationStatus struct {
	File       string `json:"file"`
	Hash       string `json:"hash"`
	Generation uint64 `json:"generation"`
	// Rejected is why the file as it is now is not in force, empty if it is.
	Rejected string `json:"rejected,omitempty"`
}

// Status returns a snapshot of the process. What belongs to the runtime is of one moment;
// electors, controllers and caches are looked at after that, one by one: it may take time,
// and nobody waits for it.
func (r *Runtime) Status() Status {
	r.mu.Lock()
	s := Status{
		Started:       r.started,
		Version:       version.Get().GitVersion,
		Configuration: ConfigurationStatus{File: r.options.ConfigFile, Hash: r.hash, Generation: r.generation, Rejected: r.rejected},
		Connection:    r.connectionStatus(),
		Reloads:       append([]Reload(nil), r.history...),
	}
	leases, controllers, connection := r.leases, r.supervisor, r.connection
	r.mu.Unlock()

	s.Leadership = leadershipStatus(leases)
	if controllers != nil {
		s.Controllers = controllers.Status()
	}
	if connection != nil {
		s.Informers = connection.informers.Status()
	}
	return s
}

// Controllers returns a snapshot of every controller, sorted by name.
func (r *Runtime) Controllers() []supervisor.Status {
	r.mu.Lock()
	s := r.supervisor
	r.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.Status()
}
