package ephemeralvolume

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

const namespace = "ns"

var (
	key    = types.NamespacedName{Namespace: namespace, Name: "web"}
	claims = corev1.Resource("persistentvolumeclaims")
)

// ephemeralVolume adds a generic ephemeral volume to a pod.
func ephemeralVolume(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				ObjectMeta: metav1.ObjectMeta{
					Name: "ignored", Namespace: "ignored", Finalizers: []string{"example.com/ignored"},
					Labels: map[string]string{"volume": name}, Annotations: map[string]string{"note": "kept"},
				},
				Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: ptr.To("fast"),
					Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}},
		}})
	}
}

// pod returns a pod with a volume of another type, followed by the ephemeral volume "data".
func pod(changes ...func(*corev1.Pod)) *corev1.Pod {
	return controllertest.Pod(namespace, "web", append([]func(*corev1.Pod){emptyDir, ephemeralVolume("data")}, changes...)...)
}

func emptyDir(p *corev1.Pod) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
}

// claim returns a claim that the pod controls.
func claim(name string, changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	return controllertest.Changed(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(name),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod(), corev1.SchemeGroupVersion.WithKind("Pod"))},
	}}, changes...)
}

func ofNobody(c *corev1.PersistentVolumeClaim) { c.OwnerReferences = nil }

func ofNamesake(c *corev1.PersistentVolumeClaim) { c.OwnerReferences[0].UID = "first" }

type fixture struct {
	*controllertest.Subject[types.NamespacedName]
	c *volumeController
}

func begin(t testing.TB, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{Subject: controllertest.NewSubject(t, key, objects...)}
	c := must.Get(newController(f.Env.Env, config{workers: 1}))(t)
	f.c, f.Work, f.Kinds = c, c.reconcile, []runtime.Object{&corev1.Pod{}, &corev1.PersistentVolumeClaim{}}
	f.CatchUp(t)
	return f
}

// wantCounted checks the metrics of attempts and failures.
func (f *fixture) wantCounted(t testing.TB, attempts, failures int) {
	t.Helper()
	got := append(f.Series(t, "ephemeral_volume_controller_create_total"), f.Series(t, "ephemeral_volume_controller_create_failures_total")...)
	if want := []string{fmt.Sprint(attempts), fmt.Sprint(failures)}; !slices.Equal(got, want) {
		t.Errorf("counted %q, want %q", got, want)
	}
}

// Pins EPHV-11, EPHV-11c, EPHV-22 and EPHV-27.
func TestTheClaimIsMadeFromTheTemplate(t *testing.T) {
	is := pod()
	before := is.DeepCopy()
	got := claimFor(is, &is.Spec.Volumes[1])
	want := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-data", Labels: map[string]string{"volume": "data"}, Annotations: map[string]string{"note": "kept"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "web", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}},
		},
		Spec: is.Spec.Volumes[1].Ephemeral.VolumeClaimTemplate.Spec,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	got.Labels["volume"], got.Annotations["note"] = "changed", "changed"
	got.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	if !reflect.DeepEqual(is, before) {
		t.Error("the template is shared with the claim")
	}
}

func TestWhatIsDoneForAPod(t *testing.T) {
	const create = "create persistentvolumeclaims web-data"
	for name, tc := range map[string]struct {
		objects  []runtime.Object
		requests []string
		err      string
	}{
		"EPHV-10: no pod":                        {},
		"EPHV-10: a pod that is deleted":         {objects: []runtime.Object{pod(controllertest.Terminating)}},
		"EPHV-11: no such volumes":               {objects: []runtime.Object{controllertest.Pod(namespace, "web", emptyDir)}},
		"EPHV-11c, EPHV-27: no claim":            {objects: []runtime.Object{pod()}, requests: []string{create}},
		"EPHV-13: a pod that has completed":      {objects: []runtime.Object{pod(controllertest.InPhase(corev1.PodSucceeded))}, requests: []string{create}},
		"EPHV-11c: two volumes in order":         {objects: []runtime.Object{pod(ephemeralVolume("cache"))}, requests: []string{create, "create persistentvolumeclaims web-cache"}},
		"EPHV-11a: a claim of another namespace": {objects: []runtime.Object{pod(), claim("web-data", ofNobody, func(c *corev1.PersistentVolumeClaim) { c.Namespace = "another" })}, requests: []string{create}},
		"EPHV-11b: its claim":                    {objects: []runtime.Object{pod(), claim("web-data")}},
		"EPHV-11b: its claim, which is deleted": {objects: []runtime.Object{pod(), claim("web-data", func(c *corev1.PersistentVolumeClaim) {
			c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"a/b"}
		})}},
		"EPHV-11b, EPHV-17: a claim of nobody":     {objects: []runtime.Object{pod(), claim("web-data", ofNobody)}, err: "PVC ns/web-data was not created for pod ns/web (pod is not owner)"},
		"EPHV-11b, EPHV-18: a claim of a namesake": {objects: []runtime.Object{pod(), claim("web-data", ofNamesake)}, err: "PVC ns/web-data was not created for pod ns/web (pod is not owner)"},
		"EPHV-11b: owned but not controlled": {objects: []runtime.Object{pod(), claim("web-data", func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences[0].Controller = nil })},
			err: "PVC ns/web-data was not created for pod ns/web (pod is not owner)"},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, tc.objects...)
			err := f.Reconcile()
			f.WantRequests(t, tc.requests...)
			f.wantCounted(t, len(tc.requests), 0)
			if tc.err == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				f.WantEvents(t)
				return
			}
			if want := "pod ns/web, ephemeral volume data: " + tc.err; err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			f.WantEvents(t, "Warning FailedBinding ephemeral volume data: "+tc.err)
		})
	}
}

// Pins EPHV-12, EPHV-14 and EPHV-21.
func TestTheFirstFailingVolumeEndsThePass(t *testing.T) {
	f := begin(t, pod(ephemeralVolume("cache"), ephemeralVolume("late")))
	exceeded := apierrors.NewForbidden(claims, "web-cache", errors.New("exceeded quota: q"))
	allow := f.Refuse("create persistentvolumeclaims web-cache", exceeded)
	for range 2 {
		if err := f.Reconcile(); err == nil || !strings.HasPrefix(err.Error(), "pod ns/web, ephemeral volume cache: create PVC web-cache: ") || !strings.HasSuffix(err.Error(), "exceeded quota: q") {
			t.Errorf("got %v", err)
		}
		f.WantRequests(t, "create persistentvolumeclaims web-data", "create persistentvolumeclaims web-cache")
		f.WantEvents(t, "Warning FailedBinding ephemeral volume cache: create PVC web-cache: "+exceeded.Error())
		f.Remove(t, claim("web-data")) // the next pass is like the first
	}
	allow()
	f.MustReconcile(t)
	f.wantCounted(t, 7, 2)
}

// Pins EPHV-30.
func TestACutOffRequestReportsNothing(t *testing.T) {
	f := begin(t, pod())
	ctx, cancel := context.WithCancel(f.Context())
	f.Intercept("create persistentvolumeclaims", func(clienttesting.Action) error {
		cancel()
		return context.Canceled
	})
	if err := f.c.reconcile(ctx, key); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	f.WantEvents(t)
}

// The namespace is being deleted: it is tried again until the pod is gone. Pins EPHV-20.
func TestATerminatingNamespaceIsRetried(t *testing.T) {
	f := begin(t, pod())
	terminating := apierrors.NewForbidden(claims, "web-data", errors.New("terminating"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	f.Refuse("create persistentvolumeclaims", terminating)
	for range 2 {
		if err := f.Reconcile(); !errors.Is(err, terminating) {
			t.Errorf("got %v", err)
		}
	}
	f.Uncache(t, pod())
	f.MustReconcile(t)
	f.wantCounted(t, 2, 2)
}

// The watch was interrupted when the claim was deleted. Pins EPHV-23.
func TestADeletionThatWasMissedCounts(t *testing.T) {
	f := begin(t)
	f.Cache(t, pod())
	claims := &controllertest.Captured{}
	f.c.watch(&controllertest.Captured{}, claims)
	claims.Handler.OnDelete(cache.DeletedFinalStateUnknown{Obj: claim("web-data", ofNobody)})
	if depth := f.c.loop.Inspect().Depth; depth != 1 {
		t.Errorf("%d keys are queued, want the pod", depth)
	}
}

// A claim exists that the cache does not show.
func TestAClaimThatTheCacheDoesNotShow(t *testing.T) {
	for name, tc := range map[string]struct {
		stored *corev1.PersistentVolumeClaim
		err    string
	}{
		"EPHV-28: its own":                {stored: claim("web-data")},
		"EPHV-28, EPHV-17: of nobody":     {claim("web-data", ofNobody), "PVC ns/web-data was not created for pod ns/web (pod is not owner)"},
		"EPHV-28, EPHV-18: of a namesake": {claim("web-data", ofNamesake), "PVC ns/web-data was not created for pod ns/web (pod is not owner)"},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, pod())
			f.Store(t, tc.stored)
			err := f.Reconcile()
			f.WantRequests(t, "create persistentvolumeclaims web-data", "get persistentvolumeclaims web-data")
			f.wantCounted(t, 1, 1)
			if tc.err == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				f.WantEvents(t)
				return
			}
			if err == nil {
				t.Error("no error")
			}
			f.WantEvents(t, "Warning FailedBinding ephemeral volume data: "+tc.err)
			if got := controllertest.MustStored[*corev1.PersistentVolumeClaim](t, f.Env, namespace, "web-data"); !reflect.DeepEqual(got.OwnerReferences, tc.stored.OwnerReferences) {
				t.Errorf("it was adopted: %v", got.OwnerReferences)
			}
		})
	}
}

// If the claim is deleted before the cache shows it, no event reports that. Pins EPHV-31.
func TestAPodIsLookedAtAgainUntilTheCacheShowsItsClaim(t *testing.T) {
	for name, tc := range map[string]struct {
		stored, cached []runtime.Object
		again          bool
	}{
		"the claim was created":    {again: true},
		"it had been created":      {stored: []runtime.Object{claim("web-data")}, again: true},
		"the cache shows it":       {cached: []runtime.Object{claim("web-data")}},
		"nobody knows who made it": {stored: []runtime.Object{claim("web-data", ofNobody)}}, // a failure, and so retried
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, append(tc.cached, pod())...)
			f.Store(t, tc.stored...)
			_ = f.Reconcile()
			keys := f.c.loop.Keys(func(string) bool { return true })
			if !tc.again {
				if len(keys) != 0 {
					t.Errorf("queued are %+v", keys)
				}
				return
			}
			due := f.Clock.Now().Add(reconcile.RecheckAfter)
			if len(keys) != 1 || keys[0].Key != key.String() || !keys[0].Until.Equal(due) {
				t.Errorf("queued are %+v, want the pod at %v", keys, due)
			}
		})
	}
}

// Pins EPHV-28.
func TestAClaimThatCannotBeReadIsRetried(t *testing.T) {
	f := begin(t, pod())
	f.Store(t, claim("web-data"))
	f.Refuse("get persistentvolumeclaims web-data", errors.New("boom"))
	if err := f.Reconcile(); !apierrors.IsAlreadyExists(err) {
		t.Errorf("got %v", err)
	}
	f.WantEvents(t, `Warning FailedBinding ephemeral volume data: create PVC web-data: persistentvolumeclaims "web-data" already exists`)
}

// Pins EPHV-15.
func TestMetrics(t *testing.T) {
	f := begin(t, pod())
	f.MustReconcile(t)
	want := `
# HELP ephemeral_volume_controller_create_failures_total [ALPHA] Number of PersistentVolumeClaim creation requests
# TYPE ephemeral_volume_controller_create_failures_total counter
ephemeral_volume_controller_create_failures_total 0
# HELP ephemeral_volume_controller_create_total [ALPHA] Number of PersistentVolumeClaim creation requests
# TYPE ephemeral_volume_controller_create_total counter
ephemeral_volume_controller_create_total 1
`
	if err := testutil.GatherAndCompare(f.Metrics, strings.NewReader(want), "ephemeral_volume_controller_create_total", "ephemeral_volume_controller_create_failures_total"); err != nil {
		t.Error(err)
	}
}

func TestWhatIsQueued(t *testing.T) {
	recreated := func(p *corev1.Pod) { p.UID = "second" }
	refers := func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "shared"},
		}})
	}
	gone := func(name string, changes ...func(*corev1.PersistentVolumeClaim)) func(*volumeController) {
		return func(c *volumeController) { c.claimGone(claim(name, changes...)) }
	}
	for name, tc := range map[string]struct {
		cached *corev1.Pod
		event  func(*volumeController)
		want   int
	}{
		"EPHV-5: a pod":                         {event: func(c *volumeController) { c.podSeen(reconcile.Fresh, pod()) }, want: 1},
		"EPHV-5: a pod without such volumes":    {event: func(c *volumeController) { c.podSeen(reconcile.Fresh, controllertest.Pod(namespace, "web", emptyDir)) }, want: 0},
		"EPHV-5: a pod that is deleted":         {event: func(c *volumeController) { c.podSeen(reconcile.Fresh, pod(controllertest.Terminating)) }, want: 0},
		"EPHV-5: a pod changes":                 {event: func(c *volumeController) { c.podUpdated(reconcile.Fresh, pod(), pod()) }, want: 0},
		"EPHV-29: a pod is replaced":            {event: func(c *volumeController) { c.podUpdated(reconcile.Fresh, pod(), pod(recreated)) }, want: 1},
		"EPHV-6, EPHV-18: a claim is gone":      {cached: pod(), event: gone("web-data"), want: 1},
		"EPHV-6, EPHV-17: a stranger's is gone": {cached: pod(), event: gone("web-data", ofNobody), want: 1},
		"EPHV-6: a claim that it refers to":     {cached: pod(refers), event: gone("shared", ofNobody), want: 1},
		"EPHV-6: a pod without such volumes":    {cached: controllertest.Pod(namespace, "web", refers), event: gone("shared", ofNobody), want: 0},
		"EPHV-6: a pod that is deleted":         {cached: pod(controllertest.Terminating), event: gone("web-data"), want: 0},
		"EPHV-6: a claim of nobody's pod":       {cached: pod(), event: gone("other"), want: 0},
		"EPHV-6: a claim of another namespace":  {cached: pod(), event: gone("web-data", func(c *corev1.PersistentVolumeClaim) { c.Namespace = "another" }), want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t)
			if tc.cached != nil {
				f.Cache(t, tc.cached)
			}
			tc.event(f.c)
			if depth := f.c.loop.Inspect().Depth; depth != tc.want {
				t.Errorf("%d keys are queued, want %d", depth, tc.want)
			}
		})
	}
}

// Pins EPHV-4, EPHV-6, EPHV-7 and EPHV-24.
func TestAPodGetsItsClaimOnceAStrangersIsGone(t *testing.T) {
	env := controllertest.New(t, pod(), claim("web-data", ofNobody))
	c := must.Get(newController(env.Env, config{workers: 2}))(t)
	env.Start(t)
	env.Run(t, c)
	controllertest.Eventually(t, "the pod was seen", func() bool { return c.loop.Inspect().Failed == 1 })
	env.Remove(t, claim("web-data"))
	controllertest.Eventually(t, "it has a claim of its own", func() bool {
		stored, ok := controllertest.Stored[*corev1.PersistentVolumeClaim](t, env, namespace, "web-data")
		return ok && metav1.IsControlledBy(stored, pod())
	})
}

// Pins EPHV-1, EPHV-2, EPHV-3 and EPHV-9.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if on, reason := d.Enabled(cfg); !on || d.EventSource != "ephemeral_volume" {
		t.Errorf("enabled %v %s, source %s", on, reason, d.EventSource)
	}
	if d.Value(cfg) != (config{workers: 5}) {
		t.Errorf("the default is %+v", d.Value(cfg))
	}
	*cfg.Controllers.EphemeralVolume.ConcurrentSyncs = 9
	c := must.Get(d.New(controllertest.New(t).Env, d.Value(cfg)))(t)
	if s := c.(*volumeController).loop.Inspect(); s.Workers != 9 || s.Queue != "ephemeral_volume" {
		t.Errorf("loop: %+v", s)
	}
}

func BenchmarkReconcile(b *testing.B) {
	for _, pods := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			objects := []runtime.Object{pod(), claim("web-data")}
			for n := range pods {
				objects = append(objects, controllertest.Pod(namespace, fmt.Sprint("pod-", n), ephemeralVolume("data")))
			}
			begin(b, objects...).MeasureIdle(b)
		})
	}
}
