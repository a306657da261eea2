package legacytokencleaner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	configuration "kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// tracking is the ConfigMap of an API server that records use since a day.
func tracking(since string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-apiserver-legacy-service-account-token-tracking"}}
	if since != "" {
		cm.Data = map[string]string{"since": since}
	}
	return cm
}

// pod mounts a Secret.
func pod(name, secret string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}),
	}
}

func start(t testing.TB, objects ...runtime.Object) (*controllertest.Env, *cleaner) {
	t.Helper()
	env := controllertest.New(t, objects...)
	c := must.Get(newCleaner(env.Env, value(period)))(t)
	env.Start(t)
	env.Fake.ClearActions()
	return env, c
}

func value(period time.Duration) config { return config{period: period} }

// requests are the requests made, as "verb resource/name".
func requests(env *controllertest.Env) []string {
	var all []string
	for _, action := range env.Fake.Actions() {
		name := ""
		switch a := action.(type) {
		case clienttesting.GetActionImpl:
			name = a.Name
		case clienttesting.PatchActionImpl:
			name = a.Name + " " + string(a.PatchType) + " " + string(a.Patch)
		case clienttesting.DeleteActionImpl:
			name = fmt.Sprintf("%s as %s at %s", a.Name, *a.DeleteOptions.Preconditions.UID, *a.DeleteOptions.Preconditions.ResourceVersion)
		default:
			name = action.GetNamespace()
		}
		all = append(all, fmt.Sprintf("%s %s/%s", action.GetVerb(), action.GetResource().Resource, name))
	}
	return all
}

const (
	readTracking = "get configmaps/kube-apiserver-legacy-service-account-token-tracking"
	patchToday   = `patch secrets/robot-token application/merge-patch+json {"kind":"Secret","apiVersion":"v1","metadata":{"name":"robot-token","namespace":"ns","uid":"uid","resourceVersion":"7","labels":{"kubernetes.io/legacy-token-invalid-since":"2026-01-02"}}}`
	deleteIt     = "delete secrets/robot-token as uid at 7"
	listPods     = "list pods/ns"
	watchPods    = "watch pods/ns"
)

func TestPassRequests(t *testing.T) {
	const long = "2025-01-01"
	type objects = []runtime.Object
	only := []string{readTracking}
	for name, test := range map[string]struct {
		objects objects
		want    []string
		fails   bool
	}{
		"LSAT-14: no tracking":                 {objects{secret(), account()}, only, true},
		"LSAT-14: tracking says nothing":       {objects{tracking(""), secret(), account()}, only, true},
		"LSAT-14: tracking is not a day":       {objects{tracking("2022-12-27-1"), secret(), account()}, only, true},
		"LSAT-15: not tracked for long enough": {objects{tracking("2025-12-23"), secret(), account()}, only, false},
		"LSAT-15: tracked for just long enough": {objects{tracking("2025-12-22"), secret(), account()},
			[]string{readTracking, listPods, patchToday}, false},

		"LSAT-18, LSAT-20, LSAT-33, LSAT-38: never used":    {objects{tracking(long), secret(), account()}, []string{readTracking, listPods, patchToday}, false},
		"LSAT-18: used long ago":                            {objects{tracking(long), secret(lastUsed("2025-06-01")), account()}, []string{readTracking, listPods, patchToday}, false},
		"LSAT-25: an invalid day is written over":           {objects{tracking(long), secret(invalidSince("2022-12-29-1")), account()}, []string{readTracking, listPods, patchToday}, false},
		"LSAT-19, LSAT-40: labelled less than a period ago": {objects{tracking(long), secret(invalidSince("2025-12-30")), account()}, only, false},
		"LSAT-19, LSAT-33, LSAT-38: labelled a period ago":  {objects{tracking(long), secret(invalidSince("2025-12-01")), account()}, []string{readTracking, listPods, deleteIt}, false},

		"LSAT-17a: Opaque":        {objects{tracking(long), secret(func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }), account()}, only, false},
		"LSAT-17b: made too late": {objects{tracking(long), secret(func(s *corev1.Secret) { s.CreationTimestamp = metav1.NewTime(epoch) }), account()}, only, false},
		"LSAT-17c: being deleted": {objects{tracking(long), secret(func(s *corev1.Secret) {
			s.DeletionTimestamp = &metav1.Time{Time: epoch}
			s.Finalizers = []string{"example.com/hold"}
		}), account()}, only, false},
		"LSAT-17d: used lately":               {objects{tracking(long), secret(lastUsed("2026-01-01")), account()}, only, false},
		"LSAT-25: last used on no day":        {objects{tracking(long), secret(lastUsed("2022-12-27-1")), account()}, only, false},
		"LSAT-17e: no account":                {objects{tracking(long), secret()}, only, false},
		"LSAT-17e: an account of another UID": {objects{tracking(long), secret(), account(func(a *corev1.ServiceAccount) { a.UID = "other" })}, only, false},
		"LSAT-17e: an account elsewhere":      {objects{tracking(long), secret(), account(func(a *corev1.ServiceAccount) { a.Namespace = "other" })}, only, false},
		"LSAT-17e: names no account":          {objects{tracking(long), secret(func(s *corev1.Secret) { s.Annotations = nil }), account()}, only, false},
		"LSAT-17f: somebody made it":          {objects{tracking(long), secret(), account(func(a *corev1.ServiceAccount) { a.Secrets = nil })}, only, false},
		"LSAT-17g, LSAT-34: a pod mounts it":  {objects{tracking(long), secret(), account(), pod("p", "robot-token")}, only, false},
		"LSAT-17g: a pod mounts another one":  {objects{tracking(long), secret(), account(), pod("p", "other")}, []string{readTracking, listPods, patchToday}, false},
		"LSAT-29: a pod uses the account": {objects{tracking(long), secret(), account(), func() *corev1.Pod {
			p := pod("p", "other")
			p.Spec.ServiceAccountName = "robot"
			return p
		}()}, []string{readTracking, listPods, patchToday}, false},
		"LSAT-35, LSAT-41: no token Secrets, no pods are looked at": {objects{tracking(long), pod("p", "x")}, only, false},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, test.objects...)
			if err := c.clean(env.Context(), env.Context()); (err != nil) != test.fails {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, sentByPass(env)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// sentByPass leaves out the watches of informers, which may follow at any time.
func sentByPass(env *controllertest.Env) []string {
	var all []string
	for _, request := range requests(env) {
		if request != watchPods {
			all = append(all, request)
		}
	}
	return all
}

// What the cache does not show is asked for before a Secret is touched. Pins LSAT-39.
func TestAPodThatTheCacheDoesNotShowIsFound(t *testing.T) {
	for name, labels := range map[string]func(*corev1.Secret){"before the label": func(*corev1.Secret) {}, "before the delete": invalidSince("2025-12-01")} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, tracking("2025-01-01"), secret(labels), account())
			env.Fake.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &corev1.PodList{Items: []corev1.Pod{*pod("new", "robot-token")}}, nil
			})
			if err := c.clean(env.Context(), env.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{readTracking, listPods}, sentByPass(env)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// The pods of a namespace are asked for once in a pass, whatever the answer, and again in the
// next one. Pins LSAT-34 and LSAT-39.
func TestPodsAreListedOncePerNamespaceAndPass(t *testing.T) {
	objects := []runtime.Object{tracking("2025-01-01")}
	a := account(func(a *corev1.ServiceAccount) { a.Secrets = nil })
	for n := range 5 {
		name := fmt.Sprint("token-", n)
		objects = append(objects, secret(func(s *corev1.Secret) { s.Name = name }))
		a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: name})
	}
	env, c := start(t, append(objects, a)...)
	env.Fake.PrependReactor("patch", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("boom") })
	for pass := 1; pass <= 2; pass++ {
		if err := c.clean(env.Context(), env.Context()); err != nil {
			t.Fatal(err)
		}
		counts := map[string]int{}
		for _, action := range env.Fake.Actions() {
			counts[action.GetVerb()+" "+action.GetResource().Resource]++
		}
		delete(counts, "watch pods")
		if diff := cmp.Diff(map[string]int{"get configmaps": pass, "list pods": pass, "patch secrets": 5 * pass}, counts); diff != "" {
			t.Errorf("requests after pass %d (-want +got):\n%s", pass, diff)
		}
	}
}

// Each candidate of a namespace whose pods cannot be listed would wait as long for the failure. Pins LSAT-39.
func TestAFailureToListPodsIsRememberedForThePass(t *testing.T) {
	env, c := start(t)
	allow := env.Refuse("list pods", apierrors.NewInternalError(errors.New("boom")))
	used := newUsage(c)
	ended, end := context.WithCancel(env.Context())
	end() // as the time limit would
	if _, err := used.refersTo(ended, "ns", "a"); err == nil {
		t.Fatal("no error")
	}
	allow()
	if _, err := used.refersTo(env.Context(), "ns", "b"); err == nil {
		t.Error("the pods are listed a second time in one pass")
	}
	if _, err := used.refersTo(env.Context(), "other", "a"); err != nil {
		t.Errorf("another namespace: %v", err)
	}
	if _, err := newUsage(c).refersTo(env.Context(), "ns", "b"); err != nil {
		t.Errorf("the next pass: %v", err)
	}
}

// Pins LSAT-39.
func TestAStopDuringTheListOfPodsIsNoFailure(t *testing.T) {
	env, c := start(t, tracking("2025-01-01"), secret(), account())
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx, stop := context.WithCancel(klog.NewContext(env.Context(), logger))
	env.Intercept("list pods", func(clienttesting.Action) error {
		stop()
		return apierrors.NewInternalError(errors.New("boom"))
	})
	c.pass(ctx, env.Context())
	if log := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); strings.Contains(log, "failed, the next try") || strings.Contains(log, "Retiring an unused token failed") {
		t.Errorf("the log is %s", log)
	}
	if got := env.Writes(); len(got) != 0 {
		t.Errorf("writes are %v after the stop", got)
	}
}

// A refusal of one Secret is logged and does not keep others from being looked at. Pins LSAT-11.
func TestFailures(t *testing.T) {
	resource := corev1.Resource("secrets")
	for name, test := range map[string]struct {
		labels  func(*corev1.Secret)
		verb    string
		refusal error
		log     string
	}{
		"LSAT-18: a patch of one that is gone":                      {func(*corev1.Secret) {}, "patch", apierrors.NewNotFound(resource, "robot-token"), "labelling secret ns/robot-token as invalid: secrets \\\"robot-token\\\" not found"},
		"LSAT-18: a patch of a successor":                           {func(*corev1.Secret) {}, "patch", apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Secret").GroupKind(), "robot-token", nil), "labelling secret ns/robot-token as invalid: "},
		"LSAT-38, LSAT-42: a patch of one that was used meanwhile":  {func(*corev1.Secret) {}, "patch", apierrors.NewConflict(resource, "robot-token", errors.New("used")), ""},
		"LSAT-18: any other refusal of a patch":                     {func(*corev1.Secret) {}, "patch", errors.New("boom"), "labelling secret ns/robot-token as invalid: boom"},
		"LSAT-19, LSAT-27: a delete of one that was used meanwhile": {invalidSince("2025-12-01"), "delete", apierrors.NewConflict(resource, "robot-token", errors.New("used")), ""},
		"LSAT-19: a delete of one that is gone":                     {invalidSince("2025-12-01"), "delete", apierrors.NewNotFound(resource, "robot-token"), ""},
		"LSAT-19: any other refusal of a delete":                    {invalidSince("2025-12-01"), "delete", errors.New("boom"), "deleting secret ns/robot-token: boom"},
		"LSAT-25: a label that is no day":                           {lastUsed("2022-12-27-1"), "patch", nil, "parsing label kubernetes.io/legacy-token-last-used: "},
	} {
		t.Run(name, func(t *testing.T) {
			other := secret(func(s *corev1.Secret) { s.Name = "z" })
			env, c := start(t, tracking("2025-01-01"), secret(test.labels), other, account(func(a *corev1.ServiceAccount) {
				a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: "z"})
			}))
			env.Fake.PrependReactor(test.verb, "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if p, ok := action.(clienttesting.PatchActionImpl); ok && p.Name == "z" {
					return false, nil, nil
				}
				return true, nil, test.refusal
			})
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(10)))
			ctx := klog.NewContext(env.Context(), logger)
			if err := c.clean(ctx, ctx); err != nil {
				t.Fatal(err)
			}
			log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			if logged := strings.Contains(log, `ERROR Retiring an unused token failed`); logged != (test.log != "") || !strings.Contains(log, test.log) {
				t.Errorf("the log is %s", log)
			}
			if !strings.Contains(log, `INFO Marked an unused token as invalid secret="ns/z" since="2026-01-02"`) {
				t.Errorf("the other one is not labelled: %s", log)
			}
			if strings.Contains(log, `secret="ns/robot-token" since=`) || strings.Contains(log, "Deleted an unused token") {
				t.Errorf("what was refused is logged as done: %s", log)
			}
			if strings.Contains(log, "keep-me-out-of-logs") {
				t.Errorf("a token is in %s", log)
			}
		})
	}
}

// Pins LSAT-23.
func TestWhatIsDoneIsLogged(t *testing.T) {
	for want, labels := range map[string]func(*corev1.Secret){
		`INFO Marked an unused token as invalid secret="ns/robot-token" since="2026-01-02"`: func(*corev1.Secret) {},
		`INFO Deleted an unused token secret="ns/robot-token" invalidSince="2025-12-01"`:    invalidSince("2025-12-01"),
	} {
		env, c := start(t, tracking("2025-01-01"), secret(labels), account())
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
		ctx := klog.NewContext(env.Context(), logger)
		if err := c.clean(ctx, ctx); err != nil {
			t.Fatal(err)
		}
		if log := strings.TrimSpace(logger.GetSink().(ktesting.Underlier).GetBuffer().String()); log != want {
			t.Errorf("the log is %s", log)
		}
		families, err := env.Metrics.Gather()
		if err != nil || len(families) != 0 {
			t.Errorf("metrics: %v, %v", families, err)
		}
	}
}

// passesOf is how many passes have begun.
func passesOf(env *controllertest.Env) int {
	n := 0
	for _, request := range requests(env) {
		if request == readTracking {
			n++
		}
	}
	return n
}

// A pass at once, the next one a day after its end, whether or not it failed.
// Pins LSAT-5, LSAT-11 and LSAT-24.
func TestPassesAreADayApart(t *testing.T) {
	env, c := start(t)
	env.Run(t, c)
	for want := 1; want <= 3; want++ {
		controllertest.Eventually(t, "the timer is set", func() bool { return passesOf(env) == want && env.Clock.HasWaiters() })
		env.Clock.Step(24*time.Hour - time.Nanosecond)
		if !env.Clock.HasWaiters() {
			t.Fatal("the timer is not that of a day")
		}
		env.Clock.Step(time.Nanosecond)
	}
}

// Both thresholds are a period: a token that is not used goes after two. Pins LSAT-24 and LSAT-16.
func TestATokenGoesAfterTwoPeriods(t *testing.T) {
	env, c := start(t, tracking("2025-01-01"), secret(), account())
	env.Run(t, c)
	gone := func() bool {
		_, err := env.Fake.CoreV1().Secrets("ns").Get(t.Context(), "robot-token", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}
	controllertest.Eventually(t, "the Secret is gone", func() bool {
		if env.Clock.HasWaiters() { // no pass is under way
			env.Clock.Step(12 * time.Hour)
		}
		return gone()
	})
	if elapsed := env.Clock.Now().Sub(epoch); elapsed < period || elapsed > period+72*time.Hour {
		t.Errorf("it went %v after it was marked, the period is %v", elapsed, period)
	}
}

// Nothing is remembered: an instance begins with a pass. Pins LSAT-32.
func TestTheNextInstanceBeginsWithAPass(t *testing.T) {
	env, c := start(t, tracking("2025-01-01"), account())
	stop := env.Run(t, c)
	controllertest.Eventually(t, "the first pass is over", func() bool { return env.Clock.HasWaiters() })
	stop()
	if _, err := env.Fake.CoreV1().Secrets("ns").Create(t.Context(), secret(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "the cache shows it", func() bool {
		_, err := c.secrets.Secrets("ns").Get("robot-token")
		return err == nil
	})
	env.Succeed(nil)
	next := must.Get(newCleaner(env.Env, value(period)))(t)
	env.Start(t)
	env.Run(t, next)
	controllertest.Eventually(t, "the Secret is labelled", func() bool {
		s, err := env.Fake.CoreV1().Secrets("ns").Get(t.Context(), "robot-token", metav1.GetOptions{})
		return err == nil && s.Labels[invalidSinceLabel] != ""
	})
}

// Pins LSAT-6.
func TestThereAreNoHandlersAndOnlyTokenSecretsAreCached(t *testing.T) {
	env := controllertest.New(t)
	if _, err := newCleaner(env.Env, value(period)); err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	got := map[string]string{}
	for _, action := range env.Fake.Actions() {
		if list, ok := action.(clienttesting.ListActionImpl); ok {
			got[list.Resource.Resource] = list.Namespace + list.ListOptions.FieldSelector
		}
	}
	want := map[string]string{"serviceaccounts": "", "pods": "", "secrets": "type=kubernetes.io/service-account-token"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
}

// Pins LSAT-1, LSAT-2, LSAT-4 and LSAT-37.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if d.Name != "legacy-serviceaccount-token-cleaner-controller" || len(d.Aliases) != 1 || d.Aliases[0] != "legacy-service-account-token-cleaner" ||
		d.ServiceAccount != "legacy-service-account-token-cleaner" || d.Gate != "" || d.EventSource != "" {
		t.Errorf("it is %+v", d)
	}
	cfg := v1beta1.NewDefault()
	if on, reason := d.Enabled(cfg); !on {
		t.Errorf("it is off by default: %s", reason)
	}
	if got := d.Value(cfg); got != value(365*24*time.Hour) {
		t.Errorf("by default its value is %v", got)
	}
	for period, valid := range map[string]bool{"24h": true, "23h": false, "0s": false, "-1h": false} {
		text := "apiVersion: config.kcmd.dev/v1beta1\nkind: KubeControllerManagerConfiguration\n" +
			"controllers: {legacy-serviceaccount-token-cleaner-controller: {cleanUpPeriod: " + period + "}}\n"
		_, err := configuration.Load("x.yaml", []byte(text))
		if (err == nil) != valid {
			t.Errorf("a period of %s: %v", period, err)
		}
	}
}

func TestSecretsInAPausedNamespaceAreKept(t *testing.T) {
	env, c := start(t, tracking("2025-01-01"), secret(), account())
	env.Pauses.Set([]string{"ns"})
	if err := c.clean(env.Context(), env.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{readTracking}, sentByPass(env)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
