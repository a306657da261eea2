package owners

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

type adoptBody struct {
	Metadata adoptMetadata `json:"metadata"`
}

type adoptMetadata struct {
	UID             types.UID               `json:"uid"`
	OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
	Finalizers      []string                `json:"finalizers,omitempty"`
}

// AdoptPatch is the strategic merge patch that adds a controller reference to the object with
// the UID. References merge by UID, so other owners are kept; the API server rejects a second
// controller.
func AdoptPatch(uid types.UID, controllerRef metav1.OwnerReference, finalizers ...string) ([]byte, error) {
	patch, err := json.Marshal(adoptBody{adoptMetadata{
		UID:             uid,
		OwnerReferences: []metav1.OwnerReference{controllerRef},
		Finalizers:      finalizers,
	}})
	if err != nil {
		return nil, fmt.Errorf("encoding the adoption of %s: %w", uid, err)
	}
	return patch, nil
}

type releaseBody struct {
	Metadata releaseMetadata `json:"metadata"`
}

type releaseMetadata struct {
	UID             types.UID          `json:"uid"`
	OwnerReferences []releaseReference `json:"ownerReferences"`
	Finalizers      []string           `json:"$deleteFromPrimitiveList/finalizers,omitempty"`
}

type releaseReference struct {
	Patch string    `json:"$patch"`
	UID   types.UID `json:"uid"`
}

// releasePatch is the strategic merge patch that removes every reference to the owner
// from the object with the UID.
func releasePatch(uid, owner types.UID, finalizers ...string) ([]byte, error) {
	patch, err := json.Marshal(releaseBody{releaseMetadata{
		UID:             uid,
		OwnerReferences: []releaseReference{{Patch: "delete", UID: owner}},
		Finalizers:      finalizers,
	}})
	if err != nil {
		return nil, fmt.Errorf("encoding the release of %s: %w", uid, err)
	}
	return patch, nil
}
