package tokencleaner

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// epoch is when controllertest's clocks start.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var key = types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-abc123"}

// token expires at a time in RFC 3339; empty means never.
func token(expiration string, change ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "uid", ResourceVersion: "7"},
		Type:       bootstrapapi.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			bootstrapapi.BootstrapTokenIDKey:     []byte("abc123"),
			bootstrapapi.BootstrapTokenSecretKey: []byte("keep-me-out-of-logs"),
		},
	}
	if expiration != "" {
		s.Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(expiration)
	}
	for _, c := range change {
		c(s)
	}
	return s
}

// in is a time as tokens have it.
func in(d time.Duration) string { return epoch.Add(d).Format(time.RFC3339) }

func start(t testing.TB, objects ...runtime.Object) (*controllertest.Env, *cleaner) {
	t.Helper()
	env := controllertest.New(t, objects...)
	c := must.Get(newCleaner(env.Env))(t)
	env.Start(t)
	env.Fake.ClearActions()
	return env, c
}

func TestFateOf(t *testing.T) {
	for name, test := range map[string]struct {
		expiration string
		want       fate
		remaining  time.Duration
	}{
		"TOK-8a: no expiration":                 {"", stays, 0},
		"TOK-8b, TOK-13: not a time":            {"garbage", malformed, 0},
		"TOK-8b: not in RFC 3339":               {"2027-01-02 03:04:05", malformed, 0},
		"TOK-8c: an hour ago":                   {in(-time.Hour), expired, 0},
		"TOK-8c: now":                           {in(0), expired, 0},
		"TOK-8d, TOK-12: the time that is left": {in(90 * time.Second), expires, 90 * time.Second},
		"TOK-8d: another time zone":             {epoch.Add(time.Hour).In(time.FixedZone("", 3600)).Format(time.RFC3339), expires, time.Hour},
		"TOK-8d: further than a duration":       {"9999-12-31T23:59:59Z", expires, time.Duration(1<<63 - 1)},
	} {
		t.Run(name, func(t *testing.T) {
			got, remaining := fateOf(token(test.expiration), epoch)
			if got != test.want || remaining != test.remaining {
				t.Errorf("got %v, %v", got, remaining)
			}
		})
	}
	if got, _ := fateOf(&corev1.Secret{}, epoch); got != stays {
		t.Errorf("a Secret without data: %v", got)
	}
}

func TestReconcileRequests(t *testing.T) {
	bare := func(s *corev1.Secret) { s.Data = map[string][]byte{"expiration": []byte(in(-1))} }
	for name, test := range map[string]struct {
		objects []runtime.Object
		deletes bool
	}{
		"TOK-7: gone":                  {nil, false},
		"TOK-7: another type":          {[]runtime.Object{token(in(-1), func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })}, false},
		"TOK-8a: never expires":        {[]runtime.Object{token("")}, false},
		"TOK-8d: not expired":          {[]runtime.Object{token(in(time.Hour))}, false},
		"TOK-9: expired":               {[]runtime.Object{token(in(-time.Hour))}, true},
		"TOK-13: not a time":           {[]runtime.Object{token("garbage")}, true},
		"TOK-10: nothing else matters": {[]runtime.Object{token("", bare)}, true},
		"TOK-10: being deleted": {[]runtime.Object{token(in(-1), func(s *corev1.Secret) {
			s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: epoch}, []string{"example.com/hold"}
		})}, true},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, test.objects...)
			if err := c.reconcile(env.Context(), key); err != nil {
				t.Fatal(err)
			}
			requests := env.Fake.Actions()
			if !test.deletes {
				if len(requests) != 0 {
					t.Errorf("requests: %v", requests)
				}
				return
			}
			if len(requests) != 1 || !requests[0].Matches("delete", "secrets") {
				t.Fatalf("requests: %v", requests)
			}
		})
	}
}

// One request, for just what was looked at. Pins TOK-16, TOK-20 and TOK-21.
func TestATokenIsDeletedAsItWasSeen(t *testing.T) {
	env, c := start(t, token(in(-time.Hour)))
	if err := c.reconcile(env.Context(), key); err != nil {
		t.Fatal(err)
	}
	requests := env.Fake.Actions()
	if len(requests) != 1 {
		t.Fatalf("requests: %v", requests)
	}
	request := requests[0].(clienttesting.DeleteActionImpl)
	p := request.DeleteOptions.Preconditions
	if request.Namespace != key.Namespace || request.Name != key.Name || *p.UID != "uid" || *p.ResourceVersion != "7" {
		t.Errorf("request: %+v", request)
	}
}

func TestFailures(t *testing.T) {
	resource := corev1.Resource("secrets")
	for name, test := range map[string]struct {
		refusal error
		retry   bool
	}{
		"TOK-9: gone":                        {apierrors.NewNotFound(resource, key.Name), false},
		"TOK-9, TOK-21: changed or replaced": {apierrors.NewConflict(resource, key.Name, errors.New("precondition failed")), false},
		"TOK-22: anything else":              {apierrors.NewInternalError(errors.New("boom")), true},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, token(in(-time.Hour)))
			env.Fake.PrependReactor("delete", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.refusal })
			if err := c.reconcile(env.Context(), key); (err != nil) != test.retry {
				t.Errorf("got %v", err)
			}
		})
	}
}

// deleted reports whether the token has been deleted.
func deleted(env *controllertest.Env) bool {
	for _, action := range env.Writes() {
		if action.Matches("delete", "secrets") {
			return true
		}
	}
	return false
}

func TestADeleteThatFailsIsRepeated(t *testing.T) {
	for name, test := range map[string]struct {
		refusal error
		step    time.Duration
	}{
		"TOK-22: with backoff":                        {errors.New("boom"), time.Millisecond},
		"TOK-26: a conflict, and nothing has changed": {apierrors.NewConflict(corev1.Resource("secrets"), key.Name, errors.New("a webhook says so")), time.Second},
		"TOK-27: not found, and it is there":          {apierrors.NewNotFound(corev1.Resource("secrets"), key.Name), time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, token(in(-time.Hour)))
			env.RefuseIf("delete secrets "+key.Name, test.refusal, func(n int) bool { return n == 1 })
			env.Run(t, c)
			env.EventuallyAsTimePasses(t, "the token is gone", test.step, func() bool {
				_, err := env.Fake.CoreV1().Secrets(key.Namespace).Get(t.Context(), key.Name, metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			})
		})
	}
}

// The token is gone indeed: nothing is sent for it again. Pins TOK-27.
func TestATokenThatIsGoneIsNotDeletedAgain(t *testing.T) {
	env, c := start(t, token(in(-time.Hour)))
	env.Intercept("delete secrets "+key.Name, func(clienttesting.Action) error {
		env.Remove(t, token(""))
		return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
	})
	env.Run(t, c)
	controllertest.Eventually(t, "the cache shows that the token is gone", func() bool {
		_, err := c.secrets.Get(key.Name)
		return apierrors.IsNotFound(err) && c.loop.Inspect().Reconciled == 1
	})
	env.Requests()
	env.EventuallyAsTimePasses(t, "its key is looked at again", time.Second, func() bool { return c.loop.Inspect().Reconciled == 2 })
	env.WantRequests(t)
}

// Timers follow what is in the cache, and the clock of the process. Pins TOK-17.
func TestTimers(t *testing.T) {
	for name, test := range map[string]struct {
		expiration string
		change     string        // of the expiration, after the first reconcile
		early      time.Duration // when it is not due yet
		due        time.Duration
	}{
		"TOK-8d, TOK-12, TOK-19: after exactly the time that is left": {in(time.Hour), "", time.Hour - time.Nanosecond, time.Hour},
		"TOK-14: extended":  {in(time.Hour), in(2 * time.Hour), 90 * time.Minute, 2 * time.Hour},
		"TOK-14: shortened": {in(2 * time.Hour), in(time.Hour), 59 * time.Minute, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, token(test.expiration))
			env.Run(t, c)
			seen := uint64(1)
			reconciled := func() {
				t.Helper()
				controllertest.Eventually(t, "the token is looked at", func() bool { return c.loop.Inspect().Reconciled >= seen })
				// One timer of the delaying queue that ticks, one that waits.
				controllertest.Eventually(t, "the timer is set", func() bool { return env.Clock.Waiters() >= 2 })
			}
			reconciled()
			if test.change != "" {
				update(t, env, token(test.change, func(s *corev1.Secret) { s.ResourceVersion = "8" }))
				seen++
				reconciled()
			}
			env.Clock.SetTime(epoch.Add(test.early))
			seen++ // it is looked at now and then
			reconciled()
			if deleted(env) {
				t.Fatal("it is deleted before it has expired")
			}
			env.Clock.SetTime(epoch.Add(test.due))
			// A timer that is set just now may have been computed before the clock was.
			env.EventuallyAsTimePasses(t, "the token is deleted", time.Nanosecond, func() bool { return deleted(env) })
		})
	}
}

// No event tells that the clock was set. Pins TOK-28.
func TestATokenIsLookedAtAgainUntilItExpires(t *testing.T) {
	env := controllertest.New(t, token(in(24*time.Hour)))
	c := must.Get(newCleaner(env.Env))(t)
	queued := &controllertest.Queue[types.NamespacedName]{} // of the handler too, from the start
	c.queue = queued
	env.Start(t)
	env.Fake.ClearActions()
	for _, test := range []struct {
		set, want time.Duration // what the clock shows, and after which time it is reconciled again
	}{
		{0, 10 * time.Minute},
		{24*time.Hour - 10*time.Minute - time.Second, 10 * time.Minute},
		{24*time.Hour - time.Minute, time.Minute},
	} {
		env.Clock.SetTime(epoch.Add(test.set))
		if err := c.reconcile(env.Context(), key); err != nil {
			t.Fatal(err)
		}
		if delay := queued.TakeDelay(key); delay != test.want {
			t.Errorf("it is reconciled again after %v, want %v", delay, test.want)
		}
	}
	env.WantRequests(t)
}

func update(t *testing.T, env *controllertest.Env, secret *corev1.Secret) {
	t.Helper()
	if _, err := env.Fake.CoreV1().Secrets(secret.Namespace).Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// The next instance makes the appointments of the one before it. Pins TOK-19.
func TestTimersSurviveARestart(t *testing.T) {
	env, c := start(t, token(in(time.Hour)))
	stop := env.Run(t, c)
	controllertest.Eventually(t, "the token is looked at", func() bool { return c.loop.Inspect().Reconciled == 1 })
	stop()
	env.Clock.Step(2 * time.Hour)
	env.Succeed(nil)
	next := must.Get(newCleaner(env.Env))(t)
	env.Start(t)
	env.Run(t, next)
	controllertest.Eventually(t, "the token is deleted", func() bool { return deleted(env) })
}

// Pins TOK-4.
func TestOnlyTokensOfTheNamespaceAreQueued(t *testing.T) {
	elsewhere := token("", func(s *corev1.Secret) { s.Namespace = "default" })
	opaque := token("", func(s *corev1.Secret) { s.Name, s.Type = "other", corev1.SecretTypeOpaque })
	env, c := start(t, token(""), elsewhere, opaque)
	if depth := c.loop.Inspect().Depth; depth != 1 {
		t.Errorf("%d keys are queued, want that of the token", depth)
	}
	env.Run(t, c)
	reconciled := func(n uint64) {
		t.Helper()
		controllertest.Eventually(t, "the token is looked at", func() bool { return c.loop.Inspect().Reconciled >= n })
	}
	reconciled(1)
	update(t, env, token("", func(s *corev1.Secret) { s.ResourceVersion = "8" }))
	reconciled(2)
	if err := env.Fake.CoreV1().Secrets(key.Namespace).Delete(t.Context(), key.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := env.Fake.CoreV1().Secrets(key.Namespace).Create(t.Context(), token("", func(s *corev1.Secret) { s.Name = "second" }), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	reconciled(3) // of the second one, which is seen after the deletion
	env.AwaitIdle(t)
	if got := env.Series(t, "workqueue_adds_total"); !slices.Equal(got, []string{"name=token_cleaner 3"}) {
		t.Errorf("keys were queued: %q, and a delete queues nothing", got)
	}
}

// Pins TOK-4 and TOK-24.
func TestDeletionsSeenByANewListQueueNothing(t *testing.T) {
	_, c := start(t)
	secrets := &controllertest.Captured{Resync: time.Hour}
	c.watch(secrets)
	if secrets.Resync != 0 {
		t.Errorf("they are resynced every %v", secrets.Resync)
	}
	secrets.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: key.String(), Obj: token("")})
	secrets.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: key.String(), Obj: &corev1.Secret{}})
	if depth := c.loop.Inspect().Depth; depth != 0 {
		t.Errorf("%d keys are queued", depth)
	}
}

// Only tokens are cached, in one cache for this controller and the one that signs. Pins TOK-23.
func TestOnlyTokensAreCached(t *testing.T) {
	env := controllertest.New(t)
	if _, err := newCleaner(env.Env); err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	for _, action := range env.Fake.Actions() {
		list, ok := action.(clienttesting.ListActionImpl)
		if !ok {
			continue
		}
		if got := list.ListOptions.FieldSelector; list.Namespace != "kube-system" || got != "type=bootstrap.kubernetes.io/token" {
			t.Errorf("it lists %s in %q by %q", list.Resource.Resource, list.Namespace, got)
		}
	}
}

// Nothing of a token but its name is logged, whatever the verbosity.
func TestLogsHoldNothingOfATokenButItsName(t *testing.T) {
	for name, test := range map[string]struct{ expiration, want string }{
		"TOK-25: not a time": {"not-a-time-but-a-mistake", `INFO Deleting a bootstrap token whose expiration is not an RFC 3339 time secret="kube-system/bootstrap-token-abc123"`},
		"TOK-9: expired":     {in(-time.Hour), `INFO Deleting an expired bootstrap token secret="kube-system/bootstrap-token-abc123"`},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, token(test.expiration))
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(10)))
			boom := errors.New("boom")
			env.Fake.PrependReactor("delete", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, boom })
			err := c.reconcile(klog.NewContext(env.Context(), logger), key)
			log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			if !strings.Contains(log, test.want) {
				t.Errorf("the log is %s", log)
			}
			if want := "deleting secret kube-system/bootstrap-token-abc123: boom"; !errors.Is(err, boom) || err.Error() != want {
				t.Errorf("the error is %v", err)
			}
			for _, hidden := range []string{"keep-me-out-of-logs", "mistake"} {
				if strings.Contains(log+err.Error(), hidden) {
					t.Errorf("%q is in %s or %v", hidden, log, err)
				}
			}
		})
	}
}

// Pins TOK-1, TOK-2, TOK-3, TOK-6 and TOK-11.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if d.Name != "token-cleaner-controller" || len(d.Aliases) != 1 || d.Aliases[0] != "tokencleaner" || d.ServiceAccount != "token-cleaner" || d.Gate != "" || d.EventSource != "" {
		t.Errorf("it is %+v", d)
	}
	cfg := v1beta1.NewDefault()
	if on, _ := d.Enabled(cfg); on {
		t.Error("it is on by default")
	}
	if d.Value(cfg) != d.Value(&v1beta1.KubeControllerManagerConfiguration{}) {
		t.Error("it depends on the configuration")
	}
	c := must.Get(d.New(controllertest.New(t).Env, d.Value(cfg)))(t)
	if s := c.(*cleaner).loop.Inspect(); s.Workers != 1 || s.Queue != "token_cleaner" {
		t.Errorf("loop: %+v", s)
	}
	c.(*cleaner).enqueue(reconcile.Fresh, token(""))
	if keys := c.(*cleaner).loop.Inspect().Depth; keys != 1 {
		t.Errorf("%d keys", keys)
	}
}
