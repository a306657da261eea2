package pvprotection

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

const (
	put   = "update persistentvolumes volume"
	other = "example.com/other"
)

// volume returns a volume that has the finalizer and is not being deleted.
func volume(changes ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	return controllertest.Changed(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name: "volume", UID: "uid", ResourceVersion: "7", Finalizers: []string{other, string(finalizer)},
	}}, changes...)
}

func deleted(v *corev1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func unprotected(v *corev1.PersistentVolume) { v.Finalizers = []string{other} }

func in(phase corev1.PersistentVolumePhase) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { v.Status.Phase = phase }
}

func claimed(v *corev1.PersistentVolume) {
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "claim"}
}

func begin(t testing.TB, objects ...runtime.Object) *controllertest.Subject[string] {
	t.Helper()
	s := controllertest.NewSubject(t, "volume", objects...)
	s.CompleteWrites("persistentvolumes")
	s.CheckWrites("persistentvolumes")
	c := must.Get(newController(s.Env.Env))(t)
	s.Work, s.Kinds = c.reconcile, []runtime.Object{&corev1.PersistentVolume{}}
	s.CatchUp(t)
	return s
}

func TestWhatIsDoneForAVolume(t *testing.T) {
	protected, released := []string{other, string(finalizer)}, []string{other}
	type changes = []func(*corev1.PersistentVolume)
	for name, tc := range map[string]struct {
		changes changes
		writes  bool
		want    []string
	}{
		"PVP-10: not protected":                    {changes{unprotected}, true, protected},
		"PVP-10: not protected, bound":             {changes{unprotected, in(corev1.VolumeBound)}, true, protected},
		"PVP-11: protected":                        {changes{}, false, protected},
		"PVP-11: deleted, not protected":           {changes{unprotected, deleted}, false, released},
		"PVP-9: deleted, without a phase":          {changes{deleted}, true, released},
		"PVP-9, PVP-15: deleted, pending":          {changes{deleted, in(corev1.VolumePending)}, true, released},
		"PVP-9, PVP-15: deleted, available":        {changes{deleted, in(corev1.VolumeAvailable), claimed}, true, released},
		"PVP-9, PVP-12, PVP-22: deleted, released": {changes{deleted, in(corev1.VolumeReleased), claimed}, true, released},
		"PVP-9: deleted, failed":                   {changes{deleted, in(corev1.VolumeFailed), claimed}, true, released},
		"PVP-9: deleted, bound":                    {changes{deleted, in(corev1.VolumeBound)}, false, protected},
		"PVP-18: deleted, its finalizer only":      {changes{deleted, func(v *corev1.PersistentVolume) { v.Finalizers = v.Finalizers[1:] }}, true, nil},
		"PVP-9: deleted, protected twice": {changes{deleted, func(v *corev1.PersistentVolume) {
			v.Finalizers = []string{string(finalizer), other, string(finalizer), "kubernetes.io/pv-controller"}
		}}, true, []string{other, "kubernetes.io/pv-controller"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, volume(tc.changes...))
			s.MustReconcile(t)
			var want []string
			if tc.writes {
				want = []string{put}
			}
			s.WantRequests(t, want...)
			if got := controllertest.MustStored[*corev1.PersistentVolume](t, s.Env, "", "volume").Finalizers; !slices.Equal(got, tc.want) {
				t.Errorf("finalizers are %q, want %q", got, tc.want)
			}
			s.WantEvents(t)
		})
	}
}

// Pins PVP-8.
func TestAVolumeThatIsNotCachedIsLeftAlone(t *testing.T) {
	s := begin(t, volume(deleted))
	s.Uncache(t, volume())
	s.MustReconcile(t)
	s.WantRequests(t)
}

// The cache contains the volume before it was bound, or an earlier volume with the same name. The
// controller keeps no state, so the result is the same after a restart or a takeover.
func TestAStaleVolumeIsNotReleased(t *testing.T) {
	for name, stored := range map[string]*corev1.PersistentVolume{
		"PVP-16, PVP-17: bound meanwhile":   volume(deleted, in(corev1.VolumeBound)),
		"PVP-17: another one":               volume(in(corev1.VolumeBound), func(v *corev1.PersistentVolume) { v.UID = "second" }),
		"PVP-17: another one, also deleted": volume(deleted, in(corev1.VolumeBound), func(v *corev1.PersistentVolume) { v.UID = "second" }),
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, volume(deleted, in(corev1.VolumeAvailable)))
			s.Store(t, stored)
			if err := s.Reconcile(); !apierrors.IsConflict(err) {
				t.Errorf("got %v", err)
			}
			s.CatchUp(t)
			s.MustReconcile(t)
			s.WantRequests(t)
			if got := controllertest.MustStored[*corev1.PersistentVolume](t, s.Env, "", "volume"); len(got.Finalizers) != 2 {
				t.Errorf("finalizers are %q", got.Finalizers)
			}
		})
	}
}

// Pins PVP-7 and PVP-11.
func TestARefusedWriteIsRetriedUntilItSucceeds(t *testing.T) {
	for name, is := range map[string]*corev1.PersistentVolume{"adding": volume(unprotected), "removing": volume(deleted)} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t, is)
			env.RefuseIf(put, apierrors.NewForbidden(corev1.Resource("persistentvolumes"), "volume", nil), func(n int) bool { return n <= 2 })
			c := must.Get(newController(env.Env))(t)
			env.Start(t)
			env.Fake.ClearActions()
			env.Run(t, c)
			env.EventuallyAsTimePasses(t, "the third write succeeds", time.Second, func() bool {
				return !slices.Equal(controllertest.MustStored[*corev1.PersistentVolume](t, env, "", "volume").Finalizers, is.Finalizers)
			})
			env.AwaitIdle(t)
			if got := env.Requests()[:3]; !slices.Equal(got, []string{put, put, put}) {
				t.Errorf("requests are %q", got)
			}
		})
	}
}

func TestWhatIsQueued(t *testing.T) {
	for name, tc := range map[string]struct {
		volume *corev1.PersistentVolume
		want   int
	}{
		"PVP-5: not protected":          {volume(unprotected), 1},
		"PVP-5: protected":              {volume(), 0},
		"PVP-5: deleted":                {volume(deleted), 1},
		"PVP-5: deleted and bound":      {volume(deleted, in(corev1.VolumeBound)), 1},
		"PVP-5: deleted, not protected": {volume(deleted, unprotected), 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := &protectionController{}
			c.loop = reconcile.New(controllertest.New(t).Env, reconcile.Options[string]{Queue: "q"}, c.reconcile)
			c.queue = c.loop
			c.volumeSeen(reconcile.Fresh, tc.volume)
			if depth := c.loop.Inspect().Depth; depth != tc.want {
				t.Errorf("%d keys are queued, want %d", depth, tc.want)
			}
		})
	}
}

// What is no volume is dropped, also if only a tombstone is left of it. Pins PVP-19.
func TestWhatIsNoVolumeIsIgnored(t *testing.T) {
	env := controllertest.New(t)
	c := must.Get(newController(env.Env))(t)
	informer := &controllertest.Captured{}
	c.watch(informer)
	odd := &corev1.Node{ObjectMeta: volume(unprotected).ObjectMeta}
	informer.Handler.OnAdd(odd, false)
	informer.Handler.OnUpdate(odd, odd)
	informer.Handler.OnUpdate(volume(), odd)
	informer.Handler.OnDelete(odd)
	informer.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "volume"})
	if depth := c.loop.Inspect().Depth; depth != 0 {
		t.Errorf("%d keys are queued", depth)
	}
	informer.Handler.OnAdd(volume(unprotected), false)
	if depth := c.loop.Inspect().Depth; depth != 1 {
		t.Errorf("%d keys are queued after a volume", depth)
	}
}

// A failure is told in the log, and success and failure in the metrics of the queue only. Pins PVP-13 and PVP-23.
func TestWhatIsTold(t *testing.T) {
	env := controllertest.New(t, volume(unprotected))
	env.RefuseIf(put, errors.New("boom"), func(n int) bool { return n == 1 })
	c, err := newController(env.Env)
	if err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), logger))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	env.EventuallyAsTimePasses(t, "the volume is protected", time.Second, func() bool {
		return len(controllertest.MustStored[*corev1.PersistentVolume](t, env, "", "volume").Finalizers) == 2
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	if !strings.Contains(log, `Reconcile failed err="protecting persistent volume volume: boom"`) || !strings.Contains(log, `key="volume"`) {
		t.Errorf("log: %s", log)
	}
	env.WantEvents(t)
	env.WantOnlyQueueMetrics(t, "pvprotection")
}

// Replay finds what is to be done. Pins PVP-21.
func TestAnInstanceFindsWhatIsToBeDone(t *testing.T) {
	bound := volume(deleted, in(corev1.VolumeBound))
	env := controllertest.New(t, bound)
	env.CompleteWrites("persistentvolumes")
	c := must.Get(newController(env.Env))(t)
	env.Start(t)
	env.Run(t, c)
	controllertest.Eventually(t, "the volume was seen", func() bool { return c.loop.Inspect().Reconciled == 1 })
	if writes := env.Writes(); len(writes) != 0 {
		t.Fatalf("wrote %v", writes)
	}
	controllertest.Change(t, env, "", "volume", in(corev1.VolumeReleased))
	controllertest.Eventually(t, "the volume is released", func() bool {
		return len(controllertest.MustStored[*corev1.PersistentVolume](t, env, "", "volume").Finalizers) == 1
	})
}

// Pins PVP-1, PVP-4 and PVP-7.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if on, reason := d.Enabled(v1beta1.NewDefault()); !on {
		t.Errorf("it is disabled: %s", reason)
	}
	c := must.Get(d.New(controllertest.New(t).Env, d.Value(v1beta1.NewDefault())))(t)
	if s := c.(*protectionController).loop.Inspect(); s.Workers != 1 || s.Queue != "pvprotection" {
		t.Errorf("loop: %+v", s)
	}
}
