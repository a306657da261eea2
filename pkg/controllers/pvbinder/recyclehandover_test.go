package pvbinder

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-helpers/storage/volume"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// wantRemembered fails unless the pod that empties the volume is known.
func wantRemembered(t *testing.T, f *fixture) {
	t.Helper()
	if _, ok := f.c.recycles.podOf("volume-uid"); !ok {
		t.Fatal("the pod was forgotten")
	}
}

// Pins PVB-109, PVB-110 and PVB-120.
func TestARecyclerPodIsHandedOver(t *testing.T) {
	stopped := func(t *testing.T, changes ...func(*pv)) (*fixture, handover) {
		t.Helper()
		f := begin(t, toRecycle(changes...))
		ctx, stop := context.WithCancel(t.Context())
		f.c.operations.begin(ctx, t.Context())
		recycling(t, f)
		stop()
		f.c.operations.await()
		f.WantRequests(t, append(asked, createPod)...)
		f.WantEvents(t)
		if phase := f.volume(t).Status.Phase; phase != corev1.VolumeReleased {
			t.Errorf("the volume is %s", phase)
		}
		return f, f.c.HandOver()
	}
	succeed := func(t *testing.T, f *fixture, left handover) *fixture {
		t.Helper()
		f.Succeed(left)
		c := must.Get(newController(f.Env.Env, defaults()))(t)
		next := wired(t, f.Env, c)
		c.takeOver()
		return next
	}
	t.Run("the pod goes on", func(t *testing.T) {
		f, left := stopped(t)
		next := succeed(t, f, left)
		if err := next.c.reconcileVolume(f.Context(), "volume"); err != nil {
			t.Fatal(err)
		}
		controllertest.Eventually(t, "the pod was read", func() bool { return len(f.Fake.Actions()) >= 6 })
		setPod(t, f, corev1.PodSucceeded, "")
		next.c.operations.await()
		f.WantRequests(t, append(asked, "get pods "+podName, deletePod, putVolume, putVolumeStatus)...)
		f.WantEvents(t, "Normal VolumeRecycled Volume recycled")
	})
	t.Run("the pod is gone", func(t *testing.T) {
		f, left := stopped(t)
		f.Remove(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: podName}})
		next := succeed(t, f, left)
		if err := next.c.reconcileVolume(f.Context(), "volume"); err != nil {
			t.Fatal(err)
		}
		controllertest.Eventually(t, "there is another pod", func() bool { return len(f.Fake.Actions()) >= 7 })
		setPod(t, f, corev1.PodSucceeded, "")
		next.c.operations.await()
		f.WantRequests(t, append(asked, "get pods "+podName, createPod, deletePod, putVolume, putVolumeStatus)...)
	})
	elsewhere := func(t *testing.T, f *fixture, left handover) *fixture {
		t.Helper()
		file := filepath.Join(t.TempDir(), "pod.yaml")
		template := "apiVersion: v1\nkind: Pod\nmetadata: {namespace: other}\nspec: {containers: [{name: c, image: i}], volumes: [{name: vol}]}\n"
		must.Succeed(t, os.WriteFile(file, []byte(template), 0o600))
		cfg := defaults()
		cfg.hostPathRecycler.template = file
		f.Succeed(left)
		next := wired(t, f.Env, must.Get(newController(f.Env.Env, cfg))(t))
		next.c.takeOver()
		return next
	}
	t.Run("PVB-135: pods are made in another namespace by now", func(t *testing.T) {
		f, left := stopped(t)
		next := elsewhere(t, f, left)
		must.Succeed(t, next.c.reconcileVolume(f.Context(), "volume"))
		controllertest.Eventually(t, "there is another pod", func() bool {
			_, ok := controllertest.Stored[*corev1.Pod](t, f.Env, "other", podName)
			return ok
		})
		if _, ok := controllertest.Stored[*corev1.Pod](t, f.Env, metav1.NamespaceDefault, podName); ok {
			t.Error("the former pod is still there")
		}
		controllertest.Change(t, f.Env, "other", podName, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		next.c.operations.await()
	})
	t.Run("PVB-135: the pod in the former namespace cannot be deleted", func(t *testing.T) {
		f, left := stopped(t)
		next := elsewhere(t, f, left)
		f.Refuse(deletePod, apierrors.NewServiceUnavailable("boom"))
		f.mustSync(t, next.syncVolume)
		f.WantRequests(t, append(asked, deletePod, putVolumeStatus)...)
		wantRemembered(t, next)
	})
	t.Run("the volume was freed", func(t *testing.T) {
		f, left := stopped(t)
		f.Store(t, toRecycle(claimedBy("")))
		next := succeed(t, f, left)
		next.c.volumes.seen("volume", toRecycle())
		f.mustSync(t, next.syncVolume)
		f.WantRequests(t, getVolume, deletePod)
	})
	t.Run("the volume is gone", func(t *testing.T) {
		f, left := stopped(t)
		f.Remove(t, toRecycle())
		allow := f.Refuse(deletePod, apierrors.NewServiceUnavailable("boom"))
		next := succeed(t, f, left)
		next.c.operations.await()
		f.WantRequests(t, deletePod)
		allow()
		next.c.resync(f.Context(), f.Context())
		next.c.operations.await()
		next.c.resync(f.Context(), f.Context())
		next.c.operations.await()
		f.WantRequests(t, deletePod)
	})
	t.Run("the volume is gone, and what answers is no API server", func(t *testing.T) {
		f, left := stopped(t)
		f.Remove(t, toRecycle())
		f.Refuse(deletePod, apierrors.NewGenericServerResponse(
			http.StatusNotFound, "delete", corev1.Resource("pods"), podName, "404 page not found", 0, true))
		next := succeed(t, f, left)
		next.c.operations.await()
		f.WantRequests(t, deletePod)
		wantRemembered(t, next)
	})
	t.Run("the volume goes", func(t *testing.T) {
		f, left := stopped(t)
		next := succeed(t, f, left)
		next.c.volumeGone(toRecycle())
		next.c.operations.await()
		f.WantRequests(t, deletePod)
	})
	t.Run("the pod cannot be read", func(t *testing.T) {
		f, left := stopped(t)
		next := succeed(t, f, left)
		f.Refuse("get pods "+podName, apierrors.NewServiceUnavailable("boom"))
		f.mustSync(t, next.syncVolume)
		f.WantRequests(t, append(asked, "get pods "+podName, putVolumeStatus)...)
		wantRemembered(t, next)
	})
	t.Run("another claim has left data meanwhile", func(t *testing.T) {
		f, left := stopped(t)
		setPod(t, f, corev1.PodSucceeded, "")
		f.Store(t, toRecycle(claimedBy("second-uid")))
		next := succeed(t, f, left)
		f.mustSync(t, next.syncVolume)
		f.WantRequests(t, append(asked, "get pods "+podName, createPod, getPod, deletePod, putVolumeStatus)...)
		f.WantEvents(t, "Warning VolumeFailedRecycle Recycle failed: old recycler pod found, will retry later")
	})
	for name, tc := range map[string]struct {
		claim   *pvc
		changes []func(*pv)
	}{
		"the volume is free":           {changes: []func(*pv){inPhase(corev1.VolumeAvailable), func(v *pv) { v.Spec.ClaimRef = nil }}},
		"the volume is kept":           {changes: []func(*pv){policy(corev1.PersistentVolumeReclaimRetain)}},
		"a driver reclaims the volume": {changes: []func(*pv){noted(volume.AnnMigratedTo, "csi.example.com")}},
		"the volume is of another":     {claim: aClaim(recreatedClaim, naming("volume")), changes: []func(*pv){claimedBy("second-uid"), inPhase(corev1.VolumeBound)}},
		"another waits for the volume": {claim: aClaim(recreatedClaim), changes: []func(*pv){claimedBy("second-uid"), inPhase(corev1.VolumeAvailable)}},
	} {
		t.Run(name, func(t *testing.T) {
			f, left := stopped(t)
			setPod(t, f, corev1.PodSucceeded, "")
			f.Store(t, toRecycle(tc.changes...))
			if tc.claim != nil {
				f.Store(t, tc.claim)
			}
			allow := f.Refuse(deletePod, apierrors.NewServiceUnavailable("boom"))
			next := succeed(t, f, left)
			f.mustSync(t, next.syncVolume)
			f.WantRequests(t, deletePod)
			wantRemembered(t, next)
			allow()
			f.mustSync(t, next.syncVolume)
			f.WantRequests(t, deletePod)
			if _, ok := next.c.recycles.podOf("volume-uid"); ok {
				t.Error("the pod is remembered")
			}
			f.Store(t, toRecycle())
			next.catchUp(t)
			recycling(t, next)
			if got := f.Requests(); !slices.Contains(got, createPod) {
				t.Errorf("when it was released again the requests were %q", got)
			}
			setPod(t, f, corev1.PodSucceeded, "")
			next.c.operations.await()
			f.WantEvents(t, "Normal VolumeRecycled Volume recycled")
		})
	}
}

// The pod of this instance ends as well when its volume is not to be emptied any more: it would go on deleting what
// the next claim of the volume stores.
//
// Pins PVB-134.
func TestARecyclerPodEndsWhenItsVolumeIsNotToBeEmptiedAnyMore(t *testing.T) {
	for name, tc := range map[string]struct {
		claim   *pvc
		changes []func(*pv)
		gone    bool
	}{
		"the volume is free":           {changes: []func(*pv){inPhase(corev1.VolumeAvailable), func(v *pv) { v.Spec.ClaimRef = nil }}},
		"the volume is kept":           {changes: []func(*pv){policy(corev1.PersistentVolumeReclaimRetain)}},
		"a driver reclaims the volume": {changes: []func(*pv){noted(volume.AnnMigratedTo, "csi.example.com")}},
		"the volume is of another":     {claim: aClaim(recreatedClaim, naming("volume")), changes: []func(*pv){claimedBy("second-uid"), inPhase(corev1.VolumeBound)}},
		"the volume is gone":           {gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, toRecycle())
			recycling(t, f)
			f.WantRequests(t, append(asked, createPod)...)
			allow := f.Refuse(deletePod, apierrors.NewServiceUnavailable("boom"))
			if tc.claim != nil {
				f.Store(t, tc.claim)
			}
			if tc.gone {
				f.Remove(t, toRecycle())
				f.c.volumeGone(toRecycle())
			} else {
				f.Store(t, toRecycle(tc.changes...))
				f.catchUp(t)
				if err := f.c.reconcileVolume(f.Context(), "volume"); err != nil {
					t.Fatal(err)
				}
			}
			controllertest.Eventually(t, "the pod is to be deleted", func() bool { return slices.Contains(f.Requests(), deletePod) })
			f.c.operations.await()
			wantRemembered(t, f)
			f.Requests() // another attempt has been made if the first had ended when the operation was to begin
			allow()
			if tc.gone {
				f.c.resync(f.Context(), f.Context())
				f.c.operations.await()
			} else {
				f.mustSync(t, f.syncVolume)
			}
			f.WantRequests(t, deletePod)
			if _, ok := f.c.recycles.podOf("volume-uid"); ok {
				t.Error("the pod is remembered")
			}
			f.WantEvents(t)
			if stored, ok := controllertest.Stored[*pv](t, f.Env, "", "volume"); ok && stored.Status.Phase == corev1.VolumeFailed {
				t.Error("the volume is Failed")
			}
		})
	}
}

// The pod does not go on deleting for its whole grace period. Pins PVB-139.
func TestARecyclerPodWhoseVolumeIsNotToBeEmptiedAnyMoreEndsSoon(t *testing.T) {
	graces := func(f *fixture) *[]*int64 {
		var all []*int64
		f.Intercept(deletePod, func(a clienttesting.Action) error {
			all = append(all, a.(clienttesting.DeleteActionImpl).DeleteOptions.GracePeriodSeconds)
			return nil
		})
		return &all
	}
	freed := toRecycle(claimedBy(""))
	t.Run("it runs", func(t *testing.T) {
		f := begin(t, toRecycle())
		got := graces(f)
		recycling(t, f)
		f.c.volumes.seen("volume", freed)
		f.c.stopRecycle("volume", "volume-uid")
		f.c.operations.await()
		if len(*got) != 1 || (*got)[0] == nil || *(*got)[0] != 1 {
			t.Errorf("it was deleted with the grace periods %v", *got)
		}
	})
	t.Run("its create had no answer", func(t *testing.T) {
		f := begin(t, toRecycle())
		got := graces(f)
		f.Refuse(createPod, apierrors.NewTimeoutError("late", 0))
		f.mustSync(t, f.syncVolume)
		f.Store(t, oldPod("late"))
		f.c.abandonRecycle(f.Context(), "volume-uid")
		if len(*got) != 1 || (*got)[0] == nil || *(*got)[0] != 1 {
			t.Errorf("it was deleted with the grace periods %v", *got)
		}
	})
	t.Run("it has ended", func(t *testing.T) {
		f := begin(t, toRecycle())
		got := graces(f)
		recycling(t, f)
		setPod(t, f, corev1.PodSucceeded, "")
		f.c.operations.await()
		if len(*got) != 1 || (*got)[0] != nil {
			t.Errorf("it was deleted with the grace periods %v", *got)
		}
	})
}

// Nobody would end the wait for a pod that is created after its volume was freed, before the next pass. By then it may
// have deleted what the next claim of the volume stores.
//
// Pins PVB-137.
func TestARecyclerPodEndsWhenItsVolumeWasFreedBeforeItExists(t *testing.T) {
	for name, tc := range map[string]struct {
		changes []func(*pv)
		answer  error // to the create
	}{
		"the volume is free":       {changes: []func(*pv){inPhase(corev1.VolumeAvailable), func(v *pv) { v.Spec.ClaimRef = nil }}},
		"the volume is reserved":   {changes: []func(*pv){claimedBy("")}},
		"the volume is kept":       {changes: []func(*pv){policy(corev1.PersistentVolumeReclaimRetain)}},
		"the volume is of another": {changes: []func(*pv){claimedBy("second-uid"), inPhase(corev1.VolumeBound)}},
		"another has its name":     {changes: []func(*pv){func(v *pv) { v.UID = "second" }}},
		"the create has no answer": {changes: []func(*pv){claimedBy("")}, answer: apierrors.NewTimeoutError("lost", 0)},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, toRecycle())
			f.Intercept(createPod, func(clienttesting.Action) error {
				if tc.answer != nil {
					f.Store(t, oldPod("lost"))
				}
				f.c.volumes.seen("volume", toRecycle(tc.changes...))
				f.c.stopRecycle("volume", "volume-uid")
				return tc.answer
			})
			var deleted atomic.Bool
			f.Intercept(deletePod, func(clienttesting.Action) error {
				deleted.Store(true)
				return nil
			})
			must.Succeed(t, f.c.reconcileVolume(f.Context(), "volume"))
			controllertest.Eventually(t, "the pod is deleted", deleted.Load)
			f.c.operations.await()
			f.WantEvents(t)
			if _, ok := f.c.recycles.podOf("volume-uid"); ok != (tc.answer != nil) {
				t.Errorf("the pod is remembered: %v", ok)
			}
		})
	}
}

// The instance may no longer write, and so cannot see what becomes of the pod.
//
// Pins PVB-120.
func TestARecyclerPodGoesOnWhenTheLeaseIsLost(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, f *fixture, fence context.CancelFunc){
		"the watches last": func(_ *testing.T, _ *fixture, fence context.CancelFunc) { fence() },
		"the pod ends": func(t *testing.T, f *fixture, fence context.CancelFunc) {
			t.Helper()
			f.Intercept(deletePod, func(clienttesting.Action) error { fence(); return context.Canceled })
			setPod(t, f, corev1.PodSucceeded, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, toRecycle())
			working, fence := context.WithCancel(t.Context())
			f.c.operations.begin(t.Context(), working)
			recycling(t, f)
			f.WantRequests(t, append(asked, createPod)...)
			lose(t, f, fence)
			f.c.operations.await()
			f.WantEvents(t)
			wantRemembered(t, f)
		})
	}
	t.Run("the watches end first", func(t *testing.T) {
		f := begin(t)
		working, fence := context.WithCancel(t.Context())
		seen := podWatches{watch.NewFake(), watch.NewFake()}
		seen.stop()
		fence()
		for range 20 { // the order in which a select sees what ends is random
			if err := f.c.awaitRecycler(t.Context(), working, working, toRecycle(), recyclerPod{}, seen); !errors.Is(err, errHandedOver) {
				t.Fatalf("got %v", err)
			}
		}
	})
}

// What a successor inherits of claims and volumes that have gone meanwhile would never end. Pins PVB-120.
func TestTimesOfWhatIsGoneAreNotHandedOver(t *testing.T) {
	f := begin(t, aVolume("volume"), aClaim())
	for _, object := range []types.UID{"volume-uid", "gone"} {
		f.c.timings.begin(operationDelete, object, "plugin")
	}
	for _, object := range []types.UID{claimUID, "gone"} {
		f.c.timings.begin(operationProvision, object, "plugin")
	}
	f.Succeed(f.c.HandOver())
	c := must.Get(newController(f.Env.Env, defaults()))(t)
	next := wired(t, f.Env, c)
	c.takeOver()
	left := next.c.timings.copied()
	_, deletes := left[startKey{operationDelete, "volume-uid"}]
	_, provisions := left[startKey{operationProvision, claimUID}]
	if len(left) != 2 || !deletes || !provisions {
		t.Errorf("there are %v", left)
	}
}

// Failures and times are handed over. Pins PVB-109.
func TestFailuresAreHandedOver(t *testing.T) {
	f := begin(t, released("/data"))
	f.mustSync(t, f.syncVolume)
	f.Clock.Step(time.Millisecond)
	f.Succeed(f.c.HandOver())
	c := must.Get(newController(f.Env.Env, defaults()))(t)
	next := wired(t, f.Env, c)
	c.takeOver()
	f.mustSync(t, next.syncVolume)
	f.WantRequests(t)
	c.volumeGone(released("/data"))
	wantSeries(t, next, "volume_operation_total_seconds", "operation_name=delete plugin_name=kubernetes.io/host-path 1")
}
