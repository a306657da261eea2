package pvbinder

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/requests"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// toRecycle is a volume to be emptied whose claim is gone.
func toRecycle(changes ...func(*pv)) *pv {
	return aVolume("volume", append([]func(*pv){claimedBy(claimUID), byController, onHostPath("/data"), policy(corev1.PersistentVolumeReclaimRecycle), inPhase(corev1.VolumeReleased)}, changes...)...)
}

const (
	podName   = "recycler-for-volume"
	listPods  = "list pods"
	watchPods = "watch pods"
	watchEv   = "watch events"
	createPod = "create pods " + podName
	deletePod = "delete pods " + podName
	getPod    = "get pods " + podName
)

// asked are the requests before a pod is created.
var asked = []string{getVolume, getClaim, listPods, watchPods, watchEv}

// recycling starts to empty a volume, and returns when the pod exists.
func recycling(t *testing.T, f *fixture) {
	t.Helper()
	if err := f.c.reconcileVolume(f.Context(), "volume"); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "the pod is known", func() bool {
		_, ok := f.c.recycles.podOf("volume-uid")
		return ok
	})
}

func setPod(t *testing.T, f *fixture, phase corev1.PodPhase, message string) {
	t.Helper()
	controllertest.Change(t, f.Env, metav1.NamespaceDefault, podName, func(p *corev1.Pod) { p.Status.Phase, p.Status.Message = phase, message })
}

// Pins PVB-39, PVB-40, PVB-85, PVB-85b and PVB-85c.
func TestAVolumeIsRecycled(t *testing.T) {
	f := begin(t, toRecycle())
	recycling(t, f)
	f.WantRequests(t, append(asked, createPod)...)
	f.mustSync(t, func() error { return f.c.reconcileVolume(f.Context(), "volume") }) // it is running
	pod := controllertest.MustStored[*corev1.Pod](t, f.Env, metav1.NamespaceDefault, podName)
	if pod.Spec.Volumes[0].HostPath.Path != "/data" || pod.Spec.Volumes[0].HostPath.Type != nil || *pod.Spec.ActiveDeadlineSeconds != 150 {
		t.Errorf("the pod is %+v", pod.Spec)
	}
	f.Store(t, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "e"}, Type: corev1.EventTypeNormal, Reason: "Pulling", Message: "pulling it"})
	controllertest.Eventually(t, "the event was passed on", func() bool { return len(f.Env.Events.Events) > 0 })
	setPod(t, f, corev1.PodSucceeded, "")
	f.c.operations.await()
	f.WantRequests(t, deletePod, putVolume, putVolumeStatus)
	f.WantEvents(t, "Normal RecyclerPod Recycler pod: pulling it", "Normal VolumeRecycled Volume recycled")
	if v := f.volume(t); v.Spec.ClaimRef != nil || v.Status.Phase != corev1.VolumeAvailable {
		t.Errorf("the volume is %s of %v", v.Status.Phase, v.Spec.ClaimRef)
	}
}

func TestARecyclerPodFails(t *testing.T) {
	for name, tc := range map[string]struct {
		ending func(t *testing.T, f *fixture)
		want   string
	}{
		"PVB-85c: it fails":    {func(t *testing.T, f *fixture) { setPod(t, f, corev1.PodFailed, "") }, "failed to recycle volume: pod failed, pod.Status.Message unknown"},
		"PVB-85c: it says why": {func(t *testing.T, f *fixture) { setPod(t, f, corev1.PodFailed, "too slow") }, "failed to recycle volume: too slow"},
		"PVB-85c: it is deleted": {func(t *testing.T, f *fixture) {
			f.Remove(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: podName}})
		}, "failed to recycle volume: recycler pod was deleted"},
		"PVB-85c: it cannot be deleted": {func(t *testing.T, f *fixture) {
			f.Refuse(deletePod, errors.New("boom"))
			setPod(t, f, corev1.PodSucceeded, "")
		}, "failed to delete recycler pod: boom"},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, toRecycle())
			recycling(t, f)
			f.WantRequests(t, append(asked, createPod)...)
			tc.ending(t, f)
			f.c.operations.await()
			f.WantRequests(t, deletePod, putVolumeStatus)
			f.WantEvents(t, "Warning VolumeFailedRecycle Recycle failed: "+tc.want)
			if v := f.volume(t); v.Status.Phase != corev1.VolumeFailed || v.Status.Message != "Recycle failed: "+tc.want || v.Spec.ClaimRef == nil {
				t.Errorf("the volume is %+v", v.Status)
			}
			if f.c.operations.isBlocked("recycle-volume[volume-uid]") {
				t.Error("PVB-46: it is blocked")
			}
		})
	}
}

// What is not marked as Failed is emptied again with each pass.
func TestThatAVolumeCannotBeMarkedAsFailedIsLogged(t *testing.T) {
	for name, tc := range map[string]struct {
		refusal error
		want    []string
	}{
		"it is refused":  {apierrors.NewForbidden(corev1.Resource("persistentvolumes"), "volume", errors.New("boom")), []string{`persistentvolumes "volume" is forbidden: boom`}},
		"it has changed": {errConflict, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, toRecycle(onLocal))
			logged := f.log()
			f.Refuse(putVolumeStatus, tc.refusal)
			f.mustSync(t, f.syncVolume)
			wantLogged(t, *logged, "Failed to set phase Failed", tc.want...)
		})
	}
}

func TestARecyclerPodIsNotCreated(t *testing.T) {
	exists := apierrors.NewAlreadyExists(corev1.Resource("pods"), podName)
	const prefix = "Warning VolumeFailedRecycle Recycle failed: "
	for name, tc := range map[string]struct {
		create, get, remove error
		none                bool // no pod has the name
		want                string
		requests            []string
	}{
		"PVB-85c, PVB-110, PVB-133: an old one": {create: exists, want: "old recycler pod found, will retry later", requests: []string{createPod, getPod, deletePod, putVolumeStatus}},
		"PVB-133: an old one that is gone":      {create: exists, none: true, want: "old recycler pod found, will retry later", requests: []string{createPod, getPod, putVolumeStatus}},
		"PVB-133: an old one cannot be read":    {create: exists, get: errors.New("boom"), want: "failed to delete old recycler pod default/recycler-for-volume: boom", requests: []string{createPod, getPod, putVolumeStatus}},
		"PVB-85c: an old one stays":             {create: exists, remove: errors.New("boom"), want: "failed to delete old recycler pod default/recycler-for-volume: boom", requests: []string{createPod, getPod, deletePod, putVolumeStatus}},
		"PVB-85c: it is refused":                {create: errors.New("quota"), want: "unexpected error creating recycler pod:  quota", requests: []string{createPod, putVolumeStatus}},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, toRecycle())
			f.Refuse(createPod, tc.create)
			if tc.get != nil {
				f.Refuse(getPod, tc.get)
			}
			if tc.remove != nil {
				f.Refuse(deletePod, tc.remove)
			}
			if !tc.none {
				f.Store(t, oldPod("old"))
			}
			f.mustSync(t, f.syncVolume)
			f.WantRequests(t, append(asked, tc.requests...)...)
			f.WantEvents(t, prefix+tc.want)
		})
	}
}

func oldPod(uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: podName, UID: uid}}
}

// Another instance, which has the lease by now, replaces the old pod before it is deleted. Its own pod stays.
//
// Pins PVB-133.
func TestAPodThatReplacesAnOldRecyclerPodIsNotDeleted(t *testing.T) {
	f := begin(t, toRecycle(), oldPod("old"))
	f.Intercept(deletePod, func(a clienttesting.Action) error {
		f.Store(t, oldPod("new"))
		if p := a.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions; p != nil && p.UID != nil && *p.UID != "new" {
			return apierrors.NewConflict(corev1.Resource("pods"), podName, nil)
		}
		return nil
	})
	f.mustSync(t, f.syncVolume)
	f.WantEvents(t, "Warning VolumeFailedRecycle Recycle failed: old recycler pod found, will retry later")
	if _, ok := controllertest.Stored[*corev1.Pod](t, f.Env, metav1.NamespaceDefault, podName); !ok {
		t.Error("the pod of the other instance was deleted")
	}
}

func TestAVolumeIsNotRecycled(t *testing.T) {
	user := controllertest.Pod(namespace, "b", using)
	another := controllertest.Pod(namespace, "a", using, controllertest.InPhase(corev1.PodPending))
	inUse := "Normal VolumeFailedRecycle Volume is used by pods: ns/a,ns/b"
	for name, tc := range map[string]struct {
		stored, live []runtime.Object
		requests     []string
		events       []string
	}{
		"PVB-85: pods use it":                        {stored: []runtime.Object{toRecycle(), user, another}, requests: []string{getVolume, getClaim}, events: []string{inUse}},
		"PVB-115: pods use it that are not cached":   {stored: []runtime.Object{toRecycle()}, live: []runtime.Object{user, another}, requests: []string{getVolume, getClaim, listPods}, events: []string{inUse}},
		"PVB-85: it is not released":                 {stored: []runtime.Object{toRecycle()}, live: []runtime.Object{toRecycle(func(v *pv) { v.Spec.ClaimRef = nil })}, requests: []string{getVolume}},
		"PVB-115, PVB-107: another has its name":     {stored: []runtime.Object{toRecycle()}, live: []runtime.Object{toRecycle(func(v *pv) { v.UID = "second" })}, requests: []string{getVolume}},
		"PVB-115, PVB-100: its claim is not cached":  {stored: []runtime.Object{toRecycle()}, live: []runtime.Object{aClaim(naming("volume"))}, requests: []string{getVolume, getClaim}},
		"PVB-115: its claim, bound elsewhere, lives": {stored: []runtime.Object{toRecycle()}, live: []runtime.Object{aClaim()}, requests: []string{getVolume, getClaim}},
		"PVB-85: there is no plugin": {stored: []runtime.Object{toRecycle(onLocal)}, requests: []string{getVolume, getClaim, listPods, putVolumeStatus},
			events: []string{"Warning VolumeFailedRecycle No recycler plugin found for the volume!"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, tc.stored...)
			for _, object := range tc.live {
				f.Store(t, object)
			}
			f.mustSync(t, f.syncVolume)
			f.WantRequests(t, tc.requests...)
			f.WantEvents(t, tc.events...)
		})
	}
}

// Pods of a claim that has the name now use another volume, and pods that have ended use none.
//
// Pins PVB-85 and PVB-85a.
func TestPodsThatDoNotUseAVolume(t *testing.T) {
	f := begin(t, toRecycle(), aClaim(recreatedClaim), controllertest.Pod(namespace, "b", using))
	recycling(t, f)
	setPod(t, f, corev1.PodSucceeded, "")
	f.c.operations.await()
	f.WantEvents(t, "Normal VolumeRecycled Volume recycled")

	f = begin(t, toRecycle(), controllertest.Pod(namespace, "b", using, controllertest.InPhase(corev1.PodSucceeded)))
	recycling(t, f)
	setPod(t, f, corev1.PodSucceeded, "")
	f.c.operations.await()
	f.WantEvents(t, "Normal VolumeRecycled Volume recycled")
}

// The deletion of a recycler pod is for its UID. Pins PVB-116.
func TestTheDeletionOfARecyclerPodHasPreconditions(t *testing.T) {
	f := begin(t, toRecycle())
	recycling(t, f)
	pod := controllertest.MustStored[*corev1.Pod](t, f.Env, metav1.NamespaceDefault, podName)
	f.Intercept(deletePod, func(a clienttesting.Action) error {
		if d, ok := a.(clienttesting.DeleteActionImpl); !ok || *d.DeleteOptions.Preconditions.UID != pod.UID {
			t.Errorf("got %+v", a)
		}
		return nil
	})
	setPod(t, f, corev1.PodSucceeded, "")
	f.c.operations.await()
}

// While a create that had no answer may be executed, no other pod is created, and one that comes is deleted: once the
// volume is free, it would delete what the next claim stores. Pins PVB-136.
func TestAVolumeIsNotEmptiedWhileARecyclerPodMayComeLate(t *testing.T) {
	f := begin(t, toRecycle())
	allow := f.Refuse(createPod, apierrors.NewTimeoutError("late", 0))
	f.mustSync(t, f.syncVolume)
	allow()
	f.WantRequests(t, append(asked, createPod, putVolumeStatus)...)
	f.catchUp(t)
	f.mustSync(t, f.syncVolume)
	f.WantRequests(t, append(asked, getPod)...)
	f.Store(t, oldPod("late"))
	f.catchUp(t)
	f.mustSync(t, f.syncVolume)
	f.WantRequests(t, append(asked, getPod, deletePod)...)
	f.Clock.Step(requests.LateWithin)
	must.Succeed(t, f.c.reconcileVolume(f.Context(), "volume"))
	controllertest.Eventually(t, "there is a pod", func() bool {
		_, ok := controllertest.Stored[*corev1.Pod](t, f.Env, metav1.NamespaceDefault, podName)
		return ok
	})
	setPod(t, f, corev1.PodSucceeded, "")
	f.c.operations.await()
	f.WantRequests(t, append(asked, getPod, createPod, deletePod, putVolume, putVolumeStatus)...)
}

// The volume may be free before a pod comes whose create had no answer. Pins PVB-136.
func TestARecyclerPodThatComesLateIsDeleted(t *testing.T) {
	f := begin(t, toRecycle())
	f.Refuse(createPod, apierrors.NewTimeoutError("late", 0))
	f.mustSync(t, f.syncVolume)
	f.Store(t, toRecycle(inPhase(corev1.VolumeAvailable), func(v *pv) { v.Spec.ClaimRef = nil }))
	f.catchUp(t)
	f.mustSync(t, f.syncVolume)
	f.Succeed(f.c.HandOver())
	next := wired(t, f.Env, must.Get(newController(f.Env.Env, defaults()))(t))
	next.c.takeOver()
	f.Store(t, oldPod("late"))
	f.mustSync(t, next.syncVolume)
	if _, ok := controllertest.Stored[*corev1.Pod](t, f.Env, metav1.NamespaceDefault, podName); ok {
		t.Error("the pod is still there")
	}
	wantRemembered(t, next)
	f.Clock.Step(requests.LateWithin)
	f.mustSync(t, next.syncVolume)
	if _, ok := next.c.recycles.podOf("volume-uid"); ok {
		t.Error("the create is remembered for ever")
	}
}

// A pod that could not be deleted may still run. It must not go on when the volume is free. Pins PVB-140.
func TestARecyclerPodThatCannotBeDeletedIsRemembered(t *testing.T) {
	failing := func(t *testing.T) (f *fixture, allow func()) {
		t.Helper()
		f = begin(t, toRecycle())
		recycling(t, f)
		allow = f.Refuse(deletePod, errors.New("boom"))
		setPod(t, f, corev1.PodFailed, "")
		f.c.operations.await()
		f.Requests()
		wantRemembered(t, f)
		return f, allow
	}
	t.Run("the volume is free", func(t *testing.T) {
		f, allow := failing(t)
		allow()
		f.Store(t, toRecycle(inPhase(corev1.VolumeAvailable), func(v *pv) { v.Spec.ClaimRef = nil }))
		f.catchUp(t)
		f.mustSync(t, f.syncVolume)
		f.WantRequests(t, deletePod)
	})
	t.Run("the volume is to be emptied", func(t *testing.T) {
		f, allow := failing(t)
		allow()
		f.catchUp(t)
		f.mustSync(t, f.syncVolume)
		f.WantRequests(t, append(asked, getPod, deletePod)...)
		if _, ok := f.c.recycles.podOf("volume-uid"); ok {
			t.Error("the pod is remembered")
		}
	})
}

// A write of a pod that is refused because of a pause says nothing about the volume. Pins PVB-138.
func TestAVolumeIsNotFailedByAPause(t *testing.T) {
	paused := &controller.PausedError{Namespace: metav1.NamespaceDefault}
	isReleased := func(t *testing.T, f *fixture) {
		t.Helper()
		f.WantEvents(t)
		if phase := f.volume(t).Status.Phase; phase != corev1.VolumeReleased {
			t.Errorf("the volume is %s", phase)
		}
	}
	t.Run("the pod is not created", func(t *testing.T) {
		f := begin(t, toRecycle())
		allow := f.Refuse(createPod, paused)
		f.mustSync(t, f.syncVolume)
		f.WantRequests(t, append(asked, createPod)...)
		isReleased(t, f)
		allow()
		recycling(t, f)
		f.WantRequests(t, append(asked, createPod)...)
	})
	t.Run("the pod is not deleted", func(t *testing.T) {
		f := begin(t, toRecycle())
		recycling(t, f)
		allow := f.Refuse(deletePod, paused)
		setPod(t, f, corev1.PodSucceeded, "")
		f.c.operations.await()
		f.WantRequests(t, append(asked, createPod, deletePod)...)
		isReleased(t, f)
		wantRemembered(t, f)
		allow()
		f.mustSync(t, f.syncVolume)
		f.WantRequests(t, append(asked, getPod, deletePod, putVolume, putVolumeStatus)...)
		f.WantEvents(t, "Normal VolumeRecycled Volume recycled")
	})
}

// A volume of the same name, with another UID, has a pod of its own. Pins PVB-136.
func TestTheRecyclerPodOfAnotherVolumeOfTheNameIsKept(t *testing.T) {
	f := begin(t, toRecycle())
	f.Refuse(createPod, apierrors.NewTimeoutError("late", 0))
	f.mustSync(t, f.syncVolume)
	pod := oldPod("of-another")
	f.Store(t, pod)
	f.c.recycles.add("another-uid", recyclerPod{volume: "volume", namespace: pod.Namespace, name: pod.Name, uid: pod.UID})
	f.c.abandonRecycle(f.Context(), "volume-uid")
	if _, ok := controllertest.Stored[*corev1.Pod](t, f.Env, metav1.NamespaceDefault, podName); !ok {
		t.Error("the pod is deleted")
	}
}

// Whatever is known of it after the pod has ended decides whether it is made available. Pins PVB-85.
func TestIsToRecycle(t *testing.T) {
	for name, tc := range map[string]struct {
		known []runtime.Object
		want  bool
	}{
		"as it was":           {[]runtime.Object{toRecycle()}, true},
		"gone":                {nil, false},
		"another of the name": {[]runtime.Object{toRecycle(func(v *pv) { v.UID = "another" })}, false},
		"after another claim": {[]runtime.Object{toRecycle(claimedBy("another"))}, false},
		"of nobody":           {[]runtime.Object{toRecycle(func(v *pv) { v.Spec.ClaimRef = nil })}, false},
		"to be retained now":  {[]runtime.Object{toRecycle(policy(corev1.PersistentVolumeReclaimRetain))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := begin(t, tc.known...).c.isToRecycle(toRecycle()); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
