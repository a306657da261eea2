package podgroupprotection

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1alpha2"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

var key = types.NamespacedName{Namespace: "ns", Name: "group"}

// group is being deleted and waits for its pods.
func group(change ...func(*schedulingv1alpha2.PodGroup)) *schedulingv1alpha2.PodGroup {
	g := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name,
		Finalizers:        []string{"example.com/other", string(finalizer)},
		DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)},
	}}
	for _, c := range change {
		c(g)
	}
	return g
}

// pod is an active pod of the group.
func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "pod", UID: "uid"},
		Spec:       corev1.PodSpec{SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: ptr.To(key.Name)}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func phase(is corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = is } }

func fixture(t testing.TB, objects ...runtime.Object) (*controllertest.Env, *protectionController) {
	t.Helper()
	env := controllertest.New(t, objects...)
	c := must.Get(newController(env.Env))(t)
	env.Start(t)
	env.Fake.ClearActions()
	return env, c
}

func TestTheFinalizerGoesWithTheLastActivePod(t *testing.T) {
	for name, tc := range map[string]struct {
		objects []runtime.Object
		goes    bool
	}{
		"PGP-6, PGP-11, PGP-19: no pods": {[]runtime.Object{group()}, true},
		"PGP-10: running":                {[]runtime.Object{group(), pod()}, false},
		"PGP-4: not scheduled":           {[]runtime.Object{group(), pod(phase(corev1.PodPending))}, false},
		"PGP-4: no phase yet":            {[]runtime.Object{group(), pod(phase(""))}, false},
		"PGP-4: being deleted": {[]runtime.Object{group(), pod(func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"a/b"}
		})}, false},
		"PGP-4: succeeded":                      {[]runtime.Object{group(), pod(phase(corev1.PodSucceeded))}, true},
		"PGP-4: failed":                         {[]runtime.Object{group(), pod(phase(corev1.PodFailed))}, true},
		"PGP-10: of another group":              {[]runtime.Object{group(), pod(func(p *corev1.Pod) { p.Spec.SchedulingGroup.PodGroupName = ptr.To("other") })}, true},
		"of another namespace":                  {[]runtime.Object{group(), pod(func(p *corev1.Pod) { p.Namespace = "other" })}, true},
		"of no group":                           {[]runtime.Object{group(), pod(func(p *corev1.Pod) { p.Spec.SchedulingGroup = nil })}, true},
		"PGP-9: group is not deleted":           {[]runtime.Object{group(func(g *schedulingv1alpha2.PodGroup) { g.DeletionTimestamp = nil })}, false},
		"PGP-9, PGP-12: group is not protected": {[]runtime.Object{group(func(g *schedulingv1alpha2.PodGroup) { g.Finalizers = []string{"example.com/other"} })}, false},
		"PGP-12: group is neither deleted nor protected": {[]runtime.Object{group(func(g *schedulingv1alpha2.PodGroup) {
			g.DeletionTimestamp, g.Finalizers = nil, nil
		})}, false},
		"PGP-9: group is gone": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, tc.objects...)
			cached, _ := c.groups.PodGroups(key.Namespace).Get(key.Name)
			if err := c.reconcile(env.Context(), key); err != nil {
				t.Fatal(err)
			}
			requests := env.Writes()
			if !tc.goes {
				if len(requests) != 0 {
					t.Errorf("requests: %v", requests)
				}
				return
			}
			if len(requests) != 1 || !requests[0].Matches("update", "podgroups") || requests[0].GetSubresource() != "" {
				t.Fatalf("requests: %v", requests)
			}
			written := requests[0].(clienttesting.UpdateAction).GetObject().(*schedulingv1alpha2.PodGroup)
			if !slices.Equal(written.Finalizers, []string{"example.com/other"}) {
				t.Errorf("finalizers: %v", written.Finalizers)
			}
			if len(cached.Finalizers) != 2 {
				t.Errorf("the cached object was changed: %v", cached)
			}
		})
	}
}

// lacking is a pod cache without pods, as new as a version.
type lacking struct {
	cache.Indexer
	version string
}

func (l lacking) LastStoreSyncResourceVersion() string { return l.version }

// TestACacheWithoutPodsProvesNothing: a pod that was created before its group was deleted holds it, also while the
// cache does not show the pod: it may be behind, or a list lacked the pod.
// Pins PGP-22.
func TestACacheWithoutPodsProvesNothing(t *testing.T) {
	at := func(version string) func(*schedulingv1alpha2.PodGroup) {
		return func(g *schedulingv1alpha2.PodGroup) { g.ResourceVersion = version }
	}
	other := pod(func(p *corev1.Pod) { p.Name, p.Spec.SchedulingGroup.PodGroupName = "other", ptr.To("other") })
	for name, tc := range map[string]struct {
		cached string            // version of the pod cache
		known  map[string]answer // of earlier questions
		stored []corev1.Pod
		goes   bool
		asks   int
	}{
		"the cache is as new":                   {cached: "8", stored: []corev1.Pod{*pod()}, asks: 1},
		"the cache is newer":                    {cached: "9", stored: []corev1.Pod{*pod()}, asks: 1},
		"the cache is older, there is a pod":    {cached: "7", stored: []corev1.Pod{*pod()}, asks: 1},
		"the cache is older, the pod has ended": {cached: "7", stored: []corev1.Pod{*pod(phase(corev1.PodFailed))}, goes: true, asks: 1},
		"the cache is older, another's pod":     {cached: "7", stored: []corev1.Pod{*other}, goes: true, asks: 1},
		"the cache has no version":              {stored: []corev1.Pod{*pod()}, asks: 1},
		"the answer for another group serves":   {cached: "7", known: map[string]answer{key.Namespace: {listed: controllertest.Epoch, version: "9"}}, goes: true},
		"an answer of another namespace":        {cached: "7", known: map[string]answer{"other": {listed: controllertest.Epoch, version: "9"}}, stored: []corev1.Pod{*pod()}, asks: 1},
		"an answer from before the deletion":    {cached: "7", known: map[string]answer{key.Namespace: {listed: controllertest.Epoch, version: "7"}}, stored: []corev1.Pod{*pod()}, asks: 1},
		"an answer that showed a pod":           {cached: "7", known: map[string]answer{key.Namespace: {listed: controllertest.Epoch, version: "9", active: map[string]bool{key.Name: true}}}, goes: true, asks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, group(at("8")))
			c.pods = lacking{c.pods, tc.cached}
			maps.Copy(c.answers, tc.known)
			asked := 0
			env.Fake.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				asked++
				return true, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: tc.stored}, nil
			})
			// A pod that the cache does not show may end without an event.
			if err := c.reconcile(env.Context(), key); reconcile.IsExpected(err) == tc.goes || !tc.goes && err == nil {
				t.Errorf("got %v", err)
			}
			if goes := len(env.Writes()) == 1; goes != tc.goes || asked != tc.asks {
				t.Errorf("the finalizer goes: %v, asked %d times", goes, asked)
			}
		})
	}
}

// Pins PGP-22.
func TestAnAnswerIsReusedForAMinute(t *testing.T) {
	named := func(name string) func(*schedulingv1alpha2.PodGroup) {
		return func(g *schedulingv1alpha2.PodGroup) { g.Name, g.ResourceVersion = name, "8" }
	}
	env, c := fixture(t, group(named("a")), group(named("b")), group(named("c")))
	asked := 0
	env.Fake.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		return true, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}}, nil
	})
	for _, step := range []struct {
		group string
		after time.Duration
		asks  int
	}{{"a", 0, 1}, {"b", answerLife - 1, 1}, {"c", 1, 2}} {
		env.Clock.Step(step.after)
		if err := c.reconcile(env.Context(), types.NamespacedName{Namespace: key.Namespace, Name: step.group}); err != nil {
			t.Fatal(err)
		}
		if asked != step.asks {
			t.Errorf("group %s: the API server was asked %d times, want %d", step.group, asked, step.asks)
		}
	}
}

// Pins PGP-22.
func TestAQuestionThatFailsIsRetried(t *testing.T) {
	env, c := fixture(t, group(func(g *schedulingv1alpha2.PodGroup) { g.ResourceVersion = "8" }))
	env.Fake.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("boom") })
	if err := c.reconcile(env.Context(), key); err == nil || len(env.Writes()) != 0 {
		t.Errorf("%v, wrote %v", err, env.Writes())
	}
}

// Pins PGP-11.
func TestAFailedWriteIsRetried(t *testing.T) {
	env, c := fixture(t, group())
	env.Fake.PrependReactor("update", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("boom") })
	if err := c.reconcile(env.Context(), key); err == nil {
		t.Error("no error")
	}
}

func TestWhatIsQueued(t *testing.T) {
	ended := phase(corev1.PodSucceeded)
	recreated := func(p *corev1.Pod) { p.UID = "another" }
	for name, tc := range map[string]struct {
		objects []runtime.Object
		event   func(*protectionController)
		want    int
	}{
		"PGP-3: deletion begins": {nil, func(c *protectionController) { c.groupSeen(reconcile.Fresh, group()) }, 1},
		"another group": {nil, func(c *protectionController) {
			c.groupSeen(reconcile.Fresh, group(func(g *schedulingv1alpha2.PodGroup) { g.DeletionTimestamp = nil }))
		}, 0},
		"PGP-5: pod runs":        {[]runtime.Object{group()}, func(c *protectionController) { c.podSeen(reconcile.Fresh, pod()) }, 0},
		"PGP-5: pod has ended":   {[]runtime.Object{group()}, func(c *protectionController) { c.podSeen(reconcile.Fresh, pod(ended)) }, 1},
		"PGP-5: pod ends":        {[]runtime.Object{group()}, func(c *protectionController) { c.podUpdated(reconcile.Fresh, pod(), pod(ended)) }, 1},
		"PGP-5: pod is replaced": {[]runtime.Object{group()}, func(c *protectionController) { c.podUpdated(reconcile.Fresh, pod(), pod(recreated)) }, 1},
		"PGP-5: pod goes":        {[]runtime.Object{group()}, func(c *protectionController) { c.podGone(reconcile.Fresh, pod()) }, 1},
		"PGP-5: pod of no group": {[]runtime.Object{group()}, func(c *protectionController) {
			c.podGone(reconcile.Fresh, pod(func(p *corev1.Pod) { p.Spec.SchedulingGroup = nil }))
		}, 0},
		"PGP-23: group stays":      {[]runtime.Object{group(func(g *schedulingv1alpha2.PodGroup) { g.DeletionTimestamp = nil })}, func(c *protectionController) { c.podGone(reconcile.Fresh, pod()) }, 0},
		"PGP-23: group is unknown": {nil, func(c *protectionController) { c.podGone(reconcile.Fresh, pod()) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			groups := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
			for _, object := range tc.objects {
				if err := groups.Add(object); err != nil {
					t.Fatal(err)
				}
			}
			c := &protectionController{groups: schedulinglisters.NewPodGroupLister(groups)}
			c.loop = reconcile.New(controllertest.New(t).Env, reconcile.Options[types.NamespacedName]{Queue: "q"}, c.reconcile)
			c.queue = c.loop
			tc.event(c)
			if depth := c.loop.Inspect().Depth; depth != tc.want {
				t.Errorf("%d keys are queued, want %d", depth, tc.want)
			}
		})
	}
}

// Pins PGP-1 and PGP-2.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if d.Name != "podgroup-protection-controller" || len(d.Aliases) != 0 || d.ServiceAccount != d.Name || d.EventSource != "" {
		t.Errorf("it is %+v", d)
	}
	if podGroups := schedulingv1alpha2.SchemeGroupVersion.WithResource("podgroups"); !slices.Contains(d.Requires, podGroups) {
		t.Errorf("it needs %v", d.Requires)
	}
	if d.Value(nil) != any(struct{}{}) {
		t.Errorf("the value is %v", d.Value(nil))
	}
	cfg := v1beta1.NewDefault()
	if on, reason := d.Enabled(cfg); on || reason != "needs the feature gate GenericWorkload" {
		t.Errorf("without its gate: %v %q", on, reason)
	}
	cfg.FeatureGates = map[string]bool{"GenericWorkload": true}
	if on, _ := d.Enabled(cfg); !on {
		t.Error("with its gate it is disabled")
	}
	c := must.Get(d.New(controllertest.New(t).Env, d.Value(cfg)))(t)
	if s := c.(*protectionController).loop.Inspect(); s.Workers != 1 || s.Queue != "podgroupprotection" {
		t.Errorf("loop: %+v", s)
	}
}

func BenchmarkReconcile(b *testing.B) {
	for _, pods := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			objects := []runtime.Object{group()}
			for n := range pods {
				objects = append(objects, pod(func(p *corev1.Pod) {
					p.Name = fmt.Sprint("pod-", n)
					if n > 0 {
						p.Spec.SchedulingGroup.PodGroupName = ptr.To(fmt.Sprint("group-", n))
					}
				}))
			}
			env, c := fixture(b, objects...)
			b.ReportAllocs()
			for b.Loop() {
				if err := c.reconcile(env.Context(), key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
