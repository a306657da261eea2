package bootstrapsigner

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func start(t testing.TB, objects ...runtime.Object) (*controllertest.Env, *signer) {
	t.Helper()
	env := controllertest.New(t, objects...)
	s := must.Get(newSigner(env.Env))(t)
	env.Start(t)
	env.Fake.ClearActions()
	return env, s
}

// info is the ConfigMap with this data.
func info(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info", UID: "uid", ResourceVersion: "7", Labels: map[string]string{"kept": "too"}},
		Data:       data,
	}
}

// updates are the ConfigMaps that were sent; any other request than a read of a token fails the test.
func updates(t *testing.T, env *controllertest.Env) []*corev1.ConfigMap {
	t.Helper()
	var all []*corev1.ConfigMap
	for _, action := range env.Fake.Actions() {
		if action.Matches("get", "secrets") {
			continue
		}
		update, ok := action.(clienttesting.UpdateActionImpl)
		if !ok {
			t.Fatalf("unexpected request: %v", action)
		}
		all = append(all, update.Object.(*corev1.ConfigMap))
	}
	return all
}

func TestReconcileRequests(t *testing.T) {
	for name, test := range map[string]struct {
		objects []runtime.Object
		want    map[string]string // of the data that is sent; nil if nothing is
	}{
		"BOOT-12: no ConfigMap": {[]runtime.Object{secret()}, nil},
		"BOOT-13: no kubeconfig, signatures stay": {
			[]runtime.Object{info(map[string]string{"jws-kubeconfig-abc123": "old"}), secret()}, nil},
		"BOOT-13: no data at all": {[]runtime.Object{info(nil), secret()}, nil},
		"BOOT-16, BOOT-30: not signed yet": {
			[]runtime.Object{info(map[string]string{"kubeconfig": "payload"}), secret()},
			map[string]string{"kubeconfig": "payload", "jws-kubeconfig-abc123": vector}},
		"BOOT-18: signed already": {
			[]runtime.Object{info(map[string]string{"kubeconfig": "payload", "jws-kubeconfig-abc123": vector}), secret()}, nil},
		"BOOT-16: another signature": {
			[]runtime.Object{info(map[string]string{"kubeconfig": "payload", "jws-kubeconfig-abc123": "old signature"}), secret()},
			map[string]string{"kubeconfig": "payload", "jws-kubeconfig-abc123": vector}},
		"BOOT-17: no token": {
			[]runtime.Object{info(map[string]string{"kubeconfig": "payload", "jws-kubeconfig-abc123": vector})},
			map[string]string{"kubeconfig": "payload"}},
		"BOOT-17: a token that does not sign any more": {
			[]runtime.Object{info(map[string]string{"kubeconfig": "payload", "jws-kubeconfig-abc123": vector}), secret("expiration", "garbage")},
			map[string]string{"kubeconfig": "payload"}},
		"BOOT-6: tokens of another namespace and Secrets of another type sign nothing": {
			[]runtime.Object{info(map[string]string{"kubeconfig": "payload"}),
				changed(secret(), func(s *corev1.Secret) { s.Namespace = "default" }),
				changed(secret(), func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })}, nil},
		"BOOT-15: a token that is being deleted signs": {
			[]runtime.Object{info(map[string]string{"kubeconfig": "payload"}), changed(secret(), func(s *corev1.Secret) {
				s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: epoch}, []string{"example.com/hold"}
			})},
			map[string]string{"kubeconfig": "payload", "jws-kubeconfig-abc123": vector}},
	} {
		t.Run(name, func(t *testing.T) {
			env, s := start(t, test.objects...)
			if err := s.reconcile(env.Context(), clusterInfo); err != nil {
				t.Fatal(err)
			}
			var want []*corev1.ConfigMap
			if test.want != nil {
				want = append(want, info(test.want))
			}
			if diff := cmp.Diff(want, updates(t, env)); diff != "" {
				t.Errorf("updates (-want +got):\n%s", diff)
			}
		})
	}
}

// The ConfigMap has the signature of a token that the cache lacks. Pins BOOT-40.
func TestATokenThatTheCacheLacks(t *testing.T) {
	signed := map[string]string{"kubeconfig": "payload", "jws-kubeconfig-abc123": vector}
	const read, update = "get secrets bootstrap-token-abc123", "update configmaps cluster-info"
	for name, test := range map[string]struct {
		data     map[string]string
		live     *corev1.Secret
		refusal  error
		requests []string
		later    bool
		fails    bool
	}{
		"it is gone":                   {data: signed, requests: []string{read, update}},
		"it exists":                    {data: signed, live: secret(), requests: []string{read}, later: true},
		"it has expired":               {data: signed, live: secret("expiration", in(-time.Hour)), requests: []string{read, update}},
		"it is of another type":        {data: signed, live: changed(secret(), func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }), requests: []string{read, update}},
		"nobody knows":                 {data: signed, refusal: errors.New("boom"), requests: []string{read}, fails: true},
		"a proxy says that it is gone": {data: signed, refusal: apierrors.NewGenericServerResponse(404, "get", corev1.Resource("secrets"), "", "page", 0, true), requests: []string{read}, fails: true},
		"it has no signature":          {data: map[string]string{"kubeconfig": "payload"}, live: secret()},
		"no token can have that name":  {data: map[string]string{"kubeconfig": "payload", "jws-kubeconfig-A": "x"}, requests: []string{update}},
	} {
		t.Run(name, func(t *testing.T) {
			env, s := start(t, info(test.data))
			queue := &controllertest.Queue[types.NamespacedName]{}
			s.queue = queue
			env.Fake.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
				return test.live != nil || test.refusal != nil, test.live, test.refusal
			})
			if err := s.reconcile(env.Context(), clusterInfo); (err != nil) != test.fails {
				t.Errorf("got %v", err)
			}
			env.WantRequests(t, test.requests...)
			if later := slices.Contains(queue.Take(), "kube-public/cluster-info in 10s"); later != test.later {
				t.Errorf("it is reconciled again: %v, want %v", later, test.later)
			}
		})
	}
}

// The cached object is not changed, and the update carries its resource version. Pins BOOT-14 and BOOT-27.
func TestTheCacheIsLeftAlone(t *testing.T) {
	before := info(map[string]string{"kubeconfig": "payload"})
	env, s := start(t, before, secret())
	env.Fake.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
	if err := s.reconcile(env.Context(), clusterInfo); err != nil {
		t.Fatal(err)
	}
	cached, err := s.configMaps.Get(clusterInfo.Name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, cached); diff != "" {
		t.Errorf("the cached object (-before +now):\n%s", diff)
	}
	if sent := updates(t, env); len(sent) != 1 || sent[0].ResourceVersion != "7" {
		t.Errorf("updates: %v", sent)
	}
}

func TestFailures(t *testing.T) {
	resource := corev1.Resource("configmaps")
	for name, test := range map[string]struct {
		refusal error
		retry   bool
	}{
		"BOOT-18: gone":           {apierrors.NewNotFound(resource, "cluster-info"), false},
		"BOOT-18: a newer one":    {apierrors.NewConflict(resource, "cluster-info", errors.New("stale")), false},
		"BOOT-32: immutable":      {apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), "cluster-info", nil), true},
		"BOOT-32: connection":     {errors.New("connection refused"), true},
		"BOOT-32: refused access": {apierrors.NewForbidden(resource, "cluster-info", errors.New("no")), true},
	} {
		t.Run(name, func(t *testing.T) {
			env, s := start(t, info(map[string]string{"kubeconfig": "payload"}), secret())
			env.Fake.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.refusal })
			if err := s.reconcile(env.Context(), clusterInfo); (err != nil) != test.retry {
				t.Errorf("got %v", err)
			}
		})
	}
}

// data is that of the ConfigMap.
func data(t *testing.T, env *controllertest.Env) map[string]string {
	t.Helper()
	cm, err := env.Fake.CoreV1().ConfigMaps(clusterInfo.Namespace).Get(t.Context(), clusterInfo.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cm.Data
}

func TestAnUpdateThatFailsIsRepeated(t *testing.T) {
	for name, test := range map[string]struct {
		refusal error
		step    time.Duration
	}{
		"BOOT-32: with backoff":                        {errors.New("boom"), time.Millisecond},
		"BOOT-37: a conflict, and nothing has changed": {apierrors.NewConflict(corev1.Resource("configmaps"), "cluster-info", errors.New("a webhook says so")), time.Second},
		"BOOT-38: NotFound, and it is still there":     {apierrors.NewNotFound(corev1.Resource("configmaps"), "cluster-info"), time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			env, s := start(t, info(map[string]string{"kubeconfig": "payload"}), secret())
			env.RefuseIf("update configmaps cluster-info", test.refusal, func(n int) bool { return n == 1 })
			env.Run(t, s)
			env.EventuallyAsTimePasses(t, "the ConfigMap is signed", test.step, func() bool {
				return data(t, env)["jws-kubeconfig-abc123"] == vector
			})
		})
	}
}

// What happens to the ConfigMap and the tokens is followed. Pins BOOT-5, BOOT-6 and BOOT-8.
func TestChangesAreFollowed(t *testing.T) {
	env, s := start(t, info(map[string]string{"kubeconfig": "other"}), secret())
	env.Run(t, s)
	ctx, secrets, configMaps := env.Context(), env.Fake.CoreV1().Secrets("kube-system"), env.Fake.CoreV1().ConfigMaps("kube-public")
	has := func(what string, ids ...string) {
		t.Helper()
		controllertest.Eventually(t, what, func() bool {
			now := data(t, env)
			for _, id := range ids {
				if now["jws-kubeconfig-"+id] == "" {
					return false
				}
			}
			return len(now) == 1+len(ids)
		})
	}
	has("what was there at the start is signed", "abc123")
	if _, err := configMaps.Update(ctx, info(map[string]string{"kubeconfig": "payload"}), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	has("another kubeconfig is signed", "abc123")
	if got := data(t, env)["jws-kubeconfig-abc123"]; got != vector {
		t.Errorf("the signature is %s", got)
	}
	second := changed(secret("token-id", "xyz789"), func(s *corev1.Secret) { s.Name = "bootstrap-token-xyz789" })
	if _, err := secrets.Create(ctx, second, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	has("a second token signs", "abc123", "xyz789")
	second = second.DeepCopy()
	second.Data["usage-bootstrap-signing"], second.ResourceVersion = []byte("false"), "9"
	if _, err := secrets.Update(ctx, second, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	has("a token that may not sign any more does not", "abc123")
	if err := secrets.Delete(ctx, "bootstrap-token-abc123", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	has("without a token there is no signature")
}

// Pins BOOT-33.
func TestASignatureGoesWhenItsTokenExpires(t *testing.T) {
	env, s := start(t, info(map[string]string{"kubeconfig": "payload"}),
		secret("expiration", epoch.Add(time.Hour).Format(time.RFC3339)),
		changed(secret("token-id", "xyz789", "expiration", epoch.Add(2*time.Hour).Format(time.RFC3339)), func(s *corev1.Secret) { s.Name = "bootstrap-token-xyz789" }))
	env.Run(t, s)
	controllertest.Eventually(t, "both sign", func() bool { return len(data(t, env)) == 3 })
	left := func(n int) {
		t.Helper()
		env.EventuallyAsTimePasses(t, "a signature is gone", 10*time.Minute, func() bool { return len(data(t, env)) == n })
	}
	left(2)
	if elapsed := env.Clock.Now().Sub(epoch); elapsed < time.Hour {
		t.Errorf("it is gone after %v", elapsed)
	}
	left(1)
	if elapsed := env.Clock.Now().Sub(epoch); elapsed < 2*time.Hour {
		t.Errorf("the other one is gone after %v", elapsed)
	}
}

// A clock that is ahead has taken the signature of a token that has not expired. No event tells that it was set right.
// Pins BOOT-39.
func TestASignatureComesBackWhenTheClockIsSetBack(t *testing.T) {
	env := controllertest.New(t, info(map[string]string{"kubeconfig": "payload"}), secret("expiration", in(time.Hour)))
	s := must.Get(newSigner(env.Env))(t)
	queued := &controllertest.Queue[types.NamespacedName]{} // of the handlers too, from the start
	s.queue = queued
	env.Start(t)
	env.Fake.ClearActions()
	look := func(clock time.Duration, requests ...string) {
		t.Helper()
		env.Clock.SetTime(epoch.Add(clock))
		if err := s.reconcile(env.Context(), clusterInfo); err != nil {
			t.Fatal(err)
		}
		env.WantRequests(t, requests...)
	}
	const soon = 10 * time.Minute
	look(2 * time.Hour)
	if delay := queued.TakeDelay(clusterInfo); delay != soon {
		t.Errorf("it is reconciled again after %v, want %v", delay, soon)
	}
	look(0, "update configmaps cluster-info")
	if delay := queued.TakeDelay(clusterInfo); delay != soon {
		t.Errorf("it is reconciled again after %v, want %v", delay, soon)
	}
}

func TestDeletionsSeenByANewListCount(t *testing.T) {
	for name, test := range map[string]struct {
		gone  *corev1.Secret
		depth int
	}{
		"BOOT-35: a token":        {secret(), 1},
		"BOOT-6: of another type": {changed(secret(), func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }), 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, s := start(t)
			secrets := &controllertest.Captured{}
			s.watch(&controllertest.Captured{}, secrets)
			secrets.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "kube-system/" + test.gone.Name, Obj: test.gone})
			if depth := s.loop.Inspect().Depth; depth != test.depth {
				t.Errorf("%d keys are queued, want %d", depth, test.depth)
			}
		})
	}
}

// Pins BOOT-4 and BOOT-21.
func TestNothingIsResynced(t *testing.T) {
	_, s := start(t)
	configMaps, secrets := &controllertest.Captured{Resync: time.Hour}, &controllertest.Captured{Resync: time.Hour}
	s.watch(configMaps, secrets)
	if configMaps.Resync != 0 || secrets.Resync != 0 {
		t.Errorf("the periods are %v and %v", configMaps.Resync, secrets.Resync)
	}
}

// Pins BOOT-5.
func TestOtherConfigMapsQueueNothing(t *testing.T) {
	_, s := start(t)
	configMaps := &controllertest.Captured{}
	s.watch(configMaps, &controllertest.Captured{})
	other := info(nil)
	other.Name = "other"
	configMaps.Handler.OnAdd(other, false)
	configMaps.Handler.OnDelete(info(nil))
	if depth := s.loop.Inspect().Depth; depth != 0 {
		t.Errorf("%d keys are queued", depth)
	}
	configMaps.Handler.OnUpdate(info(nil), info(nil))
	if depth := s.loop.Inspect().Depth; depth != 1 {
		t.Errorf("%d keys are queued", depth)
	}
}

// What happened while nothing ran is made up for. Pins BOOT-29.
func TestTheNextInstanceBeginsWithWhatIsThere(t *testing.T) {
	env, s := start(t, info(map[string]string{"kubeconfig": "payload", "jws-kubeconfig-gone00": "x"}))
	env.Run(t, s)()
	if _, err := env.Fake.CoreV1().Secrets("kube-system").Create(t.Context(), secret(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Succeed(nil)
	next := must.Get(newSigner(env.Env))(t)
	env.Start(t)
	env.Run(t, next)
	want := map[string]string{"kubeconfig": "payload", "jws-kubeconfig-abc123": vector}
	controllertest.Eventually(t, "the ConfigMap is signed", func() bool { return cmp.Equal(want, data(t, env)) })
}

// Everything that happens is one key. Pins BOOT-11 and BOOT-30.
func TestManyEventsAreOneReconcile(t *testing.T) {
	_, s := start(t, info(map[string]string{"kubeconfig": "payload"}), secret(),
		changed(secret("token-id", "xyz789"), func(s *corev1.Secret) { s.Name = "bootstrap-token-xyz789" }))
	if loop := s.loop.Inspect(); loop.Depth != 1 || loop.Workers != 1 || loop.Queue != "bootstrap_signer_queue" {
		t.Errorf("the loop is %+v", loop)
	}
}

// Only the one ConfigMap and the tokens are cached. Pins BOOT-34.
func TestOnlyWhatIsReadIsCached(t *testing.T) {
	env := controllertest.New(t)
	if _, err := newSigner(env.Env); err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	got := map[string]string{}
	for _, action := range env.Fake.Actions() {
		if list, ok := action.(clienttesting.ListActionImpl); ok {
			got[list.Resource.Resource] = list.Namespace + " " + list.ListOptions.FieldSelector
		}
	}
	want := map[string]string{"configmaps": "kube-public metadata.name=cluster-info", "secrets": "kube-system type=bootstrap.kubernetes.io/token"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
}

// A token that cannot be used says so in the log, and nothing else of it is there.
func TestLogs(t *testing.T) {
	for name, test := range map[string]struct {
		objects []runtime.Object
		want    string
	}{
		"BOOT-13: no kubeconfig": {[]runtime.Object{info(nil), secret()},
			`INFO The ConfigMap has no kubeconfig to sign configMap="kube-public/cluster-info"`},
		"BOOT-15c: another ID": {[]runtime.Object{info(map[string]string{"kubeconfig": ""}), secret("token-id", "other0")},
			`INFO A bootstrap token cannot be used to sign secret="kube-system/bootstrap-token-abc123" reason="its token-id is not the one in its name"`},
		"BOOT-36: a broken expiration": {[]runtime.Object{info(map[string]string{"kubeconfig": ""}), secret("expiration", "garbage")},
			`INFO A bootstrap token cannot be used to sign secret="kube-system/bootstrap-token-abc123" reason="its expiration is not an RFC 3339 time"`},
		"BOOT-36: an expiration that has passed": {[]runtime.Object{info(map[string]string{"kubeconfig": ""}), secret("expiration", in(-time.Hour))},
			`INFO A bootstrap token cannot be used to sign secret="kube-system/bootstrap-token-abc123" reason="it has expired"`},
		"BOOT-15f: not meant to sign": {[]runtime.Object{info(map[string]string{"kubeconfig": ""}), secret("usage-bootstrap-signing", "")}, ""},
		"BOOT-32: a refusal":          {[]runtime.Object{info(map[string]string{"kubeconfig": "payload"}), secret()}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			env, s := start(t, test.objects...)
			env.Fake.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("boom") })
			log := func(verbosity int) string {
				logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(verbosity)))
				err := s.reconcile(klog.NewContext(env.Context(), logger), clusterInfo)
				text := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
				if err != nil {
					if want := "updating config map kube-public/cluster-info: boom"; err.Error() != want {
						t.Errorf("the error is %v", err)
					}
				}
				if strings.Contains(text, "tokenSecret") {
					t.Errorf("the secret is in %s", text)
				}
				return strings.TrimSpace(text)
			}
			if got := log(3); got != test.want {
				t.Errorf("the log is %s", got)
			}
			if got := log(2); got != "" {
				t.Errorf("at verbosity 2 the log is %s", got)
			}
			if got := log(10); strings.Count(got, "INFO") > 1 {
				t.Errorf("at verbosity 10 the log is %s", got)
			}
		})
	}
}

// Pins BOOT-1, BOOT-2, BOOT-3 and BOOT-20.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if d.Name != "bootstrap-signer-controller" || len(d.Aliases) != 1 || d.Aliases[0] != "bootstrapsigner" || d.ServiceAccount != "bootstrap-signer" || d.Gate != "" || d.EventSource != "" {
		t.Errorf("it is %+v", d)
	}
	cfg := v1beta1.NewDefault()
	if on, _ := d.Enabled(cfg); on {
		t.Error("it is on by default")
	}
	if d.Value(cfg) != d.Value(&v1beta1.KubeControllerManagerConfiguration{}) {
		t.Error("it depends on the configuration")
	}
	if _, err := d.New(controllertest.New(t).Env, d.Value(cfg)); err != nil {
		t.Fatal(err)
	}
}
