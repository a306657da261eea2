package devicetainteviction

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

var podItem = item{NamespacedName: podKey, uid: "pod"}

// dueWorld is a pod that was due 30 seconds ago because of a rule, and objects besides.
func dueWorld(t testing.TB, change ...func(*corev1.Pod)) (*controllertest.Env, *evictionController) {
	t.Helper()
	env, c := fixture(t, rule("r", everything, noExecute), claim("d", "p", "d"), controllertest.Changed(pod("d"), change...))
	env.Clock.Step(30 * time.Second)
	return env, c
}

// Pins DTE-2, DTE-7, DTE-19, DTE-20, DTE-21, DTE-22, DTE-31, DTE-32, DTE-33, DTE-39, DTE-49 and DTE-60.
func TestEvict(t *testing.T) {
	env, c := dueWorld(t, func(p *corev1.Pod) { p.Generation = 3 })
	if err := c.reconcile(env.Context(), podItem); err != nil {
		t.Fatal(err)
	}
	actions := env.Fake.Actions()
	env.WantRequests(t, "get pods pod", "patch pods/status pod", "delete pods pod")
	want := `{"metadata":{"uid":"pod"},"status":{"conditions":[{"type":"DisruptionTarget","status":"True","lastProbeTime":null,` +
		`"lastTransitionTime":"2026-01-02T03:04:35Z","reason":"DeletionByDeviceTaintManager","message":"Device Taint manager: deleting due to NoExecute taint"}]}}`
	if patch := actions[1].(clienttesting.PatchActionImpl); string(patch.Patch) != want || patch.PatchType != types.StrategicMergePatchType {
		t.Errorf("patched with %s", patch.Patch)
	}
	options := actions[2].(clienttesting.DeleteActionImpl).DeleteOptions
	if options.GracePeriodSeconds != nil || *options.Preconditions.UID != "pod" || options.Preconditions.ResourceVersion != nil {
		t.Errorf("deleted with %+v", options)
	}
	env.WantEvents(t, marking)
	wantPending(t, c, -1)
	if c.counts["uid-of-r"] != 1 {
		t.Errorf("counts are %v", c.counts)
	}
	if got := env.Series(t, "device_taint_eviction_controller_pod_deletions_total"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("deletions are %q", got)
	}
	sum, bounds := env.Histogram(t, "device_taint_eviction_controller_pod_deletion_duration_seconds")
	if sum != 30 || !slices.Equal(bounds[:12], []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240}) {
		t.Errorf("duration is %v, in %v", sum, bounds)
	}
	// Until the cache shows its end, it is not evicted again.
	c.podChanged(pod("d"))
	wantPending(t, c, -1)
	if err := c.reconcile(env.Context(), podItem); err != nil {
		t.Fatal(err)
	}
	env.WantRequests(t)
	env.WantEvents(t)
}

// A rule may evict thousands of pods, which then end for as long as their grace periods last. Pins DTE-60 and DTE-65.
func TestManyEvictedPodsAreNotEvictedAgain(t *testing.T) {
	const many = 600
	objects := []runtime.Object{rule("r", everything, noExecute)}
	var pods []runtime.Object
	var keys []item
	for i := range many {
		name := fmt.Sprintf("pod-%d", i)
		users := others("a", name, "p", "d")
		objects, pods = append(objects, users...), append(pods, users[0])
		keys = append(keys, item{NamespacedName: types.NamespacedName{Namespace: "a", Name: name}, uid: users[0].(*corev1.Pod).UID})
	}
	env, c := fixture(t, objects...)
	for _, key := range keys {
		if err := c.evict(logr.NewContext(env.Context(), logr.Discard()), key); err != nil {
			t.Fatal(err)
		}
	}
	show(t, env, c, rule("another", everything, noExecute))
	if pending, evicted := len(c.appointments.all), c.counts["uid-of-r"]; pending != 0 || evicted != many {
		t.Errorf("%d pods are pending, and %d were evicted", pending, evicted)
	}

	hide(t, env, c, pods[1:]...)
	show(t, env, c, controllertest.Changed(pods[0].(*corev1.Pod).DeepCopy(), func(p *corev1.Pod) { p.UID = "x" }))
	if len(c.evicted) != 0 {
		t.Errorf("%d pods that are gone are remembered", len(c.evicted))
	}
	// Also if the answer to its deletion comes after the event.
	c.ended(keys[1], nil)
	if len(c.evicted) != 0 {
		t.Errorf("%v is remembered and was gone before", c.evicted)
	}
}

// A cluster that was restored from a backup has a pod as it was before its eviction. Pins DTE-71.
func TestARestoredPodIsEvictedAgain(t *testing.T) {
	env, c := dueWorld(t)
	pods := &controllertest.Captured{}
	c.watchPods(pods)
	if err := c.reconcile(env.Context(), podItem); err != nil {
		t.Fatal(err)
	}
	before, ending := pod("d"), controllertest.Changed(pod("d"), controllertest.Terminating)
	env.Cache(t, ending)
	pods.Handler.OnUpdate(before, ending)
	wantPending(t, c, -1)
	env.Cache(t, before)
	pods.Handler.OnUpdate(ending, before)
	wantPending(t, c, 0)
}

func TestWhatNeedsNoEviction(t *testing.T) {
	for name, tc := range map[string]struct {
		change   func(*testing.T, *controllertest.Env, *evictionController)
		key      item
		requests []string
		pending  int
	}{
		"DTE-19: nothing is pending": {func(t *testing.T, env *controllertest.Env, c *evictionController) {
			hide(t, env, c, rule("r", everything, noExecute))
			env.WantEvents(t, cancelling)
		}, podItem, nil, -1},
		"DTE-8, DTE-19: another pod of that name": {nil, item{NamespacedName: podKey, uid: "x"}, nil, 0},
		"DTE-19: it is due later": {func(t *testing.T, env *controllertest.Env, c *evictionController) {
			show(t, env, c, rule("r", everything, noExecute, func(r *resourcev1beta2.DeviceTaintRule) {
				r.Spec.Taint.TimeAdded = &metav1.Time{Time: seconds(90)}
			}))
		}, podItem, nil, 90},
		"DTE-20: it is gone": {func(t *testing.T, env *controllertest.Env, _ *evictionController) { env.Remove(t, pod("d")) }, podItem, []string{"get pods pod"}, -1},
		"DTE-20: another pod has its name": {func(t *testing.T, env *controllertest.Env, _ *evictionController) {
			env.Store(t, controllertest.Changed(pod("d"), func(p *corev1.Pod) { p.UID = "x" }))
		}, podItem, []string{"get pods pod"}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := dueWorld(t)
			if tc.change != nil {
				tc.change(t, env, c)
			}
			env.Fake.ClearActions()
			if err := c.reconcile(env.Context(), tc.key); err != nil {
				t.Fatal(err)
			}
			env.WantRequests(t, tc.requests...)
			env.WantEvents(t)
			wantPending(t, c, tc.pending)
			if got := env.Series(t, "device_taint_eviction_controller_pod_deletions_total"); !slices.Equal(got, []string{"0"}) || len(c.counts) > 0 {
				t.Errorf("deletions are %q, %v", got, c.counts)
			}
		})
	}
}

// While the pod is read, which waits for the limits of the client, the administrator may have removed the taint.
//
// Pins DTE-67.
func TestAnEvictionThatIsCancelledDuringTheReadDoesNotTakePlace(t *testing.T) {
	later := rule("r", everything, noExecute, func(r *resourcev1beta2.DeviceTaintRule) {
		r.Spec.Taint.TimeAdded = &metav1.Time{Time: seconds(90)}
	})
	for name, tc := range map[string]struct {
		change  func(*testing.T, *controllertest.Env, *evictionController)
		events  []string
		pending int
	}{
		"it is cancelled": {func(t *testing.T, env *controllertest.Env, c *evictionController) {
			t.Helper()
			hide(t, env, c, rule("r", everything, noExecute))
		}, []string{cancelling}, -1},
		"it is postponed": {func(t *testing.T, env *controllertest.Env, c *evictionController) {
			t.Helper()
			show(t, env, c, later)
		}, nil, 90},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := dueWorld(t)
			env.Intercept("get pods pod", func(clienttesting.Action) error {
				tc.change(t, env, c)
				return nil
			})
			if err := c.reconcile(env.Context(), podItem); err != nil {
				t.Fatal(err)
			}
			env.WantRequests(t, "get pods pod")
			env.WantEvents(t, tc.events...)
			wantPending(t, c, tc.pending)
		})
	}
}

// Pins DTE-20 and DTE-22.
func TestAPodThatIsBeingDeletedCountsAsEvicted(t *testing.T) {
	env, c := dueWorld(t, controllertest.Terminating)
	if err := c.reconcile(env.Context(), podItem); err != nil {
		t.Fatal(err)
	}
	env.WantRequests(t, "get pods pod")
	env.WantEvents(t)
	wantPending(t, c, -1)
	if got := env.Series(t, "device_taint_eviction_controller_pod_deletions_total"); !slices.Equal(got, []string{"1"}) || c.counts["uid-of-r"] != 1 {
		t.Errorf("deletions are %q, %v", got, c.counts)
	}
}

// An eviction that the breaker has stopped is not announced.
func TestAnEvictionWaitsUntilPodsMayBeDeleted(t *testing.T) {
	env, c := dueWorld(t)
	breaker := &controllertest.Breaker{}
	c.Deletions = controller.DeletionsBy("c", breaker)
	breaker.Stop(corev1.Resource("pods"))
	if _, only := controller.StoppedIn(c.reconcile(env.Context(), podItem)); !only {
		t.Error("it was not stopped")
	}
	env.WantRequests(t, "get pods pod")
	env.WantEvents(t)
	breaker.Resume()
	if err := c.reconcile(env.Context(), podItem); err != nil {
		t.Fatal(err)
	}
	env.WantRequests(t, "get pods pod", "patch pods/status pod", "delete pods pod")
	env.WantEvents(t, marking)
}

func TestFailuresAreRetriedUntilTheyNeedNotBe(t *testing.T) {
	gone := apierrors.NewNotFound(corev1.Resource("pods"), "pod")
	for name, tc := range map[string]struct {
		request  string
		answer   error
		retry    bool
		failed   bool
		events   []string
		requests []string
	}{
		"DTE-20: the read fails":             {"get pods pod", errors.New("boom"), true, true, nil, []string{"get pods pod"}},
		"DTE-21: the patch fails":            {"patch pods/status pod", errors.New("boom"), true, true, []string{marking}, []string{"get pods pod", "patch pods/status pod"}},
		"DTE-54: it is gone at the patch":    {"patch pods/status pod", gone, false, false, []string{marking}, []string{"get pods pod", "patch pods/status pod"}},
		"DTE-21: the deletion fails":         {"delete pods pod", errors.New("boom"), true, true, []string{marking}, []string{"get pods pod", "patch pods/status pod", "delete pods pod"}},
		"DTE-21: it is gone at the deletion": {"delete pods pod", gone, false, false, []string{marking}, []string{"get pods pod", "patch pods/status pod", "delete pods pod"}},
		"DTE-21: another pod has its name": {"delete pods pod", apierrors.NewConflict(corev1.Resource("pods"), "pod", errors.New("uid")), true, false,
			[]string{marking}, []string{"get pods pod", "patch pods/status pod", "delete pods pod"}},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := dueWorld(t)
			env.Refuse(tc.request, tc.answer)
			err := c.reconcile(env.Context(), podItem)
			if (err != nil) != tc.retry || err != nil && reconcile.IsExpected(err) == tc.failed {
				t.Errorf("got %v", err)
			}
			env.WantRequests(t, tc.requests...)
			env.WantEvents(t, tc.events...)
			wantPending(t, c, 0)
			if got := env.Series(t, "device_taint_eviction_controller_pod_deletions_total"); !slices.Equal(got, []string{"0"}) {
				t.Errorf("deletions are %q", got)
			}
			if tc.retry { // DTE-21: announced with every attempt
				_ = c.reconcile(env.Context(), podItem)
				env.WantEvents(t, tc.events...)
			}
		})
	}
}

// The API server may say so because of an admission webhook: only a read or the cache proves that a pod is gone. Pins DTE-63.
func TestAWriteDoesNotProveThatAPodIsGone(t *testing.T) {
	gone := apierrors.NewNotFound(corev1.Resource("pods"), "pod")
	for _, request := range []string{"patch pods/status pod", "delete pods pod"} {
		for name, isGone := range map[string]bool{"it is there": false, "it is gone": true} {
			t.Run(request+": "+name, func(t *testing.T) {
				env := controllertest.New(t, slice("p", 1, device("d", taint("a", 0))), claim("d", "p", "d"), pod("d"))
				c := must.Get(newController(env.Env, usual))(t)
				env.RefuseIf(request, gone, func(n int) bool {
					if n == 1 && isGone {
						env.Remove(t, pod("d"))
					}
					return n == 1
				})
				env.Start(t)
				env.Run(t, c)
				controllertest.Eventually(t, "a write is refused", func() bool { return c.loop.Inspect().Reconciled == 1 })
				if isGone {
					controllertest.Eventually(t, "nothing is pending", func() bool { return pending(c) < 0 })
				}
				env.Requests()
				env.EventuallyAsTimePasses(t, "the pod is looked at again", time.Second, func() bool { return c.loop.Inspect().Reconciled >= 2 })
				if took := env.Clock.Since(epoch); took < reconcile.RecheckAfter {
					t.Errorf("it is looked at again after %v", took)
				}
				_, stored := controllertest.Stored[*corev1.Pod](t, env, "ns", "pod")
				if writes := len(env.Writes()); stored || isGone != (writes == 0) {
					t.Errorf("stored is %v after %d writes", stored, writes)
				}
				wantPending(t, c, -1)
			})
		}
	}
}

// Pins DTE-31.
func TestTheConditionIsWrittenOnceWhateverBecomesOfTheDeletion(t *testing.T) {
	earlier := metav1.NewTime(epoch.Add(-time.Hour))
	has := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByDeviceTaintManager",
		Message: "Device Taint manager: deleting due to NoExecute taint", LastTransitionTime: earlier,
	}
	env, c := dueWorld(t, func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{has} })
	if err := c.reconcile(env.Context(), podItem); err != nil {
		t.Fatal(err)
	}
	env.WantRequests(t, "get pods pod", "delete pods pod")

	has.Reason = "PreemptionByScheduler"
	env, c = dueWorld(t, func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{has} })
	if err := c.reconcile(env.Context(), podItem); err != nil {
		t.Fatal(err)
	}
	if patch := env.Fake.Actions()[1].(clienttesting.PatchActionImpl); !slices.Contains(env.Requests(), "patch pods/status pod") ||
		!strings.Contains(string(patch.Patch), `"lastTransitionTime":"2026-01-02T02:04:05Z"`) {
		t.Errorf("patched with %s", patch.Patch)
	}
}

// Pins DTE-70.
func TestNothingWaitsLongForAPodThatStays(t *testing.T) {
	const month = 30 * 24 * 60 * 60
	for _, taken := range []bool{false, true} {
		env := controllertest.New(t, slice("p", 1, device("d", taint("a", 0))), claim("d", "p", "d", tolerates("a", month)), pod("d"))
		if taken {
			_, predecessor := fixture(t, slice("p", 1, device("d", taint("a", 0))), claim("d", "p", "d", tolerates("a", month)), pod("d"))
			env.Succeed(predecessor.HandOver())
		}
		c := running(t, env)
		wantPending(t, c, month)
		waiting := func() []controller.LoopKey { return c.loop.Keys(func(string) bool { return true }) }
		for _, passes := range []time.Duration{0, 61 * time.Minute} {
			env.Clock.Step(passes)
			env.AwaitIdle(t)
			if longest := env.LongestDelay(waiting()); longest > time.Hour {
				t.Fatalf("a pod waits for %v", longest)
			}
		}
		env.Remove(t, pod("d"))
		controllertest.Eventually(t, "nothing is pending", func() bool { return pending(c) < 0 })
		env.EventuallyAsTimePasses(t, "nothing waits", 10*time.Minute, func() bool { return env.Idle() && len(waiting()) == 0 })
	}
}

// Its key returns in between. Pins DTE-70.
func TestAPodIsEvictedAfterALongTime(t *testing.T) {
	const limit = 5 * 60 * 60
	env := controllertest.New(t, slice("p", 1, device("d", taint("a", 0))), claim("d", "p", "d", tolerates("a", limit)), pod("d"))
	running(t, env)
	env.EventuallyAsTimePasses(t, "the pod is evicted", 10*time.Minute, func() bool {
		_, stored := controllertest.Stored[*corev1.Pod](t, env, podKey.Namespace, podKey.Name)
		if lived := env.Clock.Since(epoch); !stored && lived < limit*time.Second {
			t.Fatalf("it is evicted after %v", lived)
		}
		return !stored
	})
}
