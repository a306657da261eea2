package tainteviction

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// evicted is a fixture with a pod that is due.
func evicted(t *testing.T, change ...func(*corev1.Pod)) (*controllertest.Env, *evictionController) {
	t.Helper()
	pod := controllertest.Changed(tolerating(tolerates("a", 60)), change...)
	env, c := fixture(t, node(taint("a")), pod)
	env.Clock.Step(90 * time.Second)
	return env, c
}

var podIdentity = identity{podKey, "pod"}

// Pins TAINT-10, TAINT-20, TAINT-22, TAINT-23, TAINT-24 and TAINT-42.
func TestEvict(t *testing.T) {
	env, c := evicted(t, func(p *corev1.Pod) { p.Generation = 3 })
	if err := c.evict(env.Context(), podIdentity); err != nil {
		t.Fatal(err)
	}
	actions := env.Fake.Actions()
	env.WantRequests(t, "patch pods/status pod", "delete pods pod")
	want := `{"metadata":{"uid":"pod"},"status":{"conditions":[{"type":"DisruptionTarget","observedGeneration":3,"status":"True","lastProbeTime":null,` +
		`"lastTransitionTime":"2026-01-02T03:05:35Z","reason":"DeletionByTaintManager","message":"Taint manager: deleting due to NoExecute taint"}]}}`
	if patch := actions[0].(clienttesting.PatchActionImpl); string(patch.Patch) != want || patch.PatchType != types.StrategicMergePatchType {
		t.Errorf("patched with %s", patch.Patch)
	}
	options := actions[1].(clienttesting.DeleteActionImpl).DeleteOptions
	if options.GracePeriodSeconds != nil || *options.Preconditions.UID != "pod" || options.Preconditions.ResourceVersion != nil {
		t.Errorf("deleted with %+v", options)
	}
	env.WantEvents(t, marking)
	wantNothingPending(t, env, c)
	if got := env.Series(t, "taint_eviction_controller_pod_deletions_total"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("deletions are %q", got)
	}
	sum, bounds := env.Histogram(t, "taint_eviction_controller_pod_deletion_duration_seconds")
	if sum != 30 || !slices.Equal(bounds[:12], []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240}) {
		t.Errorf("duration is %v, in %v", sum, bounds)
	}
}

func TestConditionFor(t *testing.T) {
	earlier := metav1.NewTime(epoch.Add(-time.Hour))
	has := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
		Message: "Taint manager: deleting due to NoExecute taint", LastTransitionTime: earlier,
	}
	for name, tc := range map[string]struct {
		change func(*corev1.PodCondition)
		want   bool
		since  metav1.Time
	}{
		"TAINT-22: it has the condition":         {func(*corev1.PodCondition) {}, false, earlier},
		"TAINT-22: of another generation":        {func(c *corev1.PodCondition) { c.ObservedGeneration = 7 }, false, earlier},
		"TAINT-22, TAINT-48: for another reason": {func(c *corev1.PodCondition) { c.Reason = "PreemptionByScheduler" }, true, earlier},
		"TAINT-22: with another message":         {func(c *corev1.PodCondition) { c.Message = "x" }, true, earlier},
		"TAINT-20: probed":                       {func(c *corev1.PodCondition) { c.LastProbeTime = earlier }, true, earlier},
		"TAINT-22: not true":                     {func(c *corev1.PodCondition) { c.Status = corev1.ConditionFalse }, true, metav1.NewTime(epoch)},
		"TAINT-22: another condition, not this":  {func(c *corev1.PodCondition) { c.Type = corev1.PodReady }, true, metav1.NewTime(epoch)},
	} {
		t.Run(name, func(t *testing.T) {
			condition := has
			tc.change(&condition)
			pod := tolerating()
			pod.Status.Conditions = []corev1.PodCondition{condition}
			want := conditionFor(pod, epoch)
			want.LastTransitionTime = tc.since
			patch, err := pods.DisruptionPatch(pod, conditionFor(pod, epoch))
			if expected, _ := json.Marshal(want); err != nil || (patch != nil) != tc.want || tc.want && !strings.Contains(string(patch), string(expected)) {
				t.Errorf("got %s, %v", patch, err)
			}
		})
	}
}

// Pins TAINT-41.
func TestFailuresAreRetriedUntilTheyNeedNotBe(t *testing.T) {
	for name, tc := range map[string]struct {
		request       string
		answer        error
		retry, failed bool
		requests      []string
	}{
		"TAINT-41: the patch fails": {"patch pods/status pod", errors.New("boom"), true, true, []string{"patch pods/status pod"}},
		"TAINT-52: the pod is gone": {"delete pods pod", apierrors.NewNotFound(corev1.Resource("pods"), "pod"), false, false,
			[]string{"patch pods/status pod", "delete pods pod"}},
		"TAINT-42: another pod has its name": {"delete pods pod", apierrors.NewConflict(corev1.Resource("pods"), "pod", errors.New("uid")), true, false,
			[]string{"patch pods/status pod", "delete pods pod"}},
		"TAINT-41: the deletion fails": {"delete pods pod", errors.New("boom"), true, true, []string{"patch pods/status pod", "delete pods pod"}},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := evicted(t)
			env.Refuse(tc.request, tc.answer)
			err := c.evict(env.Context(), podIdentity)
			if (err != nil) != tc.retry || err != nil && reconcile.IsExpected(err) == tc.failed {
				t.Errorf("got %v", err)
			}
			env.WantRequests(t, tc.requests...)
			env.WantEvents(t, marking)
			if _, ok := pending(env, c); !ok {
				t.Error("nothing is pending")
			}
			if got := env.Series(t, "taint_eviction_controller_pod_deletions_total"); !slices.Equal(got, []string{"0"}) {
				t.Errorf("deletions are %q", got)
			}
			_ = c.evict(env.Context(), podIdentity)
			env.WantEvents(t) // announced once
		})
	}
}

// The API server may say so because of an admission webhook: the cache shows whether a pod is gone. Pins TAINT-52.
func TestAWriteDoesNotProveThatAPodIsGone(t *testing.T) {
	gone := apierrors.NewNotFound(corev1.Resource("pods"), "pod")
	for _, request := range []string{"patch pods/status pod", "delete pods pod"} {
		for name, isGone := range map[string]bool{"it is there": false, "it is gone": true} {
			t.Run(request+": "+name, func(t *testing.T) {
				env := controllertest.New(t, node(taint("a")), tolerating())
				c := must.Get(newController(env.Env, config{separate: true}))(t)
				env.RefuseIf(request, gone, func(n int) bool {
					if n == 1 && isGone {
						env.Remove(t, tolerating())
					}
					return n == 1
				})
				env.Start(t)
				env.Run(t, c)
				controllertest.Eventually(t, "a write is refused", func() bool { return c.evictions.Inspect().Reconciled == 1 })
				if isGone {
					controllertest.Eventually(t, "nothing is pending", func() bool { return !c.appointments.has(podKey) })
				}
				env.Requests()
				env.EventuallyAsTimePasses(t, "the pod is looked at again", time.Second, func() bool { return c.evictions.Inspect().Reconciled == 2 })
				if took := env.Clock.Since(epoch); took < reconcile.RecheckAfter {
					t.Errorf("it is looked at again after %v", took)
				}
				_, stored := controllertest.Stored[*corev1.Pod](t, env, "ns", "pod")
				if writes := env.WriteVerbs(); stored || isGone != (len(writes) == 0) {
					t.Errorf("stored is %v after %q", stored, writes)
				}
				env.WantEvents(t, marking)
				wantNothingPending(t, env, c)
			})
		}
	}
}

// Pins TAINT-41 and TAINT-45.
func TestWhatIsCancelledBetweenAttemptsIsNotTriedAgain(t *testing.T) {
	env, c := evicted(t)
	env.Refuse("patch pods/status pod", errors.New("boom"))
	if err := c.evict(env.Context(), podIdentity); err == nil {
		t.Fatal("succeeded")
	}
	nodeChanged(t, env, c, node())
	env.WantEvents(t, marking, cancelling)
	env.Fake.ClearActions()
	if err := c.evict(env.Context(), podIdentity); err != nil {
		t.Fatal(err)
	}
	env.WantRequests(t)
}

// Pins TAINT-44.
func TestAPodThatIsGoneBecauseOfItsEvictionIsNotAnnouncedAsKept(t *testing.T) {
	env, c := evicted(t)
	env.Intercept("delete pods pod", func(clienttesting.Action) error {
		env.Uncache(t, tolerating())
		return c.reconcilePod(env.Context(), podKey)
	})
	if err := c.evict(env.Context(), podIdentity); err != nil {
		t.Fatal(err)
	}
	env.WantEvents(t, marking)
	wantNothingPending(t, env, c)
}

// The breaker is not asked for what is not to be deleted, or not yet. Pins TAINT-51.
func TestOnlyWhatIsDueIsCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		change  *corev1.Pod
		stopped bool
	}{
		"it is due":           {tolerating(), true},
		"it was postponed":    {tolerating(tolerates("a", 600)), false},
		"it was cancelled":    {tolerating(tolerates("a")), false},
		"it is another one's": {controllertest.Changed(tolerating(), func(p *corev1.Pod) { p.UID = "another" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, node(taint("a")), tolerating())
			breaker := &controllertest.Breaker{}
			c.Deletions = controller.DeletionsBy("c", breaker)
			breaker.Stop(corev1.Resource("pods"))
			podChanged(t, env, c, tc.change)
			_, stopped := controller.StoppedIn(c.evict(env.Context(), podIdentity))
			if stopped != tc.stopped {
				t.Errorf("stopped is %v", stopped)
			}
			env.WantRequests(t)
			env.WantEvents(t)
		})
	}
}

// An eviction that the breaker has stopped is neither announced nor begun.
func TestAnEvictionWaitsUntilPodsMayBeDeleted(t *testing.T) {
	env := controllertest.New(t, node(taint("a")), tolerating())
	breaker := &controllertest.Breaker{}
	env.Deletions = controller.DeletionsBy("c", breaker)
	breaker.Stop(corev1.Resource("pods"))
	c := must.Get(newController(env.Env, config{separate: true}))(t)
	env.Start(t)
	env.Run(t, c)
	// The pod is judged for itself, too: after its eviction, it would be evicted again while the cache still shows it.
	controllertest.Eventually(t, "the eviction is held back", func() bool {
		return c.evictions.Inspect().Stopped == 1 && env.Idle()
	})
	if verbs, events := env.WriteVerbs(), len(env.Events.Events); len(verbs) != 0 || events != 0 {
		t.Errorf("sent %q and %d events", verbs, events)
	}
	breaker.Resume()
	env.AwaitIdle(t)
	if verbs := env.WriteVerbs(); !slices.Equal(verbs, []string{"patch", "delete"}) {
		t.Errorf("sent %q", verbs)
	}
}

const month = 30 * 24 * 60 * 60

// Pins TAINT-55.
func TestNothingWaitsLongForAPodThatStays(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *controllertest.Env){
		"TAINT-55: it is gone": func(t *testing.T, env *controllertest.Env) { env.Remove(t, tolerating()) },
		"TAINT-55: the taint is gone": func(t *testing.T, env *controllertest.Env) {
			if _, err := env.Fake.CoreV1().Nodes().Update(env.Context(), node(), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, taken := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, taken over %t", name, taken), func(t *testing.T) {
				env := controllertest.New(t, node(taint("a")), tolerating(tolerates("a", month)))
				if taken {
					made := appointment{uid: "pod", node: "node", created: epoch, due: epoch.Add(month * time.Second)}
					env.Succeed(handover{map[types.NamespacedName]appointment{podKey: made}, epoch})
				}
				c := running(t, env)
				waiting := func() []controller.LoopKey { return c.evictions.Keys(func(string) bool { return true }) }
				for _, passes := range []time.Duration{0, 61 * time.Minute} {
					env.Clock.Step(passes)
					env.AwaitIdle(t)
					if longest := env.LongestDelay(waiting()); longest > time.Hour {
						t.Fatalf("a pod waits for %v", longest)
					}
				}
				end(t, env)
				controllertest.Eventually(t, "the eviction is cancelled", func() bool { return !c.appointments.has(podKey) })
				env.EventuallyAsTimePasses(t, "nothing waits", 10*time.Minute, func() bool { return env.Idle() && len(waiting()) == 0 })
			})
		}
	}
}

// Its key returns in between. Pins TAINT-55.
func TestAPodIsEvictedAfterALongTime(t *testing.T) {
	const limit = 5 * time.Hour
	env := controllertest.New(t, node(taint("a")), tolerating(tolerates("a", int64(limit.Seconds()))))
	running(t, env)
	env.EventuallyAsTimePasses(t, "the pod is evicted", 10*time.Minute, func() bool {
		_, stored := controllertest.Stored[*corev1.Pod](t, env, podKey.Namespace, podKey.Name)
		if lived := env.Clock.Since(epoch); !stored && lived < limit {
			t.Fatalf("it is evicted after %v", lived)
		}
		return !stored
	})
}
