package pvcprotection

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

const (
	put  = "update persistentvolumeclaims claim"
	list = "list pods"
)

func TestWhatIsDoneForAClaim(t *testing.T) {
	var (
		released  = []string{other}
		protected = []string{other, string(finalizer)}
	)
	for name, tc := range map[string]struct {
		claim    *corev1.PersistentVolumeClaim
		pods     []runtime.Object
		requests []string
		want     []string
	}{
		"PVCP-16: not protected":           {claim: claim("claim", unprotected), requests: []string{put}, want: protected},
		"PVCP-16: not protected, used":     {claim: claim("claim", unprotected), pods: []runtime.Object{pod("p")}, requests: []string{put}, want: protected},
		"PVCP-17: protected":               {claim: claim("claim"), want: protected},
		"PVCP-17: deleted, not protected":  {claim: claim("claim", deleted, unprotected), want: released},
		"PVCP-15a: used":                   {claim: claim("claim", deleted), pods: []runtime.Object{pod("p")}, want: protected},
		"PVCP-15a: one of two pods uses":   {claim: claim("claim", deleted), pods: []runtime.Object{pod("p", unscheduled), pod("q")}, want: protected},
		"PVCP-15b, PVCP-15c: no pods":      {claim: claim("claim", deleted), requests: []string{list, put}, want: released},
		"PVCP-15c: pods that use it not":   {claim: claim("claim", deleted), pods: []runtime.Object{pod("p", unscheduled), controllertest.Pod(namespace, "q", referring("another"))}, requests: []string{list, put}, want: released},
		"PVCP-15c: pods of others":         {claim: claim("claim", deleted), pods: []runtime.Object{controllertest.Pod("another", "p", referring("claim"))}, requests: []string{list, put}, want: released},
		"PVCP-35: its finalizer only":      {claim: claim("claim", deleted, func(c *corev1.PersistentVolumeClaim) { c.Finalizers = c.Finalizers[1:] }), requests: []string{list, put}},
		"PVCP-15c: between two others":     {claim: claim("claim", deleted, func(c *corev1.PersistentVolumeClaim) { c.Finalizers = append(c.Finalizers, "example.com/z") }), requests: []string{list, put}, want: []string{other, "example.com/z"}},
		"PVCP-17: without any finalizers":  {claim: claim("claim", deleted, func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil })},
		"PVCP-16: never had any finalizer": {claim: claim("claim", func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil }), requests: []string{put}, want: []string{string(finalizer)}},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, config{}, append(tc.pods, tc.claim)...)
			f.MustReconcile(t)
			f.WantRequests(t, tc.requests...)
			if got := f.finalizers(t, "claim"); !slices.Equal(got, tc.want) || len(tc.want) == 0 && got != nil {
				t.Errorf("finalizers are %q, want %q", got, tc.want)
			}
			f.WantEvents(t)
		})
	}
}

// Pins PVCP-14 and PVCP-38.
func TestAClaimThatIsNotCachedCostsNothing(t *testing.T) {
	f := begin(t, config{}, claim("claim", deleted))
	f.Uncache(t, claim("claim"))
	f.MustReconcile(t)
	f.WantRequests(t)
}

// Pins PVCP-10 and PVCP-34.
func TestTheCachedClaimIsWritten(t *testing.T) {
	f := begin(t, config{}, claim("claim", deleted, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "volume" }))
	var sent *corev1.PersistentVolumeClaim
	f.Intercept("update persistentvolumeclaims", func(a clienttesting.Action) error {
		sent = a.(clienttesting.UpdateAction).GetObject().(*corev1.PersistentVolumeClaim).DeepCopy()
		return nil
	})
	f.MustReconcile(t)
	if sent.UID != "claim" || sent.ResourceVersion != "7" || sent.Spec.VolumeName != "volume" {
		t.Errorf("sent %+v", sent)
	}
	if cached, _ := f.c.claims.PersistentVolumeClaims(namespace).Get("claim"); len(cached.Finalizers) != 2 {
		t.Errorf("the cached object was changed: %v", cached)
	}
}

// The pod was created before the claim was deleted, but the cache does not contain the pod yet.
//
// Pins PVCP-28 and PVCP-46.
func TestAPodThatTheCacheDoesNotShowHoldsTheClaim(t *testing.T) {
	f := begin(t, config{}, claim("claim", deleted))
	f.Store(t, pod("p"))
	for range 2 {
		if err := f.Reconcile(); !reconcile.IsExpected(err) {
			t.Errorf("got %v, want to look again", err)
		}
		f.WantRequests(t, list)
	}
	f.Cache(t, pod("p"))
	f.MustReconcile(t)
	f.WantRequests(t)
}

// A claim was deleted and recreated with the same name. The cache still contains the first one.
func TestAClaimThatTheCacheDoesNotShowIsNotTouched(t *testing.T) {
	for name, stored := range map[string]*corev1.PersistentVolumeClaim{
		"PVCP-34: another claim":               claim("claim", func(c *corev1.PersistentVolumeClaim) { c.UID = "second" }),
		"PVCP-34: another that is deleted":     claim("claim", deleted, func(c *corev1.PersistentVolumeClaim) { c.UID = "second" }),
		"PVCP-34: the same, changed meanwhile": claim("claim", deleted),
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, config{}, claim("claim", deleted))
			f.Store(t, stored)
			if err := f.Reconcile(); !apierrors.IsConflict(err) {
				t.Errorf("got %v", err)
			}
			f.WantRequests(t, list, put)
			if got := f.finalizers(t, "claim"); !slices.Contains(got, string(finalizer)) {
				t.Errorf("the finalizers are %q", got)
			}
			// The next pass lists again.
			_ = f.Reconcile()
			f.WantRequests(t, list, put)
		})
	}
}

// An instance that is stopped between its question and the write leaves nothing to the next one,
// whether that is in this process or in another: it asks again. Pins PVCP-40.
func TestAnAnswerIsNotHandedOver(t *testing.T) {
	f := begin(t, config{}, claim("claim", deleted), claim("second", deleted))
	allow := f.Refuse(put, errors.New("fenced"))
	if err := f.Reconcile(); err == nil {
		t.Fatal("no error")
	}
	f.WantRequests(t, list, put)
	allow()
	f.Store(t, pod("p"), pod("q", referring("second"))) // only the API server has them
	f.Succeed(nil)
	f.build(t, config{})
	for _, name := range []string{"claim", "second"} {
		if err := f.c.reconcile(f.Context(), types.NamespacedName{Namespace: namespace, Name: name}); !reconcile.IsExpected(err) {
			t.Errorf("%s: got %v", name, err)
		}
		f.WantRequests(t, list)
	}
}

// Pins PVCP-12, PVCP-42 and PVCP-44.
func TestClaimsThatAreDeletedTogetherShareALiveList(t *testing.T) {
	f := begin(t, config{}, claim("a", deleted), claim("b", deleted), claim("used", deleted), claim("live"),
		claim("x", deleted, func(c *corev1.PersistentVolumeClaim) { c.Namespace = "another" }))
	f.Store(t, pod("p", referring("used")))
	f.reconcile(t, "a")
	f.WantRequests(t, list, "update persistentvolumeclaims a")
	f.reconcile(t, "b")
	f.WantRequests(t, "update persistentvolumeclaims b")
	f.Uncache(t, claim("a"), claim("b"))
	if err := f.c.reconcile(f.Context(), types.NamespacedName{Namespace: namespace, Name: "used"}); !reconcile.IsExpected(err) {
		t.Errorf("got %v", err)
	}
	f.WantRequests(t, list)
	if err := f.c.reconcile(f.Context(), types.NamespacedName{Namespace: "another", Name: "x"}); err != nil {
		t.Error(err)
	}
	f.WantRequests(t, list, "update persistentvolumeclaims x")
	if len(f.c.answers.of) != 0 {
		t.Errorf("what was answered is kept: %v", f.c.answers.of)
	}
}

func TestAnAnswerIsNotUsedForMoreThanItProves(t *testing.T) {
	both := []runtime.Object{claim("claim", deleted), claim("second", deleted)}
	for name, tc := range map[string]struct {
		claims []runtime.Object
		then   func(testing.TB, *fixture)
		want   []string
	}{
		"PVCP-44: it serves":                        {both, func(testing.TB, *fixture) {}, []string{put}},
		"PVCP-44: for a minute":                     {both, func(_ testing.TB, f *fixture) { f.Clock.Step(answerLife) }, []string{list, put}},
		"PVCP-29: the deletion is newer than it is": {[]runtime.Object{claim("claim"), claim("second", deleted)}, deleteClaim, []string{list, put}},
		"PVCP-44: the claim is newer than it is": {both, func(t testing.TB, f *fixture) {
			again := claim("claim", deleted, func(c *corev1.PersistentVolumeClaim) { c.UID = "again" })
			f.Store(t, again)
			f.Cache(t, again)
		}, []string{list, put}},
		"PVCP-44: a pod was seen in between": {both, func(t testing.TB, f *fixture) {
			f.Cache(t, pod("p"))
			f.MustReconcile(t)
			f.Uncache(t, pod("p"))
		}, []string{list, put}},
		"PVCP-15c: the write failed": {both, func(t testing.TB, f *fixture) {
			allow := f.Refuse(put, errors.New("boom"))
			if err := f.Reconcile(); err == nil {
				t.Error("no error")
			}
			f.WantRequests(t, put)
			allow()
		}, []string{list, put}},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, config{}, tc.claims...)
			f.reconcile(t, "second")
			f.WantRequests(t, list, "update persistentvolumeclaims second")
			tc.then(t, f)
			f.MustReconcile(t)
			f.WantRequests(t, tc.want...)
		})
	}
}

// An API server that is overloaded can take longer for a list than an answer is valid. Pins PVCP-44.
func TestAListThatTakesLongAnswersAllTheSame(t *testing.T) {
	f := begin(t, config{}, claim("claim", deleted), claim("second", deleted))
	f.Intercept(list, func(clienttesting.Action) error {
		f.Clock.Step(answerLife)
		return nil
	})
	f.MustReconcile(t)
	f.WantRequests(t, list, put)
	f.reconcile(t, "second")
	f.WantRequests(t, "update persistentvolumeclaims second")
}

func deleteClaim(t testing.TB, f *fixture) {
	t.Helper()
	controllertest.Change(t, f.Env, namespace, "claim", deleted)
	f.Cache(t, controllertest.MustStored[*corev1.PersistentVolumeClaim](t, f.Env, namespace, "claim"))
}

// Answers for claims that nobody asks for again are dropped. Pins PVCP-44.
func TestOldAnswersAreDropped(t *testing.T) {
	f := begin(t, config{}, claim("claim", deleted), claim("second", deleted),
		claim("x", deleted, func(c *corev1.PersistentVolumeClaim) { c.Namespace = "another" }))
	f.MustReconcile(t)
	f.Clock.Step(answerLife)
	if err := f.c.reconcile(f.Context(), types.NamespacedName{Namespace: "another", Name: "x"}); err != nil {
		t.Fatal(err)
	}
	if len(f.c.answers.of) != 0 {
		t.Errorf("kept are %v", f.c.answers.of)
	}
}

// Pins PVCP-45.
func TestOnlyScheduledPodsAreListedPageByPage(t *testing.T) {
	f := begin(t, config{}, claim("claim", deleted))
	var asked []string
	f.Fake.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		options := a.(clienttesting.ListActionImpl).ListOptions
		asked = append(asked, fmt.Sprint(options.FieldSelector, " ", options.Limit, " ", options.ResourceVersion, options.Continue))
		if options.Continue == "" {
			return true, &corev1.PodList{ListMeta: metaOfPage("more")}, nil
		}
		return true, &corev1.PodList{Items: []corev1.Pod{*pod("p")}}, nil
	})
	if err := f.Reconcile(); !reconcile.IsExpected(err) {
		t.Errorf("got %v", err)
	}
	if want := []string{"spec.nodeName!= 500 ", "spec.nodeName!= 500 more"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// If a page of the list fails, the list proves nothing.
func TestAListThatFailsIsRepeated(t *testing.T) {
	for name, first := range map[string]bool{"PVCP-15b: the first page": true, "PVCP-45: the second page": false} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, config{}, claim("claim", deleted), claim("second", deleted))
			failing := true
			f.Fake.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				switch {
				case failing && first, failing && a.(clienttesting.ListActionImpl).ListOptions.Continue != "":
					return true, nil, errors.New("boom")
				case failing:
					return true, &corev1.PodList{ListMeta: metaOfPage("more")}, nil
				}
				return false, nil, nil
			})
			if err := f.Reconcile(); err == nil || reconcile.IsExpected(err) || !strings.Contains(err.Error(), "live list of pods failed: boom") {
				t.Errorf("got %v", err)
			}
			if writes := f.Writes(); len(writes) != 0 {
				t.Errorf("wrote %v", writes)
			}
			failing = false
			f.Requests()
			f.reconcile(t, "second")
			f.WantRequests(t, list, "update persistentvolumeclaims second")
			f.MustReconcile(t)
			f.WantRequests(t, put)
		})
	}
}

// Pins PVCP-11, PVCP-16 and PVCP-27.
func TestARefusedWriteIsRetriedUntilItSucceeds(t *testing.T) {
	env := controllertest.New(t, claim("claim", deleted))
	env.RefuseIf("update persistentvolumeclaims", apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), "claim", nil), func(n int) bool { return n <= 2 })
	c := must.Get(newController(env.Env, config{}))(t)
	env.Start(t)
	env.Fake.ClearActions()
	env.Run(t, c)
	env.EventuallyAsTimePasses(t, "the claim is released", time.Second, func() bool {
		stored, _ := controllertest.Stored[*corev1.PersistentVolumeClaim](t, env, namespace, "claim")
		return len(stored.Finalizers) == 1
	})
	env.AwaitIdle(t)
	if got := env.Requests()[:6]; !slices.Equal(got, []string{list, put, list, put, list, put}) {
		t.Errorf("requests are %q", got)
	}
}

// However long the watch of pods is interrupted: there may be no event for the end of the pod. Pins PVCP-46.
func TestAClaimWhosePodTheCacheDoesNotShowIsReconciledAgainSoon(t *testing.T) {
	env := controllertest.New(t, claim("claim", deleted))
	c := must.Get(newController(env.Env, config{}))(t)
	env.Start(t)
	var asked atomic.Int32
	env.Fake.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked.Add(1)
		return true, &corev1.PodList{Items: []corev1.Pod{*pod("p")}}, nil
	})
	env.Run(t, c)
	var longest time.Duration
	env.EventuallyAsTimePasses(t, "the pods are listed often", time.Second, func() bool {
		longest = max(longest, env.LongestDelay(c.loop.Keys(func(string) bool { return true })))
		return asked.Load() >= 15
	})
	if longest > reconcile.RecheckAfter {
		t.Errorf("the claim is looked at again in %v", longest)
	}
}

// Pins PVCP-1, PVCP-3, PVCP-5 and PVCP-11.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if on, reason := d.Enabled(cfg); !on {
		t.Errorf("it is disabled: %s", reason)
	}
	before := d.Value(cfg)
	cfg.FeatureGates = map[string]bool{"PersistentVolumeClaimUnusedSinceTime": true}
	if d.Value(cfg) == before {
		t.Error("its gate does not restart it")
	}
	c := must.Get(d.New(controllertest.New(t).Env, before))(t)
	if s := c.(*protectionController).loop.Inspect(); s.Workers != 1 || s.Queue != "pvcprotection" {
		t.Errorf("loop: %+v", s)
	}
}

// The cost of reconciling a used claim does not depend on the size of the namespace.
func BenchmarkReconcileUsed(b *testing.B) {
	for _, pods := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			objects := []runtime.Object{claim("claim", deleted), pod("p")}
			for n := range pods {
				objects = append(objects, controllertest.Pod(namespace, fmt.Sprint("pod-", n), referring(fmt.Sprint("claim-", n))))
			}
			begin(b, config{}, objects...).MeasureIdle(b)
		})
	}
}
