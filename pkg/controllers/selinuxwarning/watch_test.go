package selinuxwarning

import (
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func TestWhatIsQueued(t *testing.T) {
	updated := func(old, pod *corev1.Pod) func(*warner) {
		return func(c *warner) { c.podUpdated(reconcile.Fresh, old, pod) }
	}
	claimed := func(old, is *corev1.PersistentVolumeClaim) func(*warner) {
		return func(c *warner) { c.claimChanged(reconcile.Fresh, old, is) }
	}
	bound := func(old, is *corev1.PersistentVolume) func(*warner) {
		return func(c *warner) { c.volumeChanged(reconcile.Fresh, old, is) }
	}
	driven := func(old, is *storagev1.CSIDriver) func(*warner) {
		return func(c *warner) { c.driverUpdated(reconcile.Fresh, old, is) }
	}
	phase := controllertest.InPhase
	unbound := func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName, c.Status.Phase = "", corev1.ClaimPending }
	pending := func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending }
	free := func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil }
	reserved := func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "" }
	ofAnother := func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "another" }
	p := user("ns", "p", "s0")
	newClaim, newVolume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	on, off, unset := driver(ptr.To(true)), driver(ptr.To(false)), driver(nil)
	for name, tc := range map[string]struct {
		event func(*warner)
		want  int
	}{
		"SEL-8: a pod has succeeded":            {updated(p, user("ns", "p", "s0", phase(corev1.PodSucceeded))), 1},
		"SEL-8: a pod has failed":               {updated(p, user("ns", "p", "s0", phase(corev1.PodFailed))), 1},
		"SEL-8: a pod runs":                     {updated(user("ns", "p", "s0", phase(corev1.PodPending)), p), 0},
		"SEL-8: a pod changes":                  {updated(p, user("ns", "p", "s0:c1")), 0},
		"SEL-8: a finished pod changes":         {updated(user("ns", "p", "s0", phase(corev1.PodFailed)), user("ns", "p", "s1", phase(corev1.PodFailed))), 0},
		"SEL-48: a pod is replaced":             {updated(p, user("ns", "p", "s0", func(p *corev1.Pod) { p.UID = "second" })), 1},
		"SEL-9: a claim with a volume":          {claimed(newClaim, claim("ns")), 2},
		"SEL-9: a claim without a volume":       {claimed(newClaim, claim("ns", unbound)), 0},
		"SEL-9: a claim gets a volume":          {claimed(claim("ns", unbound), claim("ns", pending)), 2},
		"SEL-49: a claim is bound":              {claimed(claim("ns", pending), claim("ns")), 2},
		"SEL-9: a claim changes":                {claimed(claim("ns"), claim("ns", func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"a": "b"} })), 0},
		"SEL-9: a claim of nobody":              {claimed(newClaim, claim("third")), 0},
		"SEL-10: a volume of a claim":           {bound(newVolume, persistent("ns")), 2},
		"SEL-10: a volume of nobody":            {bound(newVolume, persistent("ns", free)), 0},
		"SEL-10: a volume that is reserved":     {bound(newVolume, persistent("ns", reserved)), 0},
		"SEL-10: a volume is bound":             {bound(persistent("ns", free), persistent("ns")), 2},
		"SEL-10: a reserved volume is bound":    {bound(persistent("ns", reserved), persistent("ns")), 2},
		"SEL-10: the volume of another is":      {bound(persistent("ns", ofAnother), persistent("ns")), 2},
		"SEL-10: a bound volume changes":        {bound(persistent("ns"), persistent("ns")), 0},
		"SEL-10: a volume is released":          {bound(persistent("ns"), persistent("ns", free)), 0},
		"SEL-11: a driver that mounts":          {func(c *warner) { c.driverSeen(reconcile.Fresh, on) }, 2},
		"SEL-11: a driver that does not":        {func(c *warner) { c.driverSeen(reconcile.Fresh, off) }, 2},
		"SEL-11: a driver mounts now":           {driven(unset, on), 2},
		"SEL-11: a driver does not mount":       {driven(on, off), 2},
		"SEL-11: a driver that says so":         {driven(unset, off), 0},
		"SEL-11: a driver that mounts changes":  {driven(on, on), 0},
		"SEL-11: a driver that mounted is gone": {func(c *warner) { c.driverGone(on) }, 2},
		"SEL-11: a driver that did not is gone": {func(c *warner) { c.driverGone(unset) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, world(p, user("ns", "q", "s0"), user("other", "r", "s0", func(p *corev1.Pod) { p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "none" }))...)
			f.see(t, "ns/p", "ns/q")
			tc.event(f.c)
			if depth := f.c.loop.Inspect().Depth; depth != tc.want {
				t.Errorf("%d keys are queued, want %d", depth, tc.want)
			}
		})
	}
}

// The handlers are on the informers. Pins SEL-7, SEL-8 and SEL-12.
func TestAConflictAppearsAndVanishes(t *testing.T) {
	env := controllertest.New(t, claim("ns"), driver(ptr.To(true)), user("ns", "p", "s0:c1"))
	c := must.Get(newController(env.Env))(t)
	env.Start(t)
	env.Run(t, c)
	env.Store(t, user("ns", "q", "s0:c2"), persistent("ns"))
	controllertest.Eventually(t, "the conflict is shown", func() bool { return len(env.Series(t, metric)) == 2 })
	env.Store(t, driver(nil))
	controllertest.Eventually(t, "the driver does not mount with labels", func() bool { return len(env.Series(t, metric)) == 0 })
	env.Remove(t, driver(nil))
	env.Store(t, driver(ptr.To(true)))
	controllertest.Eventually(t, "it does again", func() bool { return len(env.Series(t, metric)) == 2 })
	env.Remove(t, user("ns", "p", ""))
	controllertest.Eventually(t, "the pod is gone", func() bool { return len(env.Series(t, metric)) == 0 })
}

// What is no object has no key, and queues none. Pins SEL-40.
func TestWhatIsNoObjectQueuesNothing(t *testing.T) {
	env := controllertest.New(t)
	c := must.Get(newController(env.Env))(t)
	pods := &controllertest.Captured{}
	c.watch(pods, &controllertest.Captured{}, &controllertest.Captured{}, &controllertest.Captured{})
	pods.Handler.OnAdd("odd", false)
	pods.Handler.OnUpdate("odd", user("ns", "p", "s0", controllertest.InPhase(corev1.PodFailed)))
	pods.Handler.OnDelete("odd")
	pods.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/p"})
	if depth := c.loop.Inspect().Depth; depth != 0 {
		t.Errorf("%d keys are queued", depth)
	}
	pods.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/p", Obj: user("ns", "p", "s0")})
	if depth := c.loop.Inspect().Depth; depth != 1 {
		t.Errorf("%d keys are queued after a pod", depth)
	}
}

// lateDriver is a lister that finds no driver, and to whose cache it is added just then. The handler runs at once,
// unless it has to wait for the lock.
type lateDriver struct {
	storagelisters.CSIDriverLister
	c       *warner
	added   func()
	handled *sync.WaitGroup
}

func (l lateDriver) Get(name string) (*storagev1.CSIDriver, error) {
	object, err := l.CSIDriverLister.Get(name)
	l.added()
	handle := func() { l.c.driverSeen(reconcile.Fresh, driver(ptr.To(true))) }
	if !l.c.uses.mu.TryLock() {
		l.handled.Go(handle)
		return object, err
	}
	l.c.uses.mu.Unlock()
	handle()
	return object, err
}

// A driver appears while a pod is worked on that uses it first. The pod is judged again.
//
// Pins SEL-11.
func TestADriverThatAppearsMeanwhile(t *testing.T) {
	f := begin(t, claim("ns"), persistent("ns"), user("ns", "p", "s0:c1"))
	var handled sync.WaitGroup
	f.c.drivers = lateDriver{f.c.drivers, f.c, func() { f.Cache(t, driver(ptr.To(true))) }, &handled}
	f.see(t, "ns/p")
	handled.Wait()
	if depth := f.c.loop.Inspect().Depth; depth != 1 {
		t.Errorf("%d keys are queued", depth)
	}
}
