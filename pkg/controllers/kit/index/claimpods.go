package index

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/ephemeral"
)

// podsByClaim is the name of the index of pods by the PersistentVolumeClaims of their volumes,
// <namespace>/<name>. It contains all pods in any phase, including pods that are not scheduled.
const podsByClaim = "pod-pvc-index"

// ClaimPods finds pods by PersistentVolumeClaim.
type ClaimPods struct{ indexer cache.Indexer }

// NewClaimPods adds the index to the pod informer if needed.
func NewClaimPods(informer cache.SharedIndexInformer) ClaimPods {
	Ensure(informer, podsByClaim, claimKeys)
	return ClaimPods{informer.GetIndexer()}
}

// Of returns the pods with a volume that uses the claim. See ClaimOf.
func (p ClaimPods) Of(claim types.NamespacedName) ([]*corev1.Pod, error) {
	return Append[*corev1.Pod](nil, p.indexer, podsByClaim, claim.String())
}

// ClaimOf returns the name of the claim of a volume, or an empty string if the volume has none.
// For a generic ephemeral volume, that is the name of the claim created for it. A claim with that
// name was not necessarily created for the pod.
func ClaimOf(pod *corev1.Pod, volume *corev1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, volume)
	}
	return ""
}

func claimKeys(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	var keys []string
	for i := range pod.Spec.Volumes {
		if name := ClaimOf(pod, &pod.Spec.Volumes[i]); name != "" {
			keys = append(keys, pod.Namespace+"/"+name)
		}
	}
	return keys, nil
}
