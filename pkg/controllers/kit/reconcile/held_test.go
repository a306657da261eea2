package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

func TestKeysOfAPausedNamespaceAreHeldBack(t *testing.T) {
	env := controllertest.New(t)
	env.Pauses.Set([]string{"paused"})
	seen := make(chan types.NamespacedName, 100)
	l := reconcile.New(env.Env, reconcile.Options[types.NamespacedName]{Queue: "q", Workers: 2}, func(_ context.Context, key types.NamespacedName) error {
		seen <- key
		return nil
	})
	key := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	for _, name := range []string{"x", "y", "x"} {
		l.Add(key("paused", name))
	}
	l.Enqueue(reconcile.Backlog, key("other", "last"))
	r := run(env, l.Run)
	defer r.end(t)
	if got := receive(t, seen, "nothing was reconciled"); got != key("other", "last") {
		t.Errorf("%s was reconciled", got)
	}
	l.Add(key("paused", "x")) // an event, while it is held back
	controllertest.Eventually(t, "both keys are held back", func() bool { s := l.Inspect(); return s.Held == 2 && s.Depth == 0 })
	env.Pauses.Set([]string{"elsewhere"})
	got := map[types.NamespacedName]bool{}
	for range 2 {
		got[receive(t, seen, "the backlog was not worked off")] = true
	}
	if !got[key("paused", "x")] || !got[key("paused", "y")] {
		t.Errorf("reconciled %v", got)
	}
	if s := l.Inspect(); s.Held != 0 {
		t.Errorf("%d are held back", s.Held)
	}
}

// What is reconciled has no namespace, but writes into one that is paused.
func TestARefusedWriteBacksOffAndIsRepeatedWhenThePauseEnds(t *testing.T) {
	env := controllertest.New(t)
	env.Pauses.Set([]string{"paused"})
	seen := make(chan bool, 100)
	l := reconcile.New(env.Env, reconcile.Options[string]{Queue: "q", Workers: 1, MaxRetries: 1}, func(context.Context, string) error {
		paused := env.Pauses.Hold("paused")
		seen <- paused
		if paused {
			return fmt.Errorf("writing: %w", &controller.PausedError{Namespace: "paused"})
		}
		return nil
	})
	l.Add("node")
	r := run(env, l.Run)
	defer r.end(t)
	for range 3 { // more often than MaxRetries
		receive(t, seen, "it was not repeated")
		env.EventuallyAsTimePasses(t, "it is repeated after a delay", time.Minute, func() bool { return len(seen) > 0 })
	}
	controllertest.Eventually(t, "the key is held back", func() bool { s := l.Inspect(); return s.Held == 1 && len(s.InFlight) == 0 })
	for len(seen) > 0 {
		<-seen
	}
	env.Pauses.Set(nil)
	if paused := receive(t, seen, "it was not repeated when the pause ended"); paused {
		t.Error("it was repeated before the pause ended")
	}
	if s := l.Inspect(); s.Failed != 0 || s.LastError != "" {
		t.Errorf("%d failures, %s: a pause is none", s.Failed, s.LastError)
	}
}

func TestTheNamespaceOfAKey(t *testing.T) {
	type own struct{ in string }
	env := controllertest.New(t)
	env.Pauses.Set([]string{"paused"})
	seen := make(chan string, 100)
	work := func(name string) reconcile.Func[own] {
		return func(context.Context, own) error {
			seen <- name
			return nil
		}
	}
	namespace := func(k own) string { return k.in }
	held := reconcile.New(env.Env, reconcile.Options[own]{Queue: "held", Workers: 1, Namespace: namespace}, work("held"))
	regardless := reconcile.New(env.Env, reconcile.Options[own]{Queue: "regardless", Workers: 1, Namespace: namespace, Regardless: true}, work("regardless"))
	unknown := reconcile.New(env.Env, reconcile.Options[own]{Queue: "unknown", Workers: 1}, work("unknown"))
	for _, l := range []*reconcile.Loop[own]{held, regardless, unknown} {
		l.Add(own{"paused"})
		defer run(env, l.Run).end(t)
	}
	got := map[string]bool{receive(t, seen, "nothing was reconciled"): true, receive(t, seen, "only one was reconciled"): true}
	if !got["regardless"] || !got["unknown"] {
		t.Errorf("reconciled %v", got)
	}
	controllertest.Eventually(t, "the key is held back", func() bool { return held.Inspect().Held == 1 })
}

// deleting is a loop that has tried once to delete a pod while deletions of pods are stopped. Each try fails with
// another error as well, if there is one, and tells whether the deletion was refused.
func deleting(t *testing.T, other error) (*controllertest.Env, *controllertest.Breaker, *reconcile.Loop[string], <-chan bool) {
	t.Helper()
	env, breaker, pods := controllertest.New(t), &controllertest.Breaker{}, schema.GroupResource{Resource: "pods"}
	env.Deletions = controller.DeletionsBy("c", breaker)
	breaker.Stop(pods)
	refused := make(chan bool, 100)
	l := reconcile.New(env.Env, reconcile.Options[string]{Queue: "q", Workers: 1}, func(ctx context.Context, _ string) error {
		_, _, err := env.Deletions.Ask(ctx, pods, "ns", "x")
		refused <- err != nil
		return errors.Join(err, other)
	})
	l.Add("ns/x")
	r := run(env, l.Run)
	t.Cleanup(func() { r.end(t) })
	receive(t, refused, "it was not tried")
	return env, breaker, l, refused
}

func TestAStoppedDeletionWaitsWithoutRetries(t *testing.T) {
	_, breaker, l, seen := deleting(t, nil)
	controllertest.Eventually(t, "the key is held back", func() bool { s := l.Inspect(); return s.Stopped == 1 && len(s.InFlight) == 0 })
	keys := l.Keys(func(string) bool { return true })
	if len(keys) != 1 || keys[0].State != controller.KeyStopped || strings.Join(keys[0].Kinds, " ") != "pods" || keys[0].Retries != 0 {
		t.Errorf("the keys are %+v", keys)
	}
	if s := l.Inspect(); s.Depth != 0 || s.Failed != 0 || s.Held != 0 || s.LastError != "" {
		t.Errorf("the status is %+v", s)
	}
	breaker.Resume()
	if refused := receive(t, seen, "it was not repeated when deletions went on"); refused {
		t.Error("it was repeated before deletions went on")
	}
	controllertest.Eventually(t, "no key is held back", func() bool { s := l.Inspect(); return s.Stopped == 0 && len(s.InFlight) == 0 })
	if len(seen) > 0 {
		t.Error("it was repeated more than once")
	}
}

func TestAFailureBesideAStoppedDeletionIsRetried(t *testing.T) {
	env, _, l, seen := deleting(t, errors.New("another"))
	env.EventuallyAsTimePasses(t, "it is retried", time.Minute, func() bool { return len(seen) > 0 })
	controllertest.Eventually(t, "it has failed", func() bool { s := l.Inspect(); return s.Failed > 1 && s.Stopped == 1 })
}
