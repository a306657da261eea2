package pvbinder

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

func TestWhatIsDoneForAVolume(t *testing.T) {
	mine, deletes := claimedBy(claimUID), policy(corev1.PersistentVolumeReclaimDelete)
	bound, released := inPhase(corev1.VolumeBound), inPhase(corev1.VolumeReleased)
	for name, tc := range map[string]struct {
		volume   *pv
		claim    *pvc
		requests []string
		phase    corev1.PersistentVolumePhase
		events   []string
		claims   []string
	}{
		"PVB-75: a new one":                      {volume: aVolume("volume", inPhase(corev1.VolumePending)), requests: []string{putVolumeStatus}, phase: corev1.VolumeAvailable},
		"PVB-75, PVB-81: nothing changes":        {volume: aVolume("volume"), phase: corev1.VolumeAvailable},
		"PVB-75: a reserved one":                 {volume: aVolume("volume", claimedBy(""), inPhase(corev1.VolumePending)), claim: aClaim(), requests: []string{putVolumeStatus}, phase: corev1.VolumeAvailable},
		"PVB-75: it failed, and was freed":       {volume: aVolume("volume", inPhase(corev1.VolumeFailed)), requests: []string{putVolumeStatus}, phase: corev1.VolumeAvailable},
		"PVB-76, PVB-38, PVB-77, PVB-83: retain": {volume: aVolume("volume", mine, bound), requests: []string{getClaim, putVolumeStatus}, phase: corev1.VolumeReleased},
		"PVB-76: it has been released":           {volume: aVolume("volume", mine, released), phase: corev1.VolumeReleased},
		"PVB-81: it failed":                      {volume: aVolume("volume", mine, inPhase(corev1.VolumeFailed)), phase: corev1.VolumeFailed},
		"PVB-76, PVB-107: a namesake":            {volume: aVolume("volume", mine, bound), claim: aClaim(recreatedClaim), requests: []string{getClaim, putVolumeStatus}, phase: corev1.VolumeReleased},
		"PVB-83: an unknown policy":              {volume: aVolume("volume", mine, released, policy("x")), requests: []string{putVolumeStatus}, phase: corev1.VolumeFailed, events: []string{"Warning VolumeUnknownReclaimPolicy Volume has unrecognized PersistentVolumeReclaimPolicy"}},
		"PVB-83, PVB-87: it has failed with it":  {volume: aVolume("volume", mine, inPhase(corev1.VolumeFailed), policy("x")), phase: corev1.VolumeFailed},
		"PVB-82: a migrated one":                 {volume: aVolume("volume", mine, released, deletes, onHostPath("/tmp/x"), noted(volume.AnnMigratedTo, "x")), phase: corev1.VolumeReleased},
		"PVB-84: an external one":                {volume: aVolume("volume", mine, bound, deletes, provisionedBy("csi.example.com")), requests: []string{getClaim, putVolumeStatus}, phase: corev1.VolumeReleased},
		"PVB-84, PVB-102: of an unknown plugin":  {volume: aVolume("volume", mine, released, deletes, onLocal), requests: []string{putVolumeStatus}, phase: corev1.VolumeFailed, events: []string{`Warning VolumeFailedDelete error getting deleter volume plugin for volume "volume": no volume plugin matched`}},
		"PVB-78: its claim is not bound":         {volume: aVolume("volume", mine), claim: aClaim(), claims: []string{"claim"}, phase: corev1.VolumeAvailable},
		"PVB-78: its claim has another mode": {volume: aVolume("volume", mine, volumeBlock), claim: aClaim(), phase: corev1.VolumeAvailable, events: []string{
			`Warning VolumeMismatch Cannot bind PersistentVolume to requested PersistentVolumeClaim "claim" due to incompatible volumeMode.`,
			`Warning VolumeMismatch Cannot bind PersistentVolume "volume" to requested PersistentVolumeClaim due to incompatible volumeMode.`}},
		"PVB-79: its claim names it":                {volume: aVolume("volume", mine), claim: aClaim(naming("volume")), requests: []string{putVolumeStatus}, phase: corev1.VolumeBound},
		"PVB-80: its claim has another volume":      {volume: aVolume("volume", mine, byController, bound), claim: aClaim(naming("other")), requests: []string{putVolume, putVolumeStatus}, phase: corev1.VolumeAvailable},
		"PVB-80: provisioned for nothing":           {volume: aVolume("volume", mine, byController, deletes, provisionedBy("x")), claim: aClaim(naming("other")), requests: []string{putVolumeStatus}, phase: corev1.VolumeReleased},
		"PVB-74, PVB-53: finalizers":                {volume: aVolume("volume", deletes, provisionedBy("kubernetes.io/rbd")), requests: []string{putVolume}, phase: corev1.VolumeAvailable},
		"PVB-55, PVP-20: one that is being deleted": {volume: aVolume("volume", mine, bound, volumeDeleted), requests: []string{getClaim, putVolumeStatus}, phase: corev1.VolumeReleased},
		"PVB-131: an in-tree one, in deletion": {volume: aVolume("volume", mine, bound, deletes, provisionedBy("kubernetes.io/rbd"), volumeDeleted),
			requests: []string{getClaim, putVolumeStatus, putVolumeStatus}, phase: corev1.VolumeFailed,
			events: []string{`Warning VolumeFailedDelete no volume plugin matched name: kubernetes.io/rbd`}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{tc.volume}
			if tc.claim != nil {
				objects = append(objects, tc.claim)
			}
			f := begin(t, objects...)
			f.mustSync(t, f.syncVolume)
			f.WantRequests(t, tc.requests...)
			f.WantEvents(t, tc.events...)
			f.claims.Want(t, tc.claims...)
			if got := f.volume(t).Status.Phase; got != tc.phase {
				t.Errorf("the volume is %s", got)
			}
		})
	}
}

// A volume is not released because its claim is not in the cache. Pins PVB-76 and PVB-100.
func TestAVolumeOfAClaimThatTheCacheDoesNotShowIsNotReleased(t *testing.T) {
	bound := inPhase(corev1.VolumeBound)
	for name, cached := range map[string]*pvc{
		"nothing is cached":    nil,
		"a namesake is cached": aClaim(func(c *pvc) { c.UID = "earlier" }),
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, aVolume("volume", claimedBy(claimUID), bound))
			if cached != nil {
				f.c.claims.seen("ns/claim", cached)
			}
			f.Store(t, aClaim(naming("volume")))
			f.mustSync(t, f.syncVolume)
			f.WantRequests(t, getClaim)
			f.Refuse(getClaim, errors.New("boom"))
			if err := f.syncVolume(); err == nil {
				t.Error("no error when the claim cannot be read")
			}
			f.WantRequests(t, getClaim)
		})
	}
	f := begin(t, aVolume("volume", claimedBy(claimUID), bound))
	f.Cache(t, aClaim(naming("volume"))) // the handlers have not seen it yet
	f.mustSync(t, f.syncVolume)
	f.WantRequests(t)
}

// Pins PVB-112 and PVB-118.
func TestThatAClaimIsGoneIsReadOnceInAWhile(t *testing.T) {
	f := begin(t, aVolume("volume", claimedBy(claimUID), inPhase(corev1.VolumeReleased)), aClaim(recreatedClaim))
	for range 3 {
		f.mustSync(t, f.syncVolume)
	}
	f.WantRequests(t, getClaim)
	f.Clock.Step(5 * time.Minute)
	f.mustSync(t, f.syncVolume)
	f.WantRequests(t, getClaim)
}

// A volume, or a claim, goes while it is worked on. What is remembered of it would stay for ever: its deletion is seen
// once.
//
// Pins PVB-123.
func TestNothingIsRememberedOfWhatHasGone(t *testing.T) {
	for name, goes := range map[string]func(*fixture, *pv){
		"it is gone": func(f *fixture, v *pv) { f.c.volumeGone(v) },
		"another one has its name": func(f *fixture, v *pv) {
			f.c.volumeGone(v)
			f.c.volumeSeen(reconcile.Fresh, aVolume("volume", func(v *pv) { v.UID = "second" }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := aVolume("volume", claimedBy(claimUID), inPhase(corev1.VolumeReleased), policy(corev1.PersistentVolumeReclaimDelete))
			f := begin(t, v, aClaim(recreatedClaim))
			f.Intercept(getClaim, func(clienttesting.Action) error { goes(f, v); return nil })
			f.mustSync(t, f.syncVolume)
			f.WantRequests(t, getClaim)
			if starts := f.c.timings.copied(); len(starts) != 0 || len(f.c.gone.of) != 0 {
				t.Errorf("remembered are %v and %v", starts, f.c.gone.of)
			}
		})
	}
	f := begin(t, aClaim(), aClass("gold", "csi.example.com"))
	f.CatchUp(t, &storagev1.StorageClass{})
	claim := f.claim(t)
	f.c.claimGone(claim)
	f.mustSync(t, func() error { return f.c.provision(claim) })
	f.c.operations.await()
	f.WantRequests(t)
	if starts := f.c.timings.copied(); len(starts) != 0 {
		t.Errorf("remembered are %v", starts)
	}
}

// Pins PVB-80 and PVB-33.
func TestUnbindingAVolumeThatChangesMeanwhile(t *testing.T) {
	f := begin(t, aVolume("volume", claimedBy(claimUID), byController, inPhase(corev1.VolumeBound)), aClaim(naming("other")))
	f.Store(t, aVolume("volume", claimedByAnother))
	if err := f.syncVolume(); !reconcile.IsExpected(err) {
		t.Errorf("got %v", err)
	}
	f.WantRequests(t, putVolume)
	if f.volume(t).Spec.ClaimRef.Name != "name2" {
		t.Error("it was unbound")
	}
}

// Pins PVB-26, PVB-27, PVB-47 and PVB-107.
func TestWhatIsQueued(t *testing.T) {
	first, bound := aVolume("volume", claimedBy(claimUID)), aClaim(naming("volume"))
	for name, tc := range map[string]struct {
		event           func(*binderController)
		volumes, claims []string
	}{
		"PVB-26: a volume":        {func(c *binderController) { c.volumeSeen(reconcile.Fresh, first) }, []string{"volume"}, nil},
		"PVB-44: a replay":        {func(c *binderController) { c.volumeSeen(reconcile.Backlog, first) }, []string{"backlog volume"}, nil},
		"PVB-27: a claim":         {func(c *binderController) { c.claimSeen(reconcile.Fresh, bound) }, nil, []string{"claim"}},
		"PVB-47: a volume goes":   {func(c *binderController) { c.volumeGone(first) }, nil, []string{"claim"}},
		"PVB-47: a free one goes": {func(c *binderController) { c.volumeGone(aVolume("volume")) }, nil, nil},
		"PVB-47: a claim goes":    {func(c *binderController) { c.claimGone(bound) }, []string{"volume"}, nil},
		"PVB-47: an unbound one":  {func(c *binderController) { c.claimGone(aClaim()) }, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t)
			tc.event(f.c)
			f.volumes.Want(t, tc.volumes...)
			f.claims.Want(t, tc.claims...)
		})
	}
}

// Pins PVB-44, PVB-106, PVB-113 and PVB-122.
func TestResyncSkipsWhatIsSettled(t *testing.T) {
	v, claim := boundPair()
	f := begin(t, v, claim)
	f.c.resync(f.Context(), f.Context())
	f.volumes.Want(t)
	f.claims.Want(t)
	for name, change := range map[string]func(*pv, *pvc){
		"the phase of the volume":  func(v *pv, _ *pvc) { v.Status.Phase = corev1.VolumeAvailable },
		"the phase of the claim":   func(_ *pv, c *pvc) { c.Status.Phase = corev1.ClaimPending },
		"the annotation":           func(_ *pv, c *pvc) { delete(c.Annotations, volume.AnnBindCompleted) },
		"the UID":                  func(_ *pv, c *pvc) { c.UID = "second" },
		"the claimRef":             func(v *pv, _ *pvc) { v.Spec.ClaimRef = nil },
		"the volume that is named": func(_ *pv, c *pvc) { c.Spec.VolumeName = "x" },
		"access modes":             func(v *pv, _ *pvc) { v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany} },
		"a migration":              func(v *pv, _ *pvc) { provisionedBy("kubernetes.io/gce-pd")(v) },
		"that of the claim":        func(_ *pv, c *pvc) { claimNoted(volume.AnnStorageProvisioner, "kubernetes.io/gce-pd")(c) },
	} {
		t.Run(name, func(t *testing.T) {
			v, claim := boundPair()
			change(v, claim)
			f := begin(t, v, claim)
			f.c.resync(f.Context(), f.Context())
			f.volumes.Want(t, "backlog volume")
			f.claims.Want(t, "backlog claim")
		})
	}
}

// What is to be deleted is tried again, though nothing changes. Pins PVB-120.
func TestResyncDoesNotSkipAVolumeThatAPodEmpties(t *testing.T) {
	f := begin(t)
	v, claim := boundPair()
	if !f.c.isSettled(claim, v) {
		t.Error("it is not settled")
	}
	if f.c.recycles.add(v.UID, recyclerPod{volume: v.Name}); f.c.isSettled(claim, v) {
		t.Error("it is settled")
	}
}

// Pins PVB-88, PVB-105 and PVB-111.
func TestVolumesAndClaimsAreCounted(t *testing.T) {
	f := begin(t)
	v, claim := boundPair(onHostPath("/x"))
	f.c.volumeSeen(reconcile.Fresh, v)
	f.c.volumeSeen(reconcile.Fresh, v) // as in a resync
	f.c.volumeSeen(reconcile.Fresh, aVolume("csi", volumeBlock))
	f.c.volumeSeen(reconcile.Fresh, aVolume("nfs", onNFS, noted(corev1.BetaStorageClassAnnotation, "noted")))
	f.c.claimSeen(reconcile.Fresh, claim)
	f.c.claimSeen(reconcile.Fresh, aClaim(func(c *pvc) { c.Name = "other" }, claimAttributes("fast"), claimNoted(corev1.BetaStorageClassAnnotation, "noted")))
	wantSeries(t, f, "pv_collector_total_pv_count", "plugin_name=N/A volume_mode=Block 1", "plugin_name=kubernetes.io/host-path volume_mode=Filesystem 1", "plugin_name=kubernetes.io/nfs volume_mode=Filesystem 1")
	wantSeries(t, f, "pv_collector_bound_pv_count", "storage_class=gold 1")
	wantSeries(t, f, "pv_collector_unbound_pv_count", "storage_class=gold 2")
	wantSeries(t, f, "pv_collector_bound_pvc_count", "namespace=ns storage_class=gold volume_attributes_class= 1")
	wantSeries(t, f, "pv_collector_unbound_pvc_count", "namespace=ns storage_class=noted volume_attributes_class=fast 1")
	f.c.volumeGone(v)
	f.c.claimGone(claim)
	wantSeries(t, f, "pv_collector_bound_pv_count")
	wantSeries(t, f, "pv_collector_bound_pvc_count")
}

// A class in an annotation may have bytes that are no UTF-8. Claims whose classes are shown alike are one series.
//
// Pins PVB-128.
func TestClaimsOfAClassThatIsNotUTF8AreCounted(t *testing.T) {
	f := begin(t)
	one := aClaim(claimNoted(corev1.BetaStorageClassAnnotation, "\xff"))
	two := aClaim(func(c *pvc) { c.Name = "other" }, claimNoted(corev1.BetaStorageClassAnnotation, "\xfe"))
	f.c.claimSeen(reconcile.Fresh, one)
	f.c.claimSeen(reconcile.Fresh, two)
	wantSeries(t, f, "pv_collector_unbound_pvc_count", "namespace=ns storage_class=\uFFFD volume_attributes_class= 2")
	f.c.claimGone(one)
	wantSeries(t, f, "pv_collector_unbound_pvc_count", "namespace=ns storage_class=\uFFFD volume_attributes_class= 1")
	f.c.claimGone(two)
	wantSeries(t, f, "pv_collector_unbound_pvc_count")
}

func BenchmarkSettledPair(b *testing.B) {
	v, claim := boundPair()
	f := begin(b, v, claim)
	for b.Loop() {
		if f.syncClaim() != nil || f.syncVolume() != nil {
			b.Fatal("it failed")
		}
	}
	f.WantRequests(b)
}

// Pins PVB-123, PVB-107 and PVB-30.
func TestAReplacementIsADeletionAndACreation(t *testing.T) {
	f := begin(t)
	volumes, claims := &controllertest.Captured{}, &controllertest.Captured{}
	f.c.watch(volumes, claims)
	first, second := aVolume("volume", claimedBy(claimUID)), aVolume("volume", func(v *pv) { v.UID, v.ResourceVersion = "second", "9" })
	f.c.timings.begin(operationDelete, first.UID, "plugin")
	volumes.Handler.OnUpdate(first, second)
	f.volumes.Want(t, "volume")
	f.claims.Want(t, "claim")
	wantSeries(t, f, "volume_operation_total_seconds", "operation_name=delete plugin_name=plugin 1")

	bound := aClaim(naming("volume"))
	f.c.timings.begin(operationProvision, bound.UID, "plugin")
	claims.Handler.OnUpdate(bound, aClaim(recreatedClaim, func(c *pvc) { c.ResourceVersion = "9" }))
	f.volumes.Want(t, "volume")
	f.claims.Want(t, "claim")
	if left := f.c.timings.copied(); len(left) != 0 {
		t.Errorf("there are %v", left)
	}
	volumes.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "volume", Obj: second})
	if f.c.volumes.get("volume") != nil {
		t.Error("a volume whose deletion was missed is still there")
	}
}
