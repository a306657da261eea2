package breaker

import (
	"fmt"
	"time"
)

// Stop is a kind of which controllers were about to delete more than they may.
type Stop struct {
	// Resource is the kind, as resource.group.
	Resource string    `json:"resource"`
	Since    time.Time `json:"since"`
	// Controller was about to delete Next objects, when Deleted of Objects had been deleted within
	// Window and Limit might be.
	Controller string `json:"controller"`
	Next       int    `json:"next"`
	Deleted    int    `json:"deleted"`
	Objects    int    `json:"objects"`
	Limit      int    `json:"limit"`
	Window     string `json:"window"`
}

// Reason says what happened, the same for as long as the kind is stopped.
func (s Stop) Reason() string {
	return fmt.Sprintf("%s was about to delete %s more of %d %s when %d had been deleted within %s; the limit is %d",
		s.Controller, counted(s.Next), s.Objects, s.Resource, s.Deleted, s.Window, s.Limit)
}

func counted(n int) string {
	if n == 1 {
		return "one"
	}
	return fmt.Sprint(n)
}

// allowance is how long the deletions may go on that Remedy suggests.
const allowance = time.Hour

// Remedy says how deletions go on, with a time that could be set now.
func Remedy(now time.Time) string {
	until := now.Add(allowance).UTC().Truncate(time.Minute)
	return fmt.Sprintf("If that is intended, set deletionBreaker.allowUntil in the configuration file to the time until which deletions may go on, such as %q.",
		until.Format(time.RFC3339))
}

// Status is what the breaker does.
type Status struct {
	Mode string `json:"mode"`
	// AllowedUntil is until when nothing is counted; zero if it is.
	AllowedUntil time.Time `json:"allowedUntil,omitzero"`
	// Stops are the kinds of which nothing is deleted, sorted.
	Stops []Stop `json:"stops,omitempty"`
}
