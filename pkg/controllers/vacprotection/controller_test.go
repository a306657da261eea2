package vacprotection

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

const (
	put   = "update volumeattributesclasses gold"
	other = "example.com/other"
)

// class returns a class that has the finalizer and is not being deleted.
func class(changes ...func(*storagev1.VolumeAttributesClass)) *storagev1.VolumeAttributesClass {
	return controllertest.Changed(&storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{
		Name: "gold", UID: "uid", ResourceVersion: "7", Finalizers: []string{other, string(finalizer)},
	}}, changes...)
}

func deleted(c *storagev1.VolumeAttributesClass) {
	c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
}

func unprotected(c *storagev1.VolumeAttributesClass) { c.Finalizers = []string{other} }

func volume(class string, changes ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume"}}
	if class != "" {
		v.Spec.VolumeAttributesClassName = &class
	}
	return controllertest.Changed(v, changes...)
}

// claim returns a claim with up to three classes: the requested, the current and the target class.
func claim(classes ...string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim"}}
	set := []func(string){
		func(s string) { c.Spec.VolumeAttributesClassName = ptr.To(s) },
		func(s string) { c.Status.CurrentVolumeAttributesClassName = ptr.To(s) },
		func(s string) {
			c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: s}
		},
	}
	for i, name := range classes {
		if name != "" {
			set[i](name)
		}
	}
	return c
}

func TestReferences(t *testing.T) {
	for name, tc := range map[string]struct {
		object any
		want   []string
	}{
		"VAC-7: a volume":                     {volume("gold"), []string{"gold"}},
		"VAC-7: a volume of no class":         {volume(""), nil},
		"VAC-7: a volume with an empty class": {volume("", func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = ptr.To("") }), nil},
		"VAC-8: what a claim asks for":        {claim("gold"), []string{"gold"}},
		"VAC-8: what a claim has":             {claim("", "gold"), []string{"gold"}},
		"VAC-8: what a claim is to get":       {claim("", "", "gold"), []string{"gold"}},
		"VAC-8: three":                        {claim("a", "b", "c"), []string{"a", "b", "c"}},
		"VAC-8: one, thrice":                  {claim("a", "a", "a"), []string{"a"}},
		"VAC-8: two":                          {claim("a", "b", "a"), []string{"a", "b"}},
		"VAC-8: none":                         {claim(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := classKeys(tc.object); err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func begin(t testing.TB, objects ...runtime.Object) (*controllertest.Subject[string], *protectionController) {
	t.Helper()
	s := controllertest.NewSubject(t, "gold", objects...)
	c := must.Get(newController(s.Env.Env))(t)
	s.Work = c.reconcile
	s.Kinds = []runtime.Object{&storagev1.VolumeAttributesClass{}, &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}}
	s.CatchUp(t)
	return s, c
}

func TestWhatIsDoneForAClass(t *testing.T) {
	protected, released := []string{other, string(finalizer)}, []string{other}
	released3 := volume("gold", func(v *corev1.PersistentVolume) {
		v.Status.Phase, v.DeletionTimestamp, v.Finalizers = corev1.VolumeReleased, &metav1.Time{Time: time.Unix(1, 0)}, []string{"a/b"}
	})
	for name, tc := range map[string]struct {
		class   *storagev1.VolumeAttributesClass
		objects []runtime.Object
		writes  bool
		want    []string
	}{
		"VAC-16: not protected":                     {class(unprotected), nil, true, protected},
		"VAC-16: not protected, used":               {class(unprotected), []runtime.Object{volume("gold")}, true, protected},
		"VAC-17: protected":                         {class(), nil, false, protected},
		"VAC-17: deleted, not protected":            {class(unprotected, deleted), nil, false, released},
		"VAC-15: unused":                            {class(deleted), nil, true, released},
		"VAC-15: others are used":                   {class(deleted), []runtime.Object{volume("silver"), claim("a", "b", "c")}, true, released},
		"VAC-15: a volume refers to it":             {class(deleted), []runtime.Object{volume("gold")}, false, protected},
		"VAC-15, VAC-22: a volume that is released": {class(deleted), []runtime.Object{released3}, false, protected},
		"VAC-15, VAC-21: a claim asks for it":       {class(deleted), []runtime.Object{claim("gold", "a", "b")}, false, protected},
		"VAC-15, VAC-21: a claim has it":            {class(deleted), []runtime.Object{claim("a", "gold", "b")}, false, protected},
		"VAC-15, VAC-21: a claim is to get it":      {class(deleted), []runtime.Object{claim("a", "b", "gold")}, false, protected},
		"VAC-15, VAC-23: the claim only":            {class(deleted), []runtime.Object{volume("silver"), claim("gold")}, false, protected},
		"VAC-15, VAC-23: the volume only":           {class(deleted), []runtime.Object{volume("gold"), claim("silver")}, false, protected},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := begin(t, append(tc.objects, tc.class)...)
			s.MustReconcile(t)
			var want []string
			if tc.writes {
				want = []string{put}
			}
			s.WantRequests(t, want...)
			if got := controllertest.MustStored[*storagev1.VolumeAttributesClass](t, s.Env, "", "gold").Finalizers; !slices.Equal(got, tc.want) {
				t.Errorf("finalizers are %q, want %q", got, tc.want)
			}
			s.WantEvents(t)
		})
	}
}

// The caches decide, even if they lack a claim. Pins VAC-20.
func TestNothingIsListedLive(t *testing.T) {
	s, _ := begin(t, class(deleted))
	s.Store(t, claim("gold"))
	s.MustReconcile(t)
	s.WantRequests(t, put)
}

// A class is not released if it is not known what refers to it. Pins VAC-30.
func TestAnIndexThatFailsReleasesNothing(t *testing.T) {
	unindexed := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for name, breakIt := range map[string]func(*protectionController){
		"volumes": func(c *protectionController) { c.volumes = unindexed },
		"claims":  func(c *protectionController) { c.claims = unindexed },
	} {
		t.Run(name, func(t *testing.T) {
			s, c := begin(t, class(deleted))
			breakIt(c)
			if err := s.Reconcile(); err == nil {
				t.Error("no error")
			}
			s.WantRequests(t)
		})
	}
}

// The watch was interrupted when what refers to a class was deleted. Pins VAC-31.
func TestDeletionsThatWereMissedCount(t *testing.T) {
	for name, missed := range map[string]any{"volume": volume("gold"), "claim": claim("gold")} {
		t.Run(name, func(t *testing.T) {
			s, c := begin(t)
			s.Cache(t, class(deleted))
			handlers := map[string]*controllertest.Captured{"volume": {}, "claim": {}}
			c.watch(&controllertest.Captured{}, handlers["volume"], handlers["claim"])
			handlers[name].Handler.OnDelete(cache.DeletedFinalStateUnknown{Obj: missed})
			if depth := c.loop.Inspect().Depth; depth != 1 {
				t.Errorf("%d keys are queued, want the class", depth)
			}
		})
	}
}

// Pins VAC-14.
func TestAClassThatIsNotCachedIsLeftAlone(t *testing.T) {
	s, _ := begin(t, class(deleted))
	s.Uncache(t, class())
	s.MustReconcile(t)
	s.WantRequests(t)
}

// The write has the UID and the version of what was decided on. Pins VAC-12.
func TestTheCachedClassIsWritten(t *testing.T) {
	s, _ := begin(t, class(deleted))
	s.MustReconcile(t)
	stored := controllertest.MustStored[*storagev1.VolumeAttributesClass](t, s.Env, "", "gold")
	if stored.UID != "uid" || stored.ResourceVersion != "7" {
		t.Errorf("sent %+v", stored)
	}
	s.WantRequests(t, put)
}

// Pins VAC-13 and VAC-17.
func TestARefusedWriteIsRetriedUntilItSucceeds(t *testing.T) {
	for name, is := range map[string]*storagev1.VolumeAttributesClass{"adding": class(unprotected), "removing": class(deleted)} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t, is)
			env.RefuseIf(put, apierrors.NewInternalError(errors.New("boom")), func(n int) bool { return n <= 2 })
			c := must.Get(newController(env.Env))(t)
			env.Start(t)
			env.Fake.ClearActions()
			env.Run(t, c)
			env.EventuallyAsTimePasses(t, "the third write succeeds", time.Second, func() bool {
				return !slices.Equal(controllertest.MustStored[*storagev1.VolumeAttributesClass](t, env, "", "gold").Finalizers, is.Finalizers)
			})
			env.AwaitIdle(t)
			if got := env.Requests()[:3]; !slices.Equal(got, []string{put, put, put}) {
				t.Errorf("requests are %q", got)
			}
		})
	}
}

// The cache shows a version that the API server has no more. Pins VAC-32.
func TestAfterAConflictTheClassIsReadLive(t *testing.T) {
	const get = "get volumeattributesclasses gold"
	newer := func(c *storagev1.VolumeAttributesClass) { c.ResourceVersion = "8" }
	for name, tc := range map[string]struct {
		cached, live *storagev1.VolumeAttributesClass
		want         []string
	}{
		"it is still to be released":  {class(deleted), class(deleted, newer), []string{put, get, put}},
		"it is still to be protected": {class(unprotected), class(unprotected, newer), []string{put, get, put}},
		"it was released":             {class(deleted), class(deleted, unprotected, newer), []string{put, get}},
		"it was protected":            {class(unprotected), class(newer), []string{put, get}},
		"it is gone":                  {class(deleted), nil, []string{put, get}},
		"it is another one":           {class(deleted), class(deleted, newer, func(c *storagev1.VolumeAttributesClass) { c.UID = "other" }), []string{put, get}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := begin(t, tc.cached)
			s.RefuseIf(put, apierrors.NewConflict(storagev1.Resource("volumeattributesclasses"), "gold", nil), func(n int) bool { return n == 1 })
			s.Fake.PrependReactor("get", "volumeattributesclasses", func(clienttesting.Action) (bool, runtime.Object, error) {
				if tc.live == nil {
					return true, nil, apierrors.NewNotFound(storagev1.Resource("volumeattributesclasses"), "gold")
				}
				return true, tc.live, nil
			})
			s.MustReconcile(t)
			s.WantRequests(t, tc.want...)
		})
	}
}

// The API server may say so because of an admission webhook: the cache shows whether a class is gone. Pins VAC-33.
func TestAWriteDoesNotProveThatAClassIsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		is       *storagev1.VolumeAttributesClass
		conflict bool // answers the first write
		isGone   bool
	}{
		"adding: it is there":                     {class(unprotected), false, false},
		"adding: it is gone":                      {class(unprotected), false, true},
		"removing: it is there":                   {class(deleted), false, false},
		"removing: it is gone":                    {class(deleted), false, true},
		"removing, after a conflict: it is there": {class(deleted), true, false},
		"removing, after a conflict: it is gone":  {class(deleted), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t, tc.is)
			env.RefuseIf(put, apierrors.NewNotFound(storagev1.Resource("volumeattributesclasses"), "gold"), func(n int) bool {
				if n == 1 && tc.isGone {
					env.Remove(t, tc.is)
				}
				return n == 1
			})
			env.RefuseIf(put, apierrors.NewConflict(storagev1.Resource("volumeattributesclasses"), "gold", nil), func(n int) bool {
				return n == 1 && tc.conflict
			})
			c := must.Get(newController(env.Env))(t)
			env.Start(t)
			env.Run(t, c)
			controllertest.Eventually(t, "the write is refused", func() bool {
				_, err := c.classes.Get("gold")
				return c.loop.Inspect().Reconciled == 1 && apierrors.IsNotFound(err) == tc.isGone
			})
			env.Requests()
			env.EventuallyAsTimePasses(t, "the class is looked at again", time.Second, func() bool { return c.loop.Inspect().Reconciled >= 2 })
			if took := env.Clock.Since(controllertest.Epoch); took < reconcile.RecheckAfter {
				t.Errorf("it is looked at again after %v", took)
			}
			var want []string
			if !tc.isGone {
				want = []string{put}
			}
			env.WantRequests(t, want...)
		})
	}
}

func TestWhatIsQueued(t *testing.T) {
	isClass := func(changes ...func(*storagev1.VolumeAttributesClass)) func(*protectionController) {
		return func(c *protectionController) { c.classSeen(reconcile.Fresh, class(changes...)) }
	}
	change := func(old, now references) func(*protectionController) {
		return func(c *protectionController) { c.referencesChanged(reconcile.Fresh, old, now) }
	}
	for name, tc := range map[string]struct {
		cached *storagev1.VolumeAttributesClass
		event  func(*protectionController)
		want   int
	}{
		"VAC-9: not protected":                   {class(), isClass(unprotected), 1},
		"VAC-9: protected":                       {class(), isClass(), 0},
		"VAC-9: deleted":                         {class(), isClass(deleted), 1},
		"VAC-9: deleted, not protected":          {class(), isClass(deleted, unprotected), 0},
		"VAC-10: a volume switches":              {class(deleted), change(ofVolume(volume("gold")), ofVolume(volume("silver"))), 1},
		"VAC-10: a volume goes":                  {class(deleted), change(ofVolume(volume("gold")), references{}), 1},
		"VAC-10, VAC-28: a volume keeps it":      {class(deleted), change(ofVolume(volume("gold")), ofVolume(volume("gold"))), 0},
		"VAC-10: a claim asks for another":       {class(deleted), change(ofClaim(claim("gold")), ofClaim(claim("silver"))), 1},
		"VAC-10: a claim still has it":           {class(deleted), change(ofClaim(claim("gold", "gold")), ofClaim(claim("silver", "gold"))), 0},
		"VAC-10: a claim is still to get it":     {class(deleted), change(ofClaim(claim("gold", "", "gold")), ofClaim(claim("", "", "gold"))), 0},
		"VAC-10: a claim comes to have it":       {class(deleted), change(ofClaim(claim("", "silver", "gold")), ofClaim(claim("", "gold", ""))), 0},
		"VAC-10: a claim has changed":            {class(deleted), change(ofClaim(claim("", "gold", "silver")), ofClaim(claim("", "silver", ""))), 1},
		"VAC-10: a claim goes":                   {class(deleted), change(ofClaim(claim("", "", "gold")), references{}), 1},
		"VAC-29: of a class that is not deleted": {class(), change(ofVolume(volume("gold")), references{}), 0},
		"VAC-29: of a class that is not there":   {class(deleted), change(ofVolume(volume("silver")), references{}), 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := begin(t)
			s.Cache(t, tc.cached)
			tc.event(c)
			if depth := c.loop.Inspect().Depth; depth != tc.want {
				t.Errorf("%d keys are queued, want %d", depth, tc.want)
			}
		})
	}
}

// An instance finds the class in its cache and enqueues it when the last references are removed. A
// second instance can use the same informers.
//
// Pins VAC-11, VAC-23, VAC-26 and VAC-27.
func TestAClassGoesAfterItsReferences(t *testing.T) {
	env := controllertest.New(t, class(deleted), volume("gold"), claim("gold", "gold"))
	if _, err := newController(env.Env); err != nil {
		t.Fatal(err)
	}
	env.Succeed(nil)
	c := must.Get(newController(env.Env))(t)
	env.Start(t)
	env.Run(t, c)
	reconciled := func(n uint64) {
		t.Helper()
		controllertest.Eventually(t, "the class was looked at", func() bool { return c.loop.Inspect().Reconciled >= n })
		if writes := env.Writes(); len(writes) != 0 {
			t.Fatalf("wrote %v", writes)
		}
	}
	reconciled(1)
	env.Remove(t, volume("gold"))
	reconciled(2)
	controllertest.Change(t, env, "ns", "claim", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName = ptr.To("silver"), ptr.To("silver")
	})
	controllertest.Eventually(t, "the class is released", func() bool {
		return len(controllertest.MustStored[*storagev1.VolumeAttributesClass](t, env, "", "gold").Finalizers) == 1
	})
}

// A class is protected, and one that cannot be: neither causes an event, or a metric other than the queue's.
// Pins VAC-18.
func TestWhatIsTold(t *testing.T) {
	env := controllertest.New(t, class(unprotected), class(unprotected, func(c *storagev1.VolumeAttributesClass) { c.Name = "silver" }))
	env.Refuse("update volumeattributesclasses silver", errors.New("boom"))
	c := must.Get(newController(env.Env))(t)
	env.Start(t)
	env.Run(t, c)
	controllertest.Eventually(t, "both were worked on", func() bool {
		return c.loop.Retries("silver") > 0 && len(controllertest.MustStored[*storagev1.VolumeAttributesClass](t, env, "", "gold").Finalizers) == 2
	})
	env.WantEvents(t)
	env.WantOnlyQueueMetrics(t, "vacprotection")
}

// Pins VAC-1, VAC-5, VAC-6 and VAC-13.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if on, reason := d.Enabled(cfg); !on {
		t.Errorf("it is disabled: %s", reason)
	}
	if d.Requires[0].Resource != "volumeattributesclasses" {
		t.Errorf("it waits for %v", d.Requires)
	}
	c := must.Get(d.New(controllertest.New(t).Env, d.Value(cfg)))(t)
	if s := c.(*protectionController).loop.Inspect(); s.Workers != 1 || s.Queue != "vacprotection" {
		t.Errorf("loop: %+v", s)
	}
	cfg.EmulatedVersion, cfg.FeatureGates = "1.35", map[string]bool{"VolumeAttributesClass": false}
	if on, _ := d.Enabled(cfg); on {
		t.Error("it is enabled without its gate")
	}
}

func BenchmarkReconcileUsed(b *testing.B) {
	for _, volumes := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("volumes=%d", volumes), func(b *testing.B) {
			objects := []runtime.Object{class(deleted), claim("gold")}
			for n := range volumes {
				objects = append(objects, volume(fmt.Sprint("class-", n), func(v *corev1.PersistentVolume) { v.Name = fmt.Sprint("volume-", n) }))
			}
			s, _ := begin(b, objects...)
			s.MeasureIdle(b)
		})
	}
}

// The status of a claim changes often, but its references to classes rarely do.
func BenchmarkUpdateWithoutAChange(b *testing.B) {
	is := claim("gold", "gold", "gold")
	c := &protectionController{}
	b.ReportAllocs()
	for b.Loop() {
		c.referencesChanged(reconcile.Fresh, ofClaim(is), ofClaim(is))
	}
}
