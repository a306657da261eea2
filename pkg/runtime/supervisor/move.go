package supervisor

import (
	"time"
)

// move is what Synchronize decided for one unit.
type move struct {
	unit     *unit
	before   Want // what was wanted until then
	want     Want
	cause    Cause
	keep     bool
	decided  time.Time
	instance Instance
	failed   chan error
	warm     func()
	err      error
}

// commit tells a controller what to do, and returns what that was.
func (m move) commit() Done {
	m.unit.command(m)
	return Done{Name: m.unit.d.Name, Before: m.before, After: m.want}
}

// discard releases what a move holds, which will not be carried out.
func (m move) discard() {
	if m.instance != nil {
		m.unit.release(m.instance)
	}
	if m.warm != nil {
		m.warm()
	}
}

// prepare builds what a want needs, without any effect on what runs.
func (u *unit) prepare(want Want, cause Cause) move {
	m := move{unit: u, want: want, cause: cause, decided: u.options.Clock.Now()}
	switch want.State {
	case Running:
		m.failed = make(chan error, 1)
		m.instance, m.err = u.build(want.Spec, m.failed)
	case Standby, Paused:
		m.warm, m.err = u.keepWarm(want.Spec)
	}
	return m
}

// built is what Build or Warm returned.
type built struct {
	instance Instance
	warm     func()
	err      error
}

// discard releases what is not used.
func (b built) discard(u *unit) { move{unit: u, instance: b.instance, warm: b.warm}.discard() }

// build makes an instance. A panic in the controller's New is an error.
func (u *unit) build(spec Spec, failed chan error) (Instance, error) {
	b, err := attempt(u, "creating an instance", buildLimit, func() (b built) {
		b.instance, b.err = u.options.Builder.Build(u.d, spec, func(err error) {
			select {
			case failed <- err:
			default:
			}
		})
		if b.err != nil {
			b.instance = nil // may be an interface that holds nothing
		}
		return b
	}, func(b built) { b.discard(u) })
	if err != nil {
		return nil, err
	}
	return b.instance, b.err
}

// keepWarm fills the caches that an instance would read.
func (u *unit) keepWarm(spec Spec) (func(), error) {
	b, err := attempt(u, "creating a standby instance", buildLimit, func() (b built) {
		b.warm, b.err = u.options.Builder.Warm(u.d, spec)
		return b
	}, func(b built) { b.discard(u) })
	if err != nil {
		return nil, err
	}
	return b.warm, b.err
}
