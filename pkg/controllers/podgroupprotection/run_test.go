package podgroupprotection

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins PGP-8.
func TestItWaitsForBothCaches(t *testing.T) {
	for _, resource := range []string{"podgroups", "pods"} {
		t.Run(resource, func(t *testing.T) {
			env := controllertest.New(t)
			c := must.Get(newController(env.Env))(t)
			env.WantWaitsFor(t, c, resource)
		})
	}
}

// released reports whether the group has only the finalizers of others.
func released(t *testing.T, env *controllertest.Env) bool {
	t.Helper()
	stored := controllertest.MustStored[*schedulingv1alpha2.PodGroup](t, env, key.Namespace, key.Name)
	return slices.Equal(stored.Finalizers, []string{"example.com/other"})
}

// The event of the last pod is enough: no time passes. Pins PGP-13, PGP-17 and PGP-21.
func TestAGroupIsReleasedOnceWhenItsLastPodEnds(t *testing.T) {
	env, c := fixture(t, group(), pod(), pod(func(p *corev1.Pod) { p.Name = "last" }))
	env.Run(t, c)
	env.AwaitIdle(t)
	env.Store(t, pod(phase(corev1.PodSucceeded)))
	controllertest.Eventually(t, "the end of a pod is noticed", func() bool { return c.loop.Inspect().Reconciled == 2 })
	if released(t, env) {
		t.Error("the group was released although a pod runs")
	}
	env.Store(t, pod(phase(corev1.PodFailed), func(p *corev1.Pod) { p.Name = "last" }))
	controllertest.Eventually(t, "the group is released", func() bool { return released(t, env) })
	controllertest.Eventually(t, "the cache shows it", func() bool {
		cached, err := c.groups.PodGroups(key.Namespace).Get(key.Name)
		return err == nil && !finalizer.Blocks(cached)
	})
	env.AwaitIdle(t)
	if got := env.WriteVerbs(); !slices.Equal(got, []string{"update"}) {
		t.Errorf("writes are %q", got)
	}
	env.WantEvents(t)
	env.WantOnlyQueueMetrics(t)
	if adds := env.Series(t, "workqueue_adds_total"); len(adds) != 1 || !strings.HasPrefix(adds[0], "name=podgroupprotection ") {
		t.Errorf("keys: %q", adds)
	}
}

// Pins PGP-7 and PGP-25.
func TestAFailureIsLoggedAndRetriedUntilItSucceeds(t *testing.T) {
	const failures = 15
	env, c := fixture(t, group())
	env.RefuseIf("update podgroups", errors.New("boom"), func(n int) bool { return n <= failures })
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), logger))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for n := range failures {
		// A running loop always waits for its heartbeat, and for a retry once it is scheduled.
		controllertest.Eventually(t, "the retry is scheduled", func() bool {
			held := c.loop.Keys(func(text string) bool { return text == "ns/group" })
			return c.loop.Retries(key) == n+1 && env.Clock.Waiters() == 2 && len(held) == 1 && held[0].State == controller.KeyDelayed &&
				held[0].Until.Sub(env.Clock.Now()) == 5*time.Millisecond<<n
		})
		env.Clock.Step(5 * time.Millisecond << n)
	}
	controllertest.Eventually(t, "its failures are forgotten", func() bool { return c.loop.Retries(key) == 0 })
	if !released(t, env) {
		t.Error("the group was not released")
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	if !strings.Contains(log, `Reconcile failed err="releasing pod group ns/group: boom"`) || !strings.Contains(log, `key="ns/group"`) {
		t.Errorf("log: %s", log)
	}
}

// However long the watch of pods is interrupted: there may be no event for the end of the pod. Pins PGP-26.
func TestAGroupWhosePodTheCacheDoesNotShowIsReconciledAgainSoon(t *testing.T) {
	env, c := fixture(t, group(func(g *schedulingv1alpha2.PodGroup) { g.ResourceVersion = "8" }))
	var asked atomic.Int32
	env.Fake.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked.Add(1)
		return true, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []corev1.Pod{*pod()}}, nil
	})
	env.Run(t, c)
	var longest time.Duration
	env.EventuallyAsTimePasses(t, "the pods are listed often", time.Second, func() bool {
		longest = max(longest, env.LongestDelay(c.loop.Keys(func(string) bool { return true })))
		return asked.Load() >= 15
	})
	if longest > reconcile.RecheckAfter {
		t.Errorf("the group is looked at again in %v", longest)
	}
}

// An instance finds its groups again, and the index that its predecessor added. Pins PGP-20 and PGP-24.
func TestTheNextInstanceBeginsWithWhatIsThere(t *testing.T) {
	stays := group(func(g *schedulingv1alpha2.PodGroup) { g.Name, g.DeletionTimestamp = "stays", nil })
	env, first := fixture(t, group(), stays, pod())
	stop := env.Run(t, first)
	env.AwaitIdle(t)
	stop()
	env.Succeed(nil)
	next := must.Get(newController(env.Env))(t)
	env.Start(t)
	controllertest.Eventually(t, "the group is queued", func() bool { return next.loop.Inspect().Backlog == 1 })
	env.Run(t, next)
	controllertest.Eventually(t, "the group is looked at", func() bool { return next.loop.Inspect().Reconciled == 1 })
	if got := env.Writes(); len(got) != 0 {
		t.Errorf("writes are %v, want none while a pod runs", got)
	}
	env.Remove(t, pod())
	controllertest.Eventually(t, "the group is released", func() bool { return released(t, env) })
}
