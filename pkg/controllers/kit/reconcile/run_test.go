package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

func TestRunBeginsWhenItMayActOnItsCaches(t *testing.T) {
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		stopped bool  // before the caches are complete
		begin   error // of begin
		want    []string
	}{
		"ready":             {want: []string{"begin", "part", "part"}},
		"stopped before":    {stopped: true},
		"that cannot begin": {begin: boom, want: []string{"begin"}},
	} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t)
			env.Informers.Core().V1().Pods().Informer()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if tc.stopped {
				stop()
			} else {
				env.Start(t)
			}
			steps := make(chan string, 3)
			part := func(context.Context) error { steps <- "part"; return nil }
			err := reconcile.Run(ctx, env.Env, func(context.Context) error { steps <- "begin"; return tc.begin }, part, part)
			if !errors.Is(err, tc.begin) {
				t.Errorf("error is %v, want %v", err, tc.begin)
			}
			close(steps)
			if got := slices.Collect(received(steps)); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func received(c <-chan string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for s := range c {
			if !yield(s) {
				return
			}
		}
	}
}

func TestALoopSaysWhenItBegan(t *testing.T) {
	env := controllertest.New(t)
	env.Informers.Core().V1().Pods().Informer()
	loop := reconcile.New(env.Env, reconcile.Options[string]{Queue: "test"}, func(context.Context, string) error { return nil })
	env.Run(t, loop)
	if began := loop.Inspect().Began; !began.IsZero() {
		t.Errorf("it began at %v, before its caches were complete", began)
	}
	env.Start(t)
	controllertest.Eventually(t, "the loop has begun", func() bool { return loop.Inspect().Began.Equal(env.Clock.Now()) })
}
