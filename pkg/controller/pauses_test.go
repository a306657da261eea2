package controller

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

func TestPausesAreLive(t *testing.T) {
	var none *Pauses
	if none.Hold("a") || none.Any() || none.Namespaces() != nil {
		t.Error("nil pauses something")
	}
	none.Follow(nil)()
	p := &Pauses{}
	var told [][]string
	end := p.Follow(func() { told = append(told, p.Namespaces()) })
	p.Set([]string{"b", "a"})
	if !p.Hold("a") || !p.Hold("b") || p.Hold("c") || p.Hold("") || !p.Any() {
		t.Errorf("paused in %v", p.Namespaces())
	}
	p.Set(nil)
	if p.Hold("a") || p.Any() {
		t.Errorf("paused in %v", p.Namespaces())
	}
	end()
	p.Set([]string{"c"})
	if want := [][]string{{"a", "b"}, nil}; !slices.EqualFunc(told, want, slices.Equal) {
		t.Errorf("told %v, want %v", told, want)
	}
}

func TestPausedIn(t *testing.T) {
	a, b := &PausedError{"a"}, &PausedError{"b"}
	other := errors.New("other")
	for _, test := range []struct {
		err  error
		want []string
	}{
		{nil, nil},
		{other, nil},
		{fmt.Errorf("writing: %w", a), []string{"a"}},
		{errors.Join(other, fmt.Errorf("writing: %w", b), a, a), []string{"a", "b"}},
		{fmt.Errorf("%w: %w", errors.Join(other), fmt.Errorf("x: %w", errors.Join(b))), []string{"b"}},
		{fmt.Errorf("x: %w", utilerrors.NewAggregate([]error{other, fmt.Errorf("writing: %w", a)})), []string{"a"}},
		{errors.Join(utilerrors.NewAggregate([]error{utilerrors.NewAggregate([]error{b}), other}), a), []string{"a", "b"}},
	} {
		if got := PausedIn(test.err); !slices.Equal(got, test.want) {
			t.Errorf("%v: %v, want %v", test.err, got, test.want)
		}
		if got, want := IsPaused(test.err), len(test.want) > 0; got != want {
			t.Errorf("%v: paused: %t, want %t", test.err, got, want)
		}
	}
}
