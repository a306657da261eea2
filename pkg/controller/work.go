package controller

import (
	"context"
	"time"
)

// Work is a key that a work loop reconciles. It is in the context of the reconcile, so that
// writes can be explained: see WorkOf.
type Work interface {
	// Describe is called when a write is made.
	Describe() Task
}

// Task describes Work.
type Task struct {
	// Queue is the name of the work queue, Key the key as text.
	Queue, Key string
	// Trigger is why the key was in the queue, as LoopKey.Trigger.
	Trigger string
}

// WorkKey is the key of a context under which Work is.
type WorkKey struct{}

// WorkOf describes what is worked on under a context; the zero Task is for work that no work loop
// does.
func WorkOf(ctx context.Context) Task {
	if w, ok := ctx.Value(WorkKey{}).(Work); ok {
		return w.Describe()
	}
	return Task{}
}

// KeyHolder is implemented by work loops that can tell what they hold of single keys.
type KeyHolder interface {
	// Keys returns what the loop holds of the keys whose text is wanted. It looks at each key in
	// the queue.
	Keys(wanted func(key string) bool) []LoopKey
}

// KeyState is where a key is.
type KeyState string

// The states of a key, in the order in which they are listed.
const (
	// KeyInFlight: a worker works on it.
	KeyInFlight KeyState = "InFlight"
	// KeyQueued: it waits for a worker.
	KeyQueued KeyState = "Queued"
	// KeyDelayed: it is added to the queue at a time.
	KeyDelayed KeyState = "Delayed"
	// KeyPaused: it is added to the queue when its namespace is no longer paused.
	KeyPaused KeyState = "Paused"
	// KeyStopped: it is added to the queue when the breaker lets deletions of its kinds go on.
	KeyStopped KeyState = "Stopped"
)

// LoopKey is a key that a work loop holds.
type LoopKey struct {
	Queue string   `json:"queue"`
	Key   string   `json:"key"`
	State KeyState `json:"state"`
	// Since is when it came into this state; zero if delayed, paused or stopped.
	Since time.Time `json:"since,omitzero"`
	// Kinds are those of a stopped key.
	Kinds []string `json:"kinds,omitempty"`
	// Until is when a delayed key is added to the queue.
	Until time.Time `json:"until,omitzero"`
	// Trigger is why it was added: what changed, or "resync", "start", "retry", "timer".
	Trigger string `json:"trigger,omitempty"`
	// Retries is how often it has failed in a row, LastError why it failed last.
	Retries       int       `json:"retries,omitempty"`
	LastError     string    `json:"lastError,omitempty"`
	LastErrorTime time.Time `json:"lastErrorTime,omitzero"`
}
