package logging

import (
	"sync/atomic"

	"github.com/go-logr/logr"
)

// root is where all sinks of an Output write to.
type root struct {
	target atomic.Pointer[target]
}

// target is a logger of component-base, with what its lines are held back in. Its address
// distinguishes it from the previous one.
type target struct {
	sink   logr.LogSink
	buffer *buffered
}

// pointAt replaces the target. Who has loaded the previous one just before still writes to it.
func (r *root) pointAt(s logr.LogSink, buffer *buffered) {
	if deeper, ok := s.(logr.CallDepthLogSink); ok {
		s = deeper.WithCallDepth(1) // for the frame of sink
	}
	if old := r.target.Swap(&target{sink: s, buffer: buffer}); old != nil {
		old.buffer.end()
	}
}

func (r *root) flush() { r.target.Load().buffer.flush() }

// sink is a logr.LogSink that follows its root to whatever it points at. It repeats there
// what it was derived with: names, values, call depths.
type sink struct {
	root    *root
	derive  []func(logr.LogSink) logr.LogSink
	derived atomic.Pointer[derived]
}

// derived is a sink derived from a target.
type derived struct {
	from *target
	sink logr.LogSink
}

func (s *sink) current() logr.LogSink {
	at := s.root.target.Load()
	if d := s.derived.Load(); d != nil && d.from == at {
		return d.sink
	}
	to := at.sink
	for _, derive := range s.derive {
		to = derive(to)
	}
	s.derived.Store(&derived{from: at, sink: to})
	return to
}

func (s *sink) with(derive func(logr.LogSink) logr.LogSink) logr.LogSink {
	return &sink{root: s.root, derive: append(s.derive[:len(s.derive):len(s.derive)], derive)}
}

// Init implements logr.LogSink. The targets have been initialised by their own loggers.
func (s *sink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (s *sink) Enabled(level int) bool { return s.current().Enabled(level) }

// Info implements logr.LogSink.
func (s *sink) Info(level int, msg string, keysAndValues ...any) {
	if msg == requestBody || msg == responseBody {
		keysAndValues = []any{"body", withheld}
	}
	s.current().Info(level, msg, keysAndValues...)
}

// The messages with which client-go logs what requests and responses carry, at level 8 and above: tokens and Secrets
// among others. In protobuf, nothing tells what it is.
const (
	requestBody  = "Request Body"
	responseBody = "Response Body"
	withheld     = "(withheld)"
)

// Error implements logr.LogSink.
func (s *sink) Error(err error, msg string, keysAndValues ...any) {
	s.current().Error(err, msg, keysAndValues...)
}

// WithValues implements logr.LogSink.
func (s *sink) WithValues(keysAndValues ...any) logr.LogSink {
	return s.with(func(to logr.LogSink) logr.LogSink { return to.WithValues(keysAndValues...) })
}

// WithName implements logr.LogSink.
func (s *sink) WithName(name string) logr.LogSink {
	return s.with(func(to logr.LogSink) logr.LogSink { return to.WithName(name) })
}

// WithCallDepth implements logr.CallDepthLogSink.
func (s *sink) WithCallDepth(depth int) logr.LogSink {
	return s.with(func(to logr.LogSink) logr.LogSink {
		if deeper, ok := to.(logr.CallDepthLogSink); ok {
			return deeper.WithCallDepth(depth)
		}
		return to
	})
}
