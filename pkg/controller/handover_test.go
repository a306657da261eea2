package controller

import (
	"context"
	"testing"
)

// counter hands over a number.
type counter struct{ count int }

func (c *counter) Run(context.Context) error { return nil }
func (c *counter) HandOver() int             { return c.count }

func TestTakeOver(t *testing.T) {
	for name, tc := range map[string]struct {
		left any
		want int
		ok   bool
	}{
		"of a predecessor":     {left: 7, want: 7, ok: true},
		"without one":          {},
		"of an unknown type":   {left: "7"},
		"of a pointer instead": {left: new(int)},
	} {
		t.Run(name, func(t *testing.T) {
			var s Succession
			s.Leave(tc.left)
			if got, ok := TakeOver(Env{Succession: &s}, &counter{}); got != tc.want || ok != tc.ok {
				t.Errorf("got %v, %v, want %v, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestWhoHasTakenOverHandsOver(t *testing.T) {
	var s Succession
	s.Leave(7)
	c := &counter{}
	TakeOver(Env{Succession: &s}, c)
	c.count = 8 // HandOver is not asked before the end
	if got := s.HandOver(); got != 8 {
		t.Errorf("got %v, want 8", got)
	}
}

func TestAnInstanceThatHasNotTakenOverPassesOnWhatItWasLeft(t *testing.T) {
	var s Succession
	if got := s.HandOver(); got != nil {
		t.Errorf("without a predecessor: got %v", got)
	}
	s.Leave(7)
	if got := s.HandOver(); got != 7 {
		t.Errorf("got %v, want 7", got)
	}
}
