package connection

import (
	"slices"
	"sync"
	"time"

	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/telemetry"
)

// Status is how the process reaches the API server.
type Status struct {
	// Server is its URL.
	Server string `json:"server"`
	// Generation counts the connections of this process: each has clients and caches of
	// its own.
	Generation uint64 `json:"generation"`
	// Files are those the credentials were read from, which are watched.
	Files []string `json:"files,omitempty"`
	// Renewed counts changes of credentials within connections, LastRenewal is the newest.
	Renewed     uint64    `json:"renewed"`
	LastRenewal time.Time `json:"lastRenewal,omitzero"`
	// Error is why the credentials that the files now contain are not in use, empty if they
	// are.
	Error string `json:"error,omitempty"`
	// Unreached is why the API server could not be asked last what it serves, empty if it could.
	Unreached string `json:"unreached,omitempty"`
}

// Rotation records the outcomes of changes of the credentials of the process, across
// connections. It is safe for concurrent use.
type Rotation struct {
	metrics telemetry.Outcomes

	mu      sync.Mutex // guards what follows
	renewed uint64
	last    time.Time
	failure string
	found   []string
}

// News is what is worth reporting about a change of credentials.
type News int

const (
	// Nothing: nothing has changed, or an error is still the same.
	Nothing News = iota
	// Renewed: other credentials are in use.
	Renewed
	// Failed: the credentials in the files cannot be used, for a reason not known before.
	Failed
	// Reverted: the files contain the credentials in use again.
	Reverted
)

// NewRotation makes a Rotation that counts its outcomes.
func NewRotation(metrics telemetry.Outcomes) *Rotation { return &Rotation{metrics: metrics} }

// Note records an attempt to bring the credentials in use up to date with the files. found
// are the files that the attempt found, difference is how what they held differs from what was in
// use, and err is why it is not in use now.
func (r *Rotation) Note(now time.Time, found []string, difference clients.Difference, err error) News {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.failure
	r.failure, r.found = "", nil
	if err != nil {
		r.failure, r.found = err.Error(), found
	}
	switch {
	case r.failure != "" && r.failure != was:
		r.metrics.Record(telemetry.Failure, now)
		return Failed
	case r.failure == "" && difference != clients.Same:
		r.renewed++
		r.last = now
		r.metrics.Record(telemetry.Success, now)
		return Renewed
	case r.failure == "" && was != "":
		return Reverted
	}
	return Nothing
}

// Forget drops what is known of credentials that cannot be used: they were for a connection that is replaced.
func (r *Rotation) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure, r.found = "", nil
}

// Failing reports whether the files hold credentials that cannot be used.
func (r *Rotation) Failing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure != ""
}

// Found are the files of credentials that cannot be used. They are worth watching besides
// those of the connection.
func (r *Rotation) Found() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.found)
}

// Status is that of a connection with these changes of credentials. Without a connection it
// is empty.
func (r *Rotation) Status(c *Connection) Status {
	if c == nil {
		return Status{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return Status{
		Server:      c.Server(),
		Generation:  c.generation,
		Files:       c.Files(),
		Renewed:     r.renewed,
		LastRenewal: r.last,
		Error:       r.failure,
		Unreached:   c.catalog.Unreached(),
	}
}
