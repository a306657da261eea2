package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

var pods = schema.GroupResource{Resource: "pods"}

// tally counts what is asked for, up to a limit.
type tally struct{ asked, counted, limit int }

func (c *tally) On() bool { return c.limit > 0 }

func (c *tally) Ask(_ context.Context, by string, of schema.GroupResource, _, _ string) (int, error) {
	c.asked++
	if c.counted == c.limit {
		return 0, &StoppedError{of, by + " has reached the limit"}
	}
	c.counted++
	return 1, nil
}

func (c *tally) GiveBack(_ schema.GroupResource, counted int) { c.counted -= counted }
func (c *tally) Stopped(schema.GroupResource) bool            { return c.counted == c.limit }
func (c *tally) Follow(func()) func()                         { return func() {} }

func TestWhatIsNotLimitedIsNotAsked(t *testing.T) {
	for name, d := range map[string]*Deletions{"nil": nil, "zero": {}, "off": DeletionsBy("c", &tally{})} {
		ctx, deletion, err := d.Ask(t.Context(), pods, "ns", "a")
		if ctx != t.Context() || deletion != nil || err != nil || d.On() || d.Stopped(pods) {
			t.Errorf("%s: %v, %v", name, deletion, err)
		}
		deletion.Keep()
		deletion.End()
		d.Follow(nil)()
	}
}

// A controller asks before the first of several writes; the client that deletes does not ask again.
func TestADeletionIsCountedOnce(t *testing.T) {
	breaker := &tally{limit: 1}
	d := DeletionsBy("c", breaker)
	ctx, first, err := d.Ask(t.Context(), pods, "ns", "a")
	if err != nil {
		t.Fatal(err)
	}
	_, refused, err := d.Ask(ctx, pods, "ns", "a")
	if err != nil || breaker.asked != 1 {
		t.Errorf("%v, asked %d times", err, breaker.asked)
	}
	refused.End() // by the client, which may try again
	if breaker.counted != 1 {
		t.Errorf("%d are counted before the controller has ended the deletion", breaker.counted)
	}
	_, again, err := d.Ask(ctx, pods, "ns", "a")
	if err != nil || breaker.asked != 1 {
		t.Errorf("%v, asked %d times", err, breaker.asked)
	}
	var stopped *StoppedError
	if _, _, err := d.Ask(ctx, pods, "ns", "b"); !errors.As(err, &stopped) || stopped.Why != "c has reached the limit" || !d.Stopped(pods) {
		t.Errorf("another object: %v", err)
	}
	again.Keep()
	first.End()
	if breaker.counted != 1 {
		t.Errorf("%d are counted, want 1: it was carried out", breaker.counted)
	}
}

func TestADeletionThatWasNotCarriedOutIsGivenBackOnce(t *testing.T) {
	breaker := &tally{limit: 1}
	_, deletion, err := DeletionsBy("c", breaker).Ask(t.Context(), pods, "ns", "a")
	if err != nil {
		t.Fatal(err)
	}
	deletion.End()
	deletion.End()
	if breaker.counted != 0 {
		t.Errorf("%d are counted", breaker.counted)
	}
}

func TestStoppedIn(t *testing.T) {
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	a, b := &StoppedError{pods, "x"}, &StoppedError{jobs, "x"}
	other := errors.New("other")
	for _, test := range []struct {
		err  error
		want []schema.GroupResource
		only bool
	}{
		{nil, nil, false},
		{other, nil, false},
		{fmt.Errorf("deleting: %w", a), []schema.GroupResource{pods}, true},
		{errors.Join(fmt.Errorf("deleting: %w", b), a, a), []schema.GroupResource{jobs, pods}, true},
		{errors.Join(other, a), []schema.GroupResource{pods}, false},
		{utilerrors.NewAggregate([]error{fmt.Errorf("pods first: %w", a)}), []schema.GroupResource{pods}, true},
		{utilerrors.NewAggregate([]error{b, other}), []schema.GroupResource{jobs}, false},
		{fmt.Errorf("%w: %w", errors.Join(other), fmt.Errorf("x: %w", errors.Join(b))), []schema.GroupResource{jobs}, false},
	} {
		if got, only := StoppedIn(test.err); !slices.Equal(got, test.want) || only != test.only {
			t.Errorf("%v: %v, %t, want %v, %t", test.err, got, only, test.want, test.only)
		}
	}
}
