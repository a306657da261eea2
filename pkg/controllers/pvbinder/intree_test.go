package pvbinder

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

const (
	mockName     = "kubernetes.io/mock-provisioner"
	newVolume    = "pvc-claim-uid"
	getNew       = "get persistentvolumes " + newVolume
	createNew    = "create persistentvolumes " + newVolume
	failedPrefix = "Warning ProvisioningFailed "
)

func TestAPluginProvisions(t *testing.T) {
	selected := claimNoted(volume.AnnSelectedNode, "node")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	options := func(c *storagev1.StorageClass) { c.MountOptions = []string{"a", "b"} }
	source := func(c *pvc) { c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "x", Name: "y"} }
	done := "Normal ProvisioningSucceeded Successfully provisioned volume pvc-claim-uid using kubernetes.io/mock-provisioner"
	for name, tc := range map[string]struct {
		mock     mock
		class    []func(*storagev1.StorageClass)
		claim    *pvc
		objects  []runtime.Object
		requests []string
		events   []string
		failed   bool
	}{
		"PVB-68: a volume is made": {claim: aClaim(), requests: []string{putClaim, getNew, createNew}, events: []string{done}},
		"PVB-68: from a source": {claim: aClaim(source), failed: true, events: []string{failedPrefix +
			`plugin "kubernetes.io/mock-provisioner" is not a CSI plugin. Only CSI plugin can provision a claim with a datasource`}},
		"PVB-68: it exists":                   {claim: aClaim(), objects: []runtime.Object{aVolume(newVolume, claimedByAnother)}, requests: []string{putClaim, getNew}},
		"PVB-68: with mount options":          {claim: aClaim(), class: []func(*storagev1.StorageClass){options}, failed: true, requests: []string{putClaim, getNew}, events: []string{failedPrefix + `Mount options are not supported by the provisioner but StorageClass "gold" has mount options [a b]`}},
		"PVB-68: it is disabled":              {claim: aClaim(), mock: mock{disabled: errors.New("off")}, failed: true, requests: []string{putClaim, getNew}, events: []string{failedPrefix + "Failed to create provisioner: off"}},
		"PVB-68, PVB-28: for a node":          {claim: aClaim(selected), objects: []runtime.Object{node}, requests: []string{putClaim, getNew, createNew}, events: []string{done}},
		"PVB-68, PVB-28: the node is gone":    {claim: aClaim(selected), failed: true, requests: []string{putClaim, getNew}, events: []string{failedPrefix + `Failed to get target node: node "node" not found`}},
		"PVB-68: the plugin fails":            {claim: aClaim(), mock: mock{err: errors.New("boom")}, failed: true, requests: []string{putClaim, getNew}, events: []string{failedPrefix + `Failed to provision volume with StorageClass "gold": boom`}},
		"PVB-68, PVB-108: it fails on a node": {claim: aClaim(selected), objects: []runtime.Object{node}, mock: mock{err: errors.New("boom")}, failed: true, requests: []string{putClaim, getNew, putClaim}, events: []string{failedPrefix + `Failed to provision volume with StorageClass "gold": boom`}},
	} {
		t.Run(name, func(t *testing.T) {
			class := aClass("gold", mockName, tc.class...)
			f := withMock(t, &tc.mock, append(tc.objects, tc.claim, class)...)
			f.mustSync(t, f.syncClaim)
			f.WantRequests(t, tc.requests...)
			f.WantEvents(t, tc.events...)
			if f.c.operations.isBlocked("provision-ns/claim[claim-uid]") != tc.failed {
				t.Errorf("blocked is not %v", tc.failed)
			}
			if _, ok := f.claim(t).Annotations[volume.AnnSelectedNode]; ok && tc.mock.err != nil {
				t.Error("the node is still selected")
			}
		})
	}
}

// Pins PVB-68 and PVB-53.
func TestTheVolumeThatAPluginMade(t *testing.T) {
	f := withMock(t, &mock{}, aClaim(claimModes()), aClass("gold", mockName))
	f.mustSync(t, f.syncClaim)
	v := controllertest.MustStored[*pv](t, f.Env, "", newVolume)
	if v.Spec.ClaimRef.UID != claimUID || v.Spec.StorageClassName != "gold" || v.Spec.HostPath.Path != "/tmp/x" || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete ||
		v.Spec.AccessModes[0] != corev1.ReadWriteOnce || !v.Spec.Capacity.Storage().Equal(*aClaim().Spec.Resources.Requests.Storage()) {
		t.Errorf("the spec is %+v", v.Spec)
	}
	if v.Annotations[volume.AnnBoundByController] != "yes" || v.Annotations[volume.AnnDynamicallyProvisioned] != mockName || len(v.Finalizers) != 1 {
		t.Errorf("the annotations are %v, the finalizers %v", v.Annotations, v.Finalizers)
	}
	wantSeries(t, f, "storage_operation_duration_seconds", "migrated=false operation_name=volume_provision status=success volume_plugin="+mockName+" 1")

	kept := volumeFor(aClaim(), nil, aClass("gold", mockName, func(c *storagev1.StorageClass) { c.ReclaimPolicy = ptr.To(corev1.PersistentVolumeReclaimRetain) }), mockName, &provisionedStorage{})
	if len(kept.Finalizers) != 0 || kept.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("to be retained: %+v", kept)
	}
}

// Pins PVB-68 and PVB-94.
func TestCreatingAVolumeFails(t *testing.T) {
	const failed = failedPrefix + "Error creating provisioned PV object for claim ns/claim: boom. Deleting the volume."
	for name, tc := range map[string]struct {
		failures int
		exists   bool
		lost     bool // the answer to the first attempt, which was executed
		err      error
		events   []string
		deleted  int
	}{
		"PVB-68: four times":         {failures: 4, events: []string{"Normal ProvisioningSucceeded Successfully provisioned volume pvc-claim-uid using " + mockName}},
		"PVB-68: its answer is lost": {failures: 1, lost: true, events: []string{"Normal ProvisioningSucceeded Successfully provisioned volume pvc-claim-uid using " + mockName}},
		"PVB-68: five times":         {failures: 5, events: []string{failed}, deleted: 1},
		"PVB-68: and its deletion, too": {failures: 5, err: errors.New("busy"), deleted: 5, events: []string{failed,
			"Warning ProvisioningCleanupFailed Error cleaning provisioned volume for claim ns/claim: busy. Please delete manually."}},
		"PVB-119: and yet it was created": {failures: 5, exists: true, events: []string{failed}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &mock{}
			f := withMock(t, m, aClaim(), aClass("gold", mockName))
			f.RefuseIf(createNew, errors.New("boom"), func(n int) bool {
				m.err = tc.err // the plugin has made the storage
				if tc.lost && n == 1 {
					f.Store(t, aVolume(newVolume, claimedBy(claimUID)))
				}
				return n <= tc.failures
			})
			if err := f.c.reconcileClaim(f.Context(), claimKey); err != nil {
				t.Fatal(err)
			}
			if tc.exists {
				f.EventuallyAsTimePasses(t, "it was tried", 0, func() bool { return len(f.Env.Fake.Actions()) > 2 })
				f.Store(t, aVolume(newVolume, claimedBy(claimUID)))
			}
			f.EventuallyAsTimePasses(t, "it has ended", createPause, func() bool {
				f.c.operations.mu.Lock()
				defer f.c.operations.mu.Unlock()
				return len(f.c.operations.running) == 0
			})
			f.WantEvents(t, tc.events...)
			if m.deleted != tc.deleted {
				t.Errorf("deleted %d times", m.deleted)
			}
			if f.c.operations.isBlocked("provision-ns/claim[claim-uid]") {
				t.Error("it is blocked")
			}
		})
	}
}
