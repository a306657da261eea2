package pvbinder

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

func TestBoundClaim(t *testing.T) {
	for name, tc := range map[string]struct {
		claim        *pvc
		unchanged    bool
		byController bool
	}{
		"PVB-71, PVB-49: it names no volume":      {claim: aClaim(), byController: true},
		"PVB-71, PVB-49: a user named it":         {claim: aClaim(naming("volume"))},
		"PVB-71, PVB-48: bound already":           {claim: aClaim(naming("volume"), completed), unchanged: true},
		"PVB-71: the annotation is there already": {claim: aClaim(claimByController), byController: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := boundClaim(tc.claim, aVolume("volume"))
			if tc.unchanged {
				if got != nil {
					t.Errorf("got %+v", got)
				}
				return
			}
			if got.Spec.VolumeName != "volume" || !isBindCompleted(got) || isBoundByController(got) != tc.byController {
				t.Errorf("got %s %v", got.Spec.VolumeName, got.Annotations)
			}
		})
	}
}

func TestBoundStatus(t *testing.T) {
	large := func(c *pvc) {
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("9Gi")}
	}
	shown := func(c *pvc) {
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5120Mi"), "other": resource.MustParse("1")}
	}
	sized := func(v *pv) { noted(annPreResizeCapacity, "3Gi")(v) }
	type row struct {
		volume    *pv
		claim     *pvc
		unchanged bool
		capacity  string
		class     *string
		other     bool
		err       string
	}
	for name, tc := range map[string]row{
		"PVB-72: it was pending":                       {volume: aVolume("v"), claim: aClaim(), capacity: "5Gi"},
		"PVB-72: all is so":                            {volume: aVolume("v"), claim: aClaim(showing(aVolume("v"))), unchanged: true},
		"PVB-72: once bound, the capacity is kept":     {volume: aVolume("v", withModes(corev1.ReadWriteMany)), claim: aClaim(claimIn(corev1.ClaimBound), large), capacity: "9Gi"},
		"PVB-72: once bound, modes alone change":       {volume: aVolume("v", volumeAttributes("x")), claim: aClaim(claimIn(corev1.ClaimBound)), capacity: "0"},
		"PVB-72: an equal capacity is kept":            {volume: aVolume("v"), claim: aClaim(shown), capacity: "5Gi", other: true},
		"PVB-72: another capacity is replaced":         {volume: aVolume("v"), claim: aClaim(large), capacity: "5Gi"},
		"PVB-72, PVB-52: the volume is being expanded": {volume: aVolume("v", sized), claim: aClaim(shown), capacity: "3Gi", other: true},
		"PVB-72: from an unknown size":                 {volume: aVolume("v", noted(annPreResizeCapacity, "x")), claim: aClaim(), capacity: "5Gi"},
		"PVB-72: the volume has no capacity":           {volume: aVolume("v", func(v *pv) { v.Spec.Capacity = nil }), claim: aClaim(), err: `PersistentVolume "v" is without a storage capacity`},
		"PVB-72: the class when it is bound":           {volume: aVolume("v", volumeAttributes("x")), claim: aClaim(), capacity: "5Gi", class: ptr.To("x")},
		"PVB-72: no class when it was lost":            {volume: aVolume("v", volumeAttributes("x")), claim: aClaim(claimIn(corev1.ClaimLost)), capacity: "5Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := boundStatus(tc.claim, tc.volume, true)
			if tc.unchanged || tc.err != "" {
				if got != nil || tc.err != "" && (err == nil || err.Error() != tc.err) {
					t.Errorf("got %v, %v", got, err)
				}
				return
			}
			if got.Status.Phase != corev1.ClaimBound || got.Status.AccessModes[0] != tc.volume.Spec.AccessModes[0] || !ptr.Equal(got.Status.CurrentVolumeAttributesClassName, tc.class) {
				t.Errorf("got %+v", got.Status)
			}
			if size := got.Status.Capacity[corev1.ResourceStorage]; size.Cmp(resource.MustParse(tc.capacity)) != 0 {
				t.Errorf("the capacity is %s", size.String())
			}
			if _, ok := got.Status.Capacity["other"]; ok != tc.other {
				t.Errorf("the capacity is %v", got.Status.Capacity)
			}
		})
	}
	if got, err := boundStatus(aClaim(), aVolume("v", volumeAttributes("x")), false); err != nil || got.Status.CurrentVolumeAttributesClassName != nil {
		t.Errorf("PVB-4: with the gate off got %v, %v", got.Status, err)
	}
}

// Pins PVB-73.
func TestUnboundStatus(t *testing.T) {
	bound := aClaim(showing(aVolume("v")), func(c *pvc) { c.Status.CurrentVolumeAttributesClassName = ptr.To("x") })
	got := unboundStatus(bound, corev1.ClaimLost)
	if s := got.Status; s.Phase != corev1.ClaimLost || s.AccessModes != nil || s.Capacity != nil || s.CurrentVolumeAttributesClassName != nil {
		t.Errorf("got %+v", s)
	}
	if unboundStatus(got, corev1.ClaimLost) != nil {
		t.Error("it is written again")
	}
}

// Pins PVB-50 and PVB-67.
func TestWithProvisioner(t *testing.T) {
	got := withProvisioner(aClaim(claimNoted(volume.AnnMigratedTo, "x"), claimNoted(volume.AnnBetaStorageProvisioner, "y")), "p")
	if got.Annotations[volume.AnnStorageProvisioner] != "p" || got.Annotations[volume.AnnBetaStorageProvisioner] != "p" || got.Annotations[volume.AnnMigratedTo] != "" {
		t.Errorf("got %v", got.Annotations)
	}
	if again := withProvisioner(aClaim(claimNoted(volume.AnnStorageProvisioner, "p")), "p"); again != nil {
		t.Errorf("it is written again: %v", again.Annotations)
	}
}
