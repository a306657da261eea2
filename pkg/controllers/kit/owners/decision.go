package owners

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// decision is what Claim does with a candidate.
type decision int

const (
	ignore decision = iota
	keep
	adopt
	release
)

// decide returns what an owner does with a candidate. It calls matches only if the result
// depends on it.
func decide(owner, candidate metav1.Object, matches func() bool) decision {
	ownerDeleted := owner.GetDeletionTimestamp() != nil
	if ref := metav1.GetControllerOfNoCopy(candidate); ref != nil {
		switch {
		case ref.UID != owner.GetUID():
			return ignore
		case matches():
			return keep
		case ownerDeleted:
			return ignore
		default:
			return release
		}
	}
	if ownerDeleted || candidate.GetDeletionTimestamp() != nil {
		return ignore
	}
	if owner.GetNamespace() != "" && owner.GetNamespace() != candidate.GetNamespace() {
		return ignore
	}
	if !matches() {
		return ignore
	}
	return adopt
}
