package controller

import (
	"errors"
	"testing"
)

// refusing is a scope that has refused a handler or an index, unless the error is nil.
type refusing struct {
	Scope
	err error
}

func (r refusing) Err() error { return r.err }

func TestNew(t *testing.T) {
	boom := errors.New("boom")
	build := func(c *counter, err error) func(Env, int) (*counter, error) {
		return func(Env, int) (*counter, error) { return c, err }
	}
	for name, tc := range map[string]struct {
		build   func(Env, int) (*counter, error)
		refused error
		running bool
		err     string
	}{
		"runs":                    {build: build(&counter{}, nil), running: true},
		"is idle":                 {build: build(nil, nil)},
		"cannot be built":         {build: build(nil, boom), err: "boom"},
		"is half built":           {build: build(&counter{}, boom), err: "boom"},
		"had something refused":   {build: build(&counter{}, nil), refused: boom, err: "building test-controller: boom"},
		"is idle after a refusal": {build: build(nil, nil), refused: boom},
		"fails after a refusal":   {build: build(nil, errors.New("first")), refused: boom, err: "first"},
	} {
		t.Run(name, func(t *testing.T) {
			d := Describe(Descriptor{Name: "test-controller"}, func(*Config) int { return 1 }, tc.build)
			c, err := d.New(Env{Informers: refusing{err: tc.refused}}, 1)
			if (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
				t.Errorf("error is %v, want %q", err, tc.err)
			}
			if (c != nil) != tc.running { // a nil pointer in an interface would not be nil
				t.Errorf("controller is %#v", c)
			}
		})
	}
}

func TestNewTakesOnlyItsOwnValue(t *testing.T) {
	d := Describe(Descriptor{Name: "test-controller"}, func(*Config) int { return 1 },
		func(Env, int) (*counter, error) { return &counter{}, nil })
	if _, err := d.New(Env{}, "1"); err == nil {
		t.Error("built from the value of another controller")
	}
}
