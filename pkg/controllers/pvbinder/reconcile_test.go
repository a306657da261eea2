package pvbinder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// Pins PVB-33, PVB-34, PVB-36, PVB-37, PVB-69, PVB-70, PVB-95 and PVB-112.
func TestBindingTakesFourWrites(t *testing.T) {
	f := begin(t, aVolume("volume"), aClaim())
	f.mustSync(t, f.syncClaim)
	f.WantRequests(t, putVolume, putVolumeStatus, putClaim, putClaimStatus)
	f.wantBound(t)
	f.mustSync(t, f.syncClaim) // on what was written: the caches are behind
	f.mustSync(t, f.syncVolume)
	f.WantRequests(t)
	f.WantEvents(t)
}

// wantBound fails unless the claim and the volume are bound to each other, by the controller.
func (f *fixture) wantBound(t *testing.T) {
	t.Helper()
	v, claim := f.volume(t), f.claim(t)
	if ref := v.Spec.ClaimRef; ref == nil || ref.UID != claimUID || ref.Kind != "PersistentVolumeClaim" || ref.APIVersion != "v1" || ref.Namespace != namespace || ref.Name != "claim" || ref.ResourceVersion == "" {
		t.Errorf("the claimRef is %+v", ref)
	}
	if v.Status.Phase != corev1.VolumeBound || claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName != "volume" || !isBindCompleted(claim) {
		t.Errorf("the volume is %s, the claim %s, naming %q, %v", v.Status.Phase, claim.Status.Phase, claim.Spec.VolumeName, claim.Annotations)
	}
}

// A crash, or an error, between two of the writes is repaired by the next pass.
//
// Pins PVB-95, PVB-103 and PVB-69.
func TestAnInterruptedBindIsCompleted(t *testing.T) {
	order := []string{putVolume, putVolumeStatus, putClaim, putClaimStatus}
	for i, failing := range order {
		t.Run(failing, func(t *testing.T) {
			f := begin(t, aVolume("volume"), aClaim())
			allow := f.Refuse(failing, errors.New("boom"))
			if err := f.syncClaim(); err == nil || reconcile.IsExpected(err) {
				t.Errorf("got %v", err)
			}
			f.WantRequests(t, order[:i+1]...)
			allow()
			f.catchUp(t)
			f.mustSync(t, f.syncVolume)
			f.mustSync(t, f.syncClaim)
			f.mustSync(t, f.syncVolume)
			f.wantBound(t)
			if !isBoundByController(f.volume(t)) || !isBoundByController(f.claim(t)) {
				t.Errorf("annotations are %v and %v", f.volume(t).Annotations, f.claim(t).Annotations)
			}
		})
	}
}

// Pins PVB-45, PVB-96 and PVB-125.
func TestAConflictIsTriedAgain(t *testing.T) {
	f := begin(t, aVolume("volume"), aClaim())
	f.Refuse(putVolumeStatus, errConflict)
	if err := f.syncClaim(); !reconcile.IsExpected(err) {
		t.Errorf("got %v", err)
	}
}

// Claims are bound side by side, and no two choose the same volume. Pins PVB-126.
func TestClaimsThatAreBoundAtTheSameTime(t *testing.T) {
	const count = 20
	var objects []runtime.Object
	for n := range count {
		objects = append(objects, aVolume(fmt.Sprintf("volume-%02d", n)), aClaim(func(c *pvc) {
			c.Name, c.UID = fmt.Sprintf("claim-%02d", n), types.UID(fmt.Sprintf("uid-%02d", n))
		}))
	}
	f := begin(t, objects...)
	var workers sync.WaitGroup
	for n := range count {
		workers.Go(func() {
			if err := f.c.reconcileClaim(f.Context(), types.NamespacedName{Namespace: namespace, Name: fmt.Sprintf("claim-%02d", n)}); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
	for _, claim := range controllertest.AllStored[*pvc](t, f.Env, namespace) {
		if claim.Status.Phase != corev1.ClaimBound {
			t.Errorf("claim %s is %s", claim.Name, claim.Status.Phase)
		}
	}
	if taken := len(f.Requests()); taken != 4*count {
		t.Errorf("%d requests", taken)
	}
}

// A stale cache leads to a conflict, and to no other volume. Pins PVB-5 and PVB-33.
func TestAVolumeThatIsTakenMeanwhileIsNotBound(t *testing.T) {
	f := begin(t, aVolume("volume"), aClaim())
	f.Store(t, aVolume("volume", claimedByAnother))
	if err := f.syncClaim(); !reconcile.IsExpected(err) {
		t.Errorf("got %v", err)
	}
	if ref := f.volume(t).Spec.ClaimRef; ref.Name != "name2" {
		t.Errorf("the claimRef is %v", ref)
	}
	f.WantRequests(t, putVolume)
}

func TestReservedVolumesAndClaims(t *testing.T) {
	for name, tc := range map[string]struct {
		volume                          *pv
		claim                           *pvc
		volumeByController, claimByThat bool
	}{
		"PVB-69, PVB-71: neither":      {aVolume("volume"), aClaim(), true, true},
		"PVB-49, PVB-69: the volume":   {aVolume("volume", claimedBy("")), aClaim(), false, true},
		"PVB-49, PVB-71: the claim":    {aVolume("volume"), aClaim(naming("volume")), true, false},
		"PVB-49: both":                 {aVolume("volume", claimedBy("")), aClaim(naming("volume")), false, false},
		"PVB-62: bound, no claimRef":   {aVolume("volume"), aClaim(naming("volume"), completed), true, false},
		"PVB-64: it was lost":          {aVolume("volume"), aClaim(naming("volume"), completed, claimIn(corev1.ClaimLost)), true, false},
		"PVB-103: the start-up test's": {aVolume("volume", claimedBy(claimUID), inPhase(corev1.VolumeBound)), aClaim(naming("volume"), claimIn(corev1.ClaimBound)), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, tc.volume, tc.claim)
			f.mustSync(t, f.syncClaim)
			f.wantBound(t)
			if v, claim := isBoundByController(f.volume(t)), isBoundByController(f.claim(t)); v != tc.volumeByController || claim != tc.claimByThat {
				t.Errorf("bound by the controller: the volume %v, the claim %v", v, claim)
			}
		})
	}
}

// Pins PVB-59 and PVB-86.
func TestAClaimThatIsNotBound(t *testing.T) {
	waiting := controllertest.Pod(namespace, "user", using, func(p *corev1.Pod) { p.Spec.NodeName = "" })
	terminated := controllertest.Pod(namespace, "done", using, controllertest.InPhase(corev1.PodFailed), func(p *corev1.Pod) { p.Spec.NodeName = "" })
	cleared := func(c *pvc) { showing(aVolume("volume"))(c) }
	const provisioning = "Normal ExternalProvisioning Waiting for a volume to be created either by the external provisioner 'csi.example.com' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
	for name, tc := range map[string]struct {
		claim    *pvc
		objects  []runtime.Object
		requests []string
		events   []string
		phase    corev1.PersistentVolumeClaimPhase
		err      string
	}{
		"PVB-58g: no class":                   {claim: aClaim(claimClass(nil)), events: []string{noVolumeEvent}},
		"PVB-58g, PVB-73: it was bound":       {claim: aClaim(claimClass(nil), cleared), events: []string{noVolumeEvent}, requests: []string{putClaimStatus}},
		"PVB-58d: a default class":            {claim: aClaim(claimClass(nil)), objects: []runtime.Object{aClass("gold", "csi.example.com", markedDefault)}, requests: []string{putClaim}},
		"PVB-58a: the class does not exist":   {claim: aClaim(), events: []string{`Warning ProvisioningFailed storageclass.storage.k8s.io "gold" not found`}},
		"PVB-58a: the class has no mode":      {claim: aClaim(), objects: []runtime.Object{aClass("gold", "x", func(c *storagev1.StorageClass) { c.VolumeBindingMode = nil })}, err: `VolumeBindingMode not set for StorageClass "gold"`},
		"PVB-58e: delayed":                    {claim: aClaim(), objects: []runtime.Object{aClass("gold", "x", delayedBinding)}, events: []string{"Normal WaitForFirstConsumer waiting for first consumer to be created before binding"}},
		"PVB-58e, PVB-29: a pod":              {claim: aClaim(), objects: []runtime.Object{aClass("gold", "x", delayedBinding), waiting}, events: []string{"Normal WaitForPodScheduled waiting for pod user to be scheduled"}},
		"PVB-58e, PVB-85a: a terminated pod":  {claim: aClaim(), objects: []runtime.Object{aClass("gold", "x", delayedBinding), terminated}, events: []string{"Normal WaitForFirstConsumer waiting for first consumer to be created before binding"}},
		"PVB-58e: a pod that is scheduled":    {claim: aClaim(), objects: []runtime.Object{aClass("gold", "x", delayedBinding), controllertest.Pod(namespace, "user", using)}, events: []string{"Normal WaitForFirstConsumer waiting for first consumer to be created before binding"}},
		"PVB-58f, PVB-67: a CSI driver":       {claim: aClaim(), objects: []runtime.Object{aClass("gold", "csi.example.com")}, requests: []string{putClaim}, events: []string{provisioning}},
		"PVB-67: it was asked already":        {claim: aClaim(claimNoted(volume.AnnStorageProvisioner, "csi.example.com")), objects: []runtime.Object{aClass("gold", "csi.example.com")}, events: []string{provisioning}},
		"PVB-51: a node was selected":         {claim: aClaim(claimNoted(volume.AnnSelectedNode, "node")), objects: []runtime.Object{aClass("gold", "csi.example.com", delayedBinding)}, requests: []string{putClaim}, events: []string{provisioning}},
		"PVB-66: a former plugin":             {claim: aClaim(), objects: []runtime.Object{aClass("gold", "kubernetes.io/rbd")}, events: []string{"Warning ProvisioningFailed no volume plugin matched name: kubernetes.io/rbd"}},
		"PVB-59b: its volume does not fit":    {claim: aClaim(naming("volume"), requesting("9Gi")), objects: []runtime.Object{aVolume("volume")}, events: []string{`Warning VolumeMismatch Cannot bind to requested volume "volume": requested PV is too small`}},
		"PVB-59d: its volume belongs to ours": {claim: aClaim(naming("volume"), claimByController), objects: []runtime.Object{aVolume("volume", claimedByAnother)}, events: []string{`Warning FailedBinding volume "volume" already bound to a different claim.`}, err: `invalid binding of claim "ns/claim" to volume "volume": volume already claimed by "ns2/name2"`},
		"PVB-59a: its volume does not exist":  {claim: aClaim(naming("volume"))},
		"PVB-59a: and it was bound":           {claim: aClaim(naming("volume"), cleared), requests: []string{getVolume, putClaimStatus}},
		"PVB-60: it has lost its reference":   {claim: aClaim(completed), requests: []string{putClaimStatus}, phase: corev1.ClaimLost, events: []string{"Warning ClaimLost Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"}},
		"PVB-61: it has lost its volume":      {claim: aClaim(naming("volume"), completed, cleared), requests: []string{getVolume, putClaimStatus}, phase: corev1.ClaimLost, events: []string{"Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!"}},
		"PVB-63: it is misbound":              {claim: aClaim(naming("volume"), completed, cleared), objects: []runtime.Object{aVolume("volume", claimedByAnother)}, requests: []string{getVolume, putClaimStatus}, phase: corev1.ClaimLost, events: []string{misboundEvent}},
		"PVB-64: it is lost already":          {claim: aClaim(naming("volume"), completed, claimIn(corev1.ClaimLost)), phase: corev1.ClaimLost},
		"PVB-56: its provisioner migrated":    {claim: aClaim(naming("volume"), claimNoted(volume.AnnStorageProvisioner, "kubernetes.io/gce-pd")), requests: []string{putClaim}},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, append(tc.objects, tc.claim)...)
			f.CatchUp(t, &storagev1.StorageClass{})
			if err := f.syncClaim(); errorText(err) != tc.err {
				t.Errorf("got %v", err)
			}
			f.WantRequests(t, tc.requests...)
			f.WantEvents(t, tc.events...)
			if tc.phase == "" {
				tc.phase = corev1.ClaimPending
			}
			if got := f.claim(t).Status.Phase; got != tc.phase {
				t.Errorf("the claim is %s", got)
			}
			f.volumes.Want(t)
		})
	}
}

func using(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}}}
}

// The cache does not show a volume that exists. Pins PVB-117.
func TestAClaimIsNotLostWhileTheCacheIsBehind(t *testing.T) {
	for name, claim := range map[string]*pvc{
		"a claim that was bound":      aClaim(naming("volume"), completed, showing(aVolume("volume"))),
		"a claim that shows its bind": aClaim(naming("volume"), showing(aVolume("volume"))),
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, claim)
			f.Store(t, aVolume("volume", claimedBy(claimUID)))
			if err := f.syncClaim(); !reconcile.IsExpected(err) {
				t.Errorf("got %v", err)
			}
			f.WantRequests(t, getVolume)
			f.WantEvents(t)
			f.Refuse(getVolume, errors.New("boom"))
			if err := f.syncClaim(); err == nil || reconcile.IsExpected(err) {
				t.Errorf("when it cannot be read: %v", err)
			}
			f.WantRequests(t, getVolume)
		})
	}
}

// The cache shows a former claimRef of the volume. Pins PVB-127.
func TestAClaimIsNotMisboundWhileTheCacheIsBehind(t *testing.T) {
	for name, live := range map[string]*pv{
		"the volume is its own": aVolume("volume", claimedBy(claimUID)),
		"the volume is free":    aVolume("volume"),
		"the volume is gone":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			former := aVolume("volume", claimedByAnother)
			f := begin(t, former, aClaim(naming("volume"), completed, showing(former)))
			if f.Remove(t, former); live != nil {
				f.Store(t, live)
			}
			f.c.volumes.seen("volume", former)
			if err := f.syncClaim(); !reconcile.IsExpected(err) {
				t.Errorf("got %v", err)
			}
			f.WantRequests(t, getVolume)
			f.WantEvents(t)
			f.Refuse(getVolume, errors.New("boom"))
			if err := f.syncClaim(); err == nil || reconcile.IsExpected(err) {
				t.Errorf("when it cannot be read: %v", err)
			}
			f.WantRequests(t, getVolume)
		})
	}
}

// Pins PVB-58d and PVB-89.
func TestTheDefaultClassIsCounted(t *testing.T) {
	f := begin(t, aClaim(claimClass(nil)), aClass("gold", "x", markedDefault))
	f.CatchUp(t, &storagev1.StorageClass{})
	allow := f.Refuse(putClaim, errors.New("boom"))
	if err := f.syncClaim(); errorText(err) != `can't update PersistentVolumeClaim["ns/claim"]: boom` {
		t.Errorf("got %v", err)
	}
	allow()
	f.mustSync(t, f.syncClaim)
	if got := ptr.Deref(f.claim(t).Spec.StorageClassName, ""); got != "gold" {
		t.Errorf("the class is %q", got)
	}
	wantSeries(t, f, "retroactive_storageclass_total", " 2")
	wantSeries(t, f, "retroactive_storageclass_errors_total", " 1")
	if claim := f.c.claims.get("ns/claim"); claim.Spec.StorageClassName != nil {
		t.Error("the store was updated")
	}
}

// wantSeries fails unless a metric has these series.
func wantSeries(t *testing.T, f *fixture, metric string, want ...string) {
	t.Helper()
	got := f.Series(t, metric)
	if strings.TrimSpace(strings.Join(got, ", ")) != strings.TrimSpace(strings.Join(want, ", ")) {
		t.Errorf("%s is %q, want %q", metric, got, want)
	}
}

// Pins PVB-130.
func TestARequestToAProvisionerThatIsCutOffReportsNothing(t *testing.T) {
	f := begin(t, aClaim(), aClass("gold", "csi.example.com"))
	ctx, cancel := context.WithCancel(f.Context())
	f.Intercept(putClaim, func(clienttesting.Action) error {
		cancel()
		return context.Canceled
	})
	if err := f.c.requestFromProvisioner(f.Context(), ctx, aClaim(), "csi.example.com"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	f.WantEvents(t)
}

// Pins PVB-67, PVB-91 and PVB-46.
func TestAskingAProvisionerFails(t *testing.T) {
	f := begin(t, aClaim(), aClass("gold", "csi.example.com"))
	f.CatchUp(t, &storagev1.StorageClass{})
	f.Refuse(putClaim, errors.New("boom"))
	f.mustSync(t, f.syncClaim)
	f.WantRequests(t, putClaim)
	f.WantEvents(t, "Warning ProvisioningFailed Error saving claim: boom")
	wantSeries(t, f, "volume_operation_errors_total", "operation_name=provision plugin_name=csi.example.com 1")
	f.mustSync(t, f.syncClaim)
	f.WantRequests(t) // it is blocked
	f.Clock.Step(time.Second)
	f.mustSync(t, f.syncClaim)
	f.WantRequests(t, putClaim)
}

// So many claims are handed to provisioners at a time, and the others wait. Pins PVB-126.
func TestClaimsWaitToBeHandedToAProvisioner(t *testing.T) {
	f := begin(t, aClaim(), aClass("gold", "csi.example.com"))
	f.CatchUp(t, &storagev1.StorageClass{})
	for range maxAsking {
		f.c.asking <- struct{}{}
	}
	if err := f.c.reconcileClaim(f.Context(), claimKey); err != nil {
		t.Fatal(err)
	}
	f.WantRequests(t)
	<-f.c.asking // one of them is through
	f.c.operations.await()
	f.WantRequests(t, putClaim)
	if len(f.c.asking) != maxAsking-1 {
		t.Errorf("%d places are taken", len(f.c.asking))
	}
}

// What becomes of a claim while it waits counts. Pins PVB-132.
func TestAClaimChangesWhileItWaitsToBeHandedToAProvisioner(t *testing.T) {
	for name, tc := range map[string]struct {
		changes  []func(*pvc)
		requests []string
		events   int
	}{
		"it has changed":   {changes: []func(*pvc){claimNoted("example.com/note", "x")}, requests: []string{putClaim}, events: 1},
		"it has a volume":  {changes: []func(*pvc){naming("volume")}},
		"it was recreated": {changes: []func(*pvc){recreatedClaim}},
		"it is gone":       {},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, aClass("gold", "csi.example.com"))
			if tc.changes != nil {
				f.Store(t, aClaim(tc.changes...))
				f.catchUp(t)
			}
			if err := f.c.requestFromProvisioner(f.Context(), f.Context(), aClaim(), "csi.example.com"); err != nil {
				t.Error(err)
			}
			f.WantRequests(t, tc.requests...)
			events := f.RecordedEvents()
			if len(events) != tc.events || tc.events > 0 && !strings.HasPrefix(events[0], "Normal ExternalProvisioning ") {
				t.Errorf("events are %q", events)
			}
		})
	}
}

// Pins PVB-15 and PVB-65.
func TestProvisioningIsOff(t *testing.T) {
	cfg := defaults()
	cfg.provisions = false
	f := beginWith(t, cfg, aClaim(), aClass("gold", "csi.example.com"))
	f.CatchUp(t, &storagev1.StorageClass{})
	f.mustSync(t, f.syncClaim)
	f.WantRequests(t)
	f.WantEvents(t)
}

// A provisioner that is asked makes a volume, to which the claim is bound by three writes.
//
// Pins PVB-67, PVB-58i, PVB-90 and PVB-112.
func TestAProvisionedVolumeIsBound(t *testing.T) {
	f := begin(t, aClaim(), aClass("gold", "kubernetes.io/gce-pd"))
	f.CatchUp(t, &storagev1.StorageClass{})
	f.mustSync(t, f.syncClaim)
	f.WantRequests(t, putClaim)
	if got := f.claim(t).Annotations; got[volume.AnnStorageProvisioner] != "pd.csi.storage.gke.io" || got[volume.AnnMigratedTo] != "" {
		t.Errorf("the annotations are %v", got)
	}
	f.Store(t, aVolume("volume", claimedBy(claimUID), byController, provisionedBy("pd.csi.storage.gke.io")))
	f.catchUp(t)
	f.mustSync(t, f.syncVolume)
	f.claims.Want(t, "claim")
	f.WantRequests(t)
	f.Clock.Step(3 * time.Second)
	f.mustSync(t, f.syncClaim)
	f.WantRequests(t, putVolumeStatus, putClaim, putClaimStatus)
	wantSeries(t, f, "volume_operation_total_seconds", "operation_name=provision plugin_name=pd.csi.storage.gke.io 1")
	wantSeries(t, f, "volume_operation_errors_total")
}

// Pins PVB-58h.
func TestEventsAreRepeated(t *testing.T) {
	f := begin(t, aClaim(claimClass(nil)))
	for range 2 {
		f.mustSync(t, f.syncClaim)
		f.WantEvents(t, noVolumeEvent)
	}
}

// Pins PVB-61.
func TestALostClaimThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	refusal := errors.New("no")
	f := begin(t, aClaim(naming("volume"), completed))
	f.Refuse(putClaimStatus, refusal)
	if err := f.syncClaim(); !errors.Is(err, refusal) {
		t.Errorf("got %v", err)
	}
}
