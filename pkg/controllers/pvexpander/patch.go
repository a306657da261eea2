package pvexpander

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// patchClaim writes a change of the annotations and the status of a claim, which are all that the
// role of the controller allows it to write. It returns the claim as it is then.
func (c *expander) patchClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, change func(*corev1.PersistentVolumeClaim)) (*corev1.PersistentVolumeClaim, error) {
	name := claim.Name
	patch, err := patchOf(claim, change)
	if err == nil {
		claim, err = c.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		return nil, fmt.Errorf("patchPVCStatus failed to patch PVC %q: %w", name, err)
	}
	return claim, nil
}

// patchVolume writes a change of a volume, and returns the volume as it is then.
func (c *expander) patchVolume(ctx context.Context, volume *corev1.PersistentVolume, change func(*corev1.PersistentVolume)) (*corev1.PersistentVolume, error) {
	name := volume.Name
	patch, err := patchOf(volume, change)
	if err == nil {
		volume, err = c.Client.CoreV1().PersistentVolumes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("error Patching PV %q with error : %w", name, err)
	}
	return volume, nil
}

// object is a pointer to an API object.
type object[T any] interface {
	*T
	metav1.Object
	DeepCopy() *T
}

// patchOf returns the strategic merge patch that makes a change to an object, on condition that the
// object is still what it was.
func patchOf[T any, O object[T]](is O, change func(O)) ([]byte, error) {
	before, after := O(is.DeepCopy()), O(is.DeepCopy())
	before.SetUID("")
	before.SetResourceVersion("")
	change(after)
	old, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	changed, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(old, changed, *new(T))
}
