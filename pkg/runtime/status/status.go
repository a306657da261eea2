package status

import (
	"slices"
	"time"

	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/runtime/breaker"
	"kcmd.dev/pkg/runtime/connection"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/pausing"
	"kcmd.dev/pkg/runtime/supervisor"
)

// Status is a snapshot of the process, which /statusz shows.
type Status struct {
	Started       time.Time           `json:"startTime"`
	Version       string              `json:"version"`
	Configuration Configuration       `json:"configuration"`
	Connection    connection.Status   `json:"connection"`
	Leadership    leadership.Status   `json:"leadership"`
	Pauses        []pausing.Pause     `json:"pauses,omitempty"`
	Deletions     *breaker.Status     `json:"deletions,omitempty"`
	Controllers   []supervisor.Status `json:"controllers"`
	Informers     []informers.Status  `json:"informers"`
	Reloads       []Reload            `json:"reloads,omitempty"`
	// Past is the work of the last minutes, which only the page shows.
	Past []Sample `json:"-"`
}

// Behind names the kinds of which a cache that is in use does not hold what it should.
func (s *Status) Behind() []string {
	var behind []string
	for _, i := range s.Informers {
		if i.Synced && i.LastError != "" && i.Refs > 0 {
			behind = append(behind, i.Name())
		}
	}
	return slices.Compact(behind) // informers are sorted by kind
}

// Configuration is what is in force.
type Configuration struct {
	File       string `json:"file"`
	Hash       string `json:"hash"`
	Generation uint64 `json:"generation"`
	// Rejected is why the current content of the file is not in force, empty if it is.
	Rejected string `json:"rejected,omitempty"`
	// LastGood is set while the configuration in force is not that of the file, with which the
	// process could not start, but the last good one.
	LastGood *LastGood `json:"lastGood,omitempty"`
	// NotKept is why the configuration in force is not kept as the last good one, empty if it is
	// or is not to be.
	NotKept string `json:"notKept,omitempty"`
}

// LastGood is a configuration that was kept when it came into force.
type LastGood struct {
	// File is where it is kept.
	File string `json:"file"`
	// At is when it came into force, Program the version of the program in which it did.
	At      time.Time `json:"at"`
	Program string    `json:"program"`
}

// Deviation is a part of the process to which a reload did something that its Plan does not
// have.
type Deviation struct {
	// Subject is a controller, "lease" and the lock that it carries, or the connection.
	Subject string      `json:"subject"`
	Planned plan.Action `json:"planned"`
	Done    plan.Action `json:"done"`
	// Because is a reason that the Plan cannot know. It is empty if nothing explains the
	// difference, which is a fault of this program.
	Because string `json:"because,omitempty"`
}

// Reload is the outcome of one change of the configuration file.
type Reload struct {
	Time time.Time `json:"time"`
	// Status is success or failure.
	Status string `json:"status"`
	// Hash identifies the configuration that came into force.
	Hash string `json:"hash,omitempty"`
	// Generation is that of the configuration in force afterwards.
	Generation uint64 `json:"generation"`
	// Plan is what the change was to do, Error why it did nothing.
	Plan  *plan.Plan `json:"plan,omitempty"`
	Error string     `json:"error,omitempty"`
	// Deviations are where it did something else: mostly, because a controller waits or
	// stands by, or because the contents of its files changed too.
	Deviations []Deviation `json:"deviations,omitempty"`
	// Took is the time from reading the file until every new instance was built and
	// handed to its controller, in seconds.
	Took float64 `json:"tookSeconds"`
}
