package pvbinder

import (
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

var errConflict = apierrors.NewConflict(corev1.Resource("persistentvolumes"), "volume", nil)

func defaults() config { return configOf(v1beta1.NewDefault()) }

// fixture is a controller whose keys are reconciled by calls.
type fixture struct {
	*controllertest.Env
	c       *binderController
	claims  *controllertest.Queue[types.NamespacedName]
	volumes *controllertest.Queue[string]
}

// begin makes a controller that sees the objects of the API server.
func begin(t testing.TB, objects ...runtime.Object) *fixture {
	t.Helper()
	return beginWith(t, defaults(), objects...)
}

func beginWith(t testing.TB, cfg config, objects ...runtime.Object) *fixture {
	t.Helper()
	env := controllertest.New(t, objects...)
	env.CompleteWrites("persistentvolumes", "persistentvolumeclaims", "pods")
	env.CheckWrites("persistentvolumes", "persistentvolumeclaims")
	c := must.Get(newController(env.Env, cfg))(t)
	return wired(t, env, c)
}

func wired(t testing.TB, env *controllertest.Env, c *binderController) *fixture {
	t.Helper()
	f := &fixture{Env: env, c: c,
		claims:  &controllertest.Queue[types.NamespacedName]{Namespace: namespace},
		volumes: &controllertest.Queue[string]{},
	}
	c.claimQueue, c.volumeQueue = f.claims, f.volumes
	c.operations.begin(env.Context(), env.Context())
	f.catchUp(t)
	return f
}

// catchUp makes the caches, and the stores, show what the API server holds.
func (f *fixture) catchUp(t testing.TB) {
	t.Helper()
	f.CatchUp(t, &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}, &corev1.Pod{})
	for _, v := range controllertest.AllStored[*pv](t, f.Env, "") {
		f.c.volumes.seen(v.Name, v)
	}
	for _, claim := range controllertest.AllStored[*pvc](t, f.Env, "") {
		f.c.claims.seen(keyOf(claim), claim)
	}
}

var claimKey = types.NamespacedName{Namespace: namespace, Name: "claim"}

// syncClaim reconciles the claim, and waits for the operation that it starts.
func (f *fixture) syncClaim() error {
	err := f.c.reconcileClaim(f.Context(), claimKey)
	f.c.operations.await()
	return err
}

// syncVolume reconciles the volume "volume", and waits for the operation that it starts.
func (f *fixture) syncVolume() error {
	err := f.c.reconcileVolume(f.Context(), "volume")
	f.c.operations.await()
	return err
}

func (f *fixture) mustSync(t testing.TB, sync func() error) {
	t.Helper()
	if err := sync(); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) volume(t testing.TB) *pv {
	t.Helper()
	return controllertest.MustStored[*pv](t, f.Env, "", "volume")
}

func (f *fixture) claim(t testing.TB) *pvc {
	t.Helper()
	return controllertest.MustStored[*pvc](t, f.Env, namespace, "claim")
}

// log returns what operations log from then on, apart from what is verbose.
func (f *fixture) log() *[]string {
	var lines []string
	ctx := klog.NewContext(f.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	f.c.operations.begin(ctx, ctx)
	return &lines
}

// wantLogged fails unless just these errors were logged, with a message.
func wantLogged(t *testing.T, lines []string, message string, errs ...string) {
	t.Helper()
	if len(lines) != len(errs) {
		t.Fatalf("logged %q, want %q", lines, errs)
	}
	for i, text := range errs {
		if !strings.Contains(lines[i], strconv.Quote(message)) || !strings.Contains(lines[i], strings.Trim(strconv.Quote(text), `"`)) {
			t.Errorf("logged %s, want %s: %s", lines[i], message, text)
		}
	}
}

const (
	putVolume       = "update persistentvolumes volume"
	putVolumeStatus = "update persistentvolumes/status volume"
	putClaim        = "update persistentvolumeclaims claim"
	putClaimStatus  = "update persistentvolumeclaims/status claim"
	getVolume       = "get persistentvolumes volume"
	getClaim        = "get persistentvolumeclaims claim"
)
