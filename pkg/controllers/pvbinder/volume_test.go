package pvbinder

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"
)

func TestJudgeVolume(t *testing.T) {
	mine, deletes := claimedBy(claimUID), policy(corev1.PersistentVolumeReclaimDelete)
	for name, tc := range map[string]struct {
		volume *pv
		claim  *pvc
		want   volumeAction
	}{
		"PVB-75: free":                                 {volume: aVolume("volume"), want: setAvailable},
		"PVB-75: reserved":                             {volume: aVolume("volume", claimedBy("")), claim: aClaim(), want: setAvailable},
		"PVB-77: its claim is gone":                    {volume: aVolume("volume", mine), want: release},
		"PVB-78: its claim names no volume":            {volume: aVolume("volume", mine), claim: aClaim(), want: wakeClaim},
		"PVB-78: its claim has another volume mode":    {volume: aVolume("volume", mine, volumeBlock), claim: aClaim(), want: reportMismatch},
		"PVB-79: its claim names it":                   {volume: aVolume("volume", mine), claim: aClaim(naming("volume")), want: setBound},
		"PVB-80: its claim names another":              {volume: aVolume("volume", mine, deletes), claim: aClaim(naming("other")), want: unbind},
		"PVB-80: provisioned, its claim names another": {volume: aVolume("volume", mine, deletes, provisionedBy("x")), claim: aClaim(naming("other")), want: release},
		"PVB-80: provisioned, and to be retained":      {volume: aVolume("volume", mine, provisionedBy("x")), claim: aClaim(naming("other")), want: unbind},
		"PVB-55: a volume that is being deleted":       {volume: aVolume("volume", mine, volumeDeleted), want: release},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judgeVolume(tc.volume, tc.claim); got != tc.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

// Pins PVB-84a and PVB-85.
func TestIsReleased(t *testing.T) {
	mine := claimedBy(claimUID)
	for name, tc := range map[string]struct {
		volume *pv
		claim  *pvc
		want   bool
	}{
		"it has no claim":           {volume: aVolume("volume")},
		"it is only reserved":       {volume: aVolume("volume", claimedBy(""))},
		"its claim is gone":         {volume: aVolume("volume", mine), want: true},
		"its claim was replaced":    {volume: aVolume("volume", mine), claim: aClaim(recreatedClaim, naming("volume")), want: true},
		"its claim names no volume": {volume: aVolume("volume", mine), claim: aClaim()},
		"its claim names it":        {volume: aVolume("volume", mine), claim: aClaim(naming("volume"))},
		"its claim names another":   {volume: aVolume("volume", mine), claim: aClaim(naming("other")), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isReleased(tc.volume, tc.claim); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// Pins PVB-49 and PVB-80.
func TestUnbound(t *testing.T) {
	free := unbound(aVolume("volume", claimedBy(claimUID), byController))
	if free.Spec.ClaimRef != nil || free.Annotations != nil {
		t.Errorf("what the controller bound has %v %v", free.Spec.ClaimRef, free.Annotations)
	}
	if other := unbound(aVolume("volume", claimedBy(claimUID), byController, noted("a", "b"))); !cmp.Equal(other.Annotations, map[string]string{"a": "b"}) {
		t.Errorf("annotations are %v", other.Annotations)
	}
	reserved := unbound(aVolume("volume", claimedBy(claimUID)))
	if ref := reserved.Spec.ClaimRef; ref == nil || ref.UID != "" || ref.Name != "claim" {
		t.Errorf("what a user reserved has %v", ref)
	}
}

func TestWithMigrationAndFinalizers(t *testing.T) {
	const protection, external, other = volume.PVDeletionInTreeProtectionFinalizer, volume.PVDeletionProtectionFinalizer, "example.com/other"
	deletes, recycles := policy(corev1.PersistentVolumeReclaimDelete), policy(corev1.PersistentVolumeReclaimRecycle)
	for name, tc := range map[string]struct {
		volume     *pv
		migrated   string
		finalizers []string
		unchanged  bool
	}{
		"PVB-74: static":                        {volume: aVolume("v", deletes, noted(volume.AnnMigratedTo, "x"), volumeFinalizers(protection)), unchanged: true},
		"PVB-74, PVB-13: migrated":              {volume: aVolume("v", deletes, provisionedBy("kubernetes.io/aws-ebs"), volumeFinalizers(other, protection, external)), migrated: "ebs.csi.aws.com", finalizers: []string{other, external}},
		"PVB-74: of a CSI driver":               {volume: aVolume("v", deletes, provisionedBy("csi.example.com"), volumeFinalizers(external)), unchanged: true},
		"PVB-74: no longer migrated":            {volume: aVolume("v", deletes, provisionedBy("csi.example.com"), noted(volume.AnnMigratedTo, "x"))},
		"PVB-74, PVB-101: in-tree, deleted":     {volume: aVolume("v", deletes, provisionedBy("kubernetes.io/rbd"), volumeFinalizers(other, external)), finalizers: []string{other, protection}},
		"PVB-74: in-tree, deleted, complete":    {volume: aVolume("v", deletes, provisionedBy("kubernetes.io/rbd"), volumeFinalizers(other, protection)), unchanged: true},
		"PVB-131: in-tree, being deleted":       {volume: aVolume("v", deletes, provisionedBy("kubernetes.io/rbd"), volumeDeleted), unchanged: true},
		"PVB-74: in-tree, retained":             {volume: aVolume("v", provisionedBy("kubernetes.io/host-path"), volumeFinalizers(protection, other)), finalizers: []string{other}},
		"PVB-74: in-tree, recycled":             {volume: aVolume("v", recycles, provisionedBy("kubernetes.io/host-path"), volumeFinalizers(protection, other)), finalizers: []string{other}},
		"PVB-74: in-tree, of an unknown policy": {volume: aVolume("v", policy("x"), provisionedBy("kubernetes.io/host-path"), volumeFinalizers(protection, external)), finalizers: []string{protection}},
		"PVB-131: being deleted, external": {volume: aVolume("v", deletes, provisionedBy("kubernetes.io/rbd"), volumeFinalizers(external), volumeDeleted),
			finalizers: []string{"example.com/hold"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := tc.volume.DeepCopy()
			got := withMigrationAndFinalizers(tc.volume)
			if !cmp.Equal(before, tc.volume) {
				t.Error("the volume was modified")
			}
			if tc.unchanged {
				if got != nil {
					t.Errorf("got %v %v", got.Annotations, got.Finalizers)
				}
				return
			}
			if got == nil || got.Annotations[volume.AnnMigratedTo] != tc.migrated || !slices.Equal(got.Finalizers, tc.finalizers) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestWithMigrationAnnotation(t *testing.T) {
	provisioner, beta, migrated := volume.AnnStorageProvisioner, volume.AnnBetaStorageProvisioner, volume.AnnMigratedTo
	for name, tc := range map[string]struct {
		claim     *pvc
		want      string
		unchanged bool
	}{
		"PVB-56: no provisioner":          {claim: aClaim(claimNoted(migrated, "x")), unchanged: true},
		"PVB-56, PVB-50: a migrated one":  {claim: aClaim(claimNoted(provisioner, "kubernetes.io/gce-pd")), want: "pd.csi.storage.gke.io"},
		"PVB-56, PVB-50: in the beta key": {claim: aClaim(claimNoted(beta, "kubernetes.io/cinder")), want: "cinder.csi.openstack.org"},
		"PVB-56: the other key wins":      {claim: aClaim(claimNoted(beta, "kubernetes.io/cinder"), claimNoted(provisioner, "x")), unchanged: true},
		"PVB-56: no longer migrated":      {claim: aClaim(claimNoted(provisioner, "x"), claimNoted(migrated, "y"))},
		"PVB-56: right already":           {claim: aClaim(claimNoted(provisioner, "kubernetes.io/gce-pd"), claimNoted(migrated, "pd.csi.storage.gke.io")), unchanged: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := withMigrationAnnotation(tc.claim)
			if tc.unchanged != (got == nil) {
				t.Fatalf("got %v", got)
			}
			if got != nil && got.Annotations[migrated] != tc.want {
				t.Errorf("got %v", got.Annotations)
			}
		})
	}
}

func TestMigratedPlugins(t *testing.T) {
	for name, want := range map[string]string{
		"kubernetes.io/aws-ebs":         "ebs.csi.aws.com",
		"kubernetes.io/gce-pd":          "pd.csi.storage.gke.io",
		"kubernetes.io/cinder":          "cinder.csi.openstack.org",
		"kubernetes.io/azure-disk":      "disk.csi.azure.com",
		"kubernetes.io/azure-file":      "file.csi.azure.com",
		"kubernetes.io/vsphere-volume":  "csi.vsphere.vmware.com",
		"kubernetes.io/portworx-volume": "pxd.portworx.com",
		"kubernetes.io/rbd":             "",
		"ebs.csi.aws.com":               "",
		"":                              "",
	} {
		t.Run("PVB-13: "+name, func(t *testing.T) {
			if got := migratedTo(name); got != want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestDefaultClass(t *testing.T) {
	beta := func(c *storagev1.StorageClass) { c.Annotations = map[string]string{annBetaDefaultClass: "true"} }
	almost := func(c *storagev1.StorageClass) { c.Annotations = map[string]string{annDefaultClass: "True"} }
	for name, tc := range map[string]struct {
		classes []*storagev1.StorageClass
		want    string
	}{
		"PVB-58d: there are none":               {},
		"PVB-54: none is marked":                {classes: []*storagev1.StorageClass{aClass("a", "x"), aClass("b", "x", almost)}},
		"PVB-54: one is marked":                 {classes: []*storagev1.StorageClass{aClass("a", "x"), aClass("b", "x", markedDefault)}, want: "b"},
		"PVB-54: by the beta annotation":        {classes: []*storagev1.StorageClass{aClass("a", "x"), aClass("b", "x", beta)}, want: "b"},
		"PVB-58d: the newest counts":            {classes: []*storagev1.StorageClass{aClass("a", "x", markedDefault), aClass("b", "x", markedDefault, createdLater)}, want: "b"},
		"PVB-58d: of the same age, by its name": {classes: []*storagev1.StorageClass{aClass("b", "x", markedDefault), aClass("a", "x", markedDefault)}, want: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if class := defaultClass(tc.classes); class != nil {
				got = class.Name
			}
			if got != tc.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
