package reconcile_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// retried fails a key three times, queues it again in a lane, and returns how often it has failed in a row by then.
func retried[K comparable](t *testing.T, key K, lane reconcile.Lane) int {
	t.Helper()
	env := controllertest.New(t)
	failed := make(chan bool)
	l := reconcile.New(env.Env, reconcile.Options[K]{Queue: "q", Workers: 1}, func(context.Context, K) error {
		failed <- true
		return errors.New("a quota is exceeded")
	})
	ctx, stop := context.WithCancel(env.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	defer func() {
		stop()
		if err := receive(t, done, "the loop did not end"); err != nil {
			t.Error(err)
		}
	}()
	for range 3 {
		l.Add(key)
		receive(t, failed, "the key was not worked on")
		controllertest.Eventually(t, "the failure is noted", func() bool { return len(l.Inspect().InFlight) == 0 })
	}
	before := l.Retries(key)
	if before != 3 {
		t.Fatalf("%d retries, want 3", before)
	}
	l.Enqueue(lane, key)
	receive(t, failed, "the key was not worked on")
	controllertest.Eventually(t, "the failure is noted", func() bool { return len(l.Inspect().InFlight) == 0 })
	return l.Retries(key)
}

// An object of the same name as one that was deleted does not wait for as long as that did. Pins MGR-228.
func TestASuccessorDoesNotInheritTheBackoff(t *testing.T) {
	pod := func(namespace, name string) metav1.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	key := types.NamespacedName{Namespace: "ns", Name: "a"}
	for name, test := range map[string]struct{ got, want int }{
		"it is gone":               {retried(t, key, reconcile.Gone(pod("ns", "a"))), 1},
		"another one is there":     {retried(t, key, reconcile.Fresh.Because(reconcile.Added, pod("ns", "a"))), 1},
		"it has changed":           {retried(t, key, reconcile.Fresh.Because(reconcile.Updated, pod("ns", "a"))), 4},
		"it is resynced":           {retried(t, key, reconcile.Backlog.Because(reconcile.Resynced, pod("ns", "a"))), 4},
		"what it owns is gone":     {retried(t, key, reconcile.Gone(pod("ns", "a-1"))), 4},
		"elsewhere":                {retried(t, key, reconcile.Gone(pod("other", "a"))), 4},
		"without a reason":         {retried(t, key, reconcile.Fresh), 4},
		"of no namespace":          {retried(t, "a", reconcile.Gone(pod("", "a"))), 1},
		"a name of something else": {retried(t, "a", reconcile.Gone(pod("ns", "a"))), 4},
		"a key of client-go":       {retried(t, cache.NewObjectName("ns", "a"), reconcile.Gone(pod("ns", "a"))), 1},
		"a key of another kind":    {retried(t, 7, reconcile.Gone(pod("ns", "a"))), 4},
		"a key that is a text":     {retried(t, "ns/a", reconcile.Gone(pod("ns", "a"))), 1},
	} {
		if test.got != test.want {
			t.Errorf("%s: %d retries, want %d", name, test.got, test.want)
		}
	}
}

// Pins MGR-228.
func TestASuccessorThatIsDelayedDoesNotInheritTheBackoffEither(t *testing.T) {
	l := reconcile.New(controllertest.New(t).Env, reconcile.Options[string]{Queue: "q"}, func(context.Context, string) error { return nil })
	for range 3 {
		l.AddRateLimited("a")
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	l.EnqueueAfter(reconcile.Fresh.Because(reconcile.Updated, node), "a", time.Minute)
	if got := l.Retries("a"); got != 3 {
		t.Errorf("%d retries after a change, want 3", got)
	}
	l.EnqueueAfter(reconcile.Fresh.Because(reconcile.Added, node), "a", time.Minute)
	if got := l.Retries("a"); got != 0 {
		t.Errorf("%d retries of another one, want 0", got)
	}
}
