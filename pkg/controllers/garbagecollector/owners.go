package garbagecollector

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ownership groups the owner references of an object.
type ownership struct {
	// solid owners exist and are not waiting, dangling ones do not exist, waiting ones are in
	// foreground deletion and wait for their dependents.
	solid, dangling, waiting []metav1.OwnerReference
}

// classify looks up every owner of an object.
func (c *collector) classify(ctx context.Context, item identity, refs []metav1.OwnerReference) (ownership, error) {
	var o ownership
	for _, ref := range refs {
		owner, err := c.ownerState(ctx, item, ref)
		if err != nil {
			return ownership{}, err
		}
		switch owner {
		case solid:
			o.solid = append(o.solid, ref)
		case dangling:
			o.dangling = append(o.dangling, ref)
		case waiting:
			o.waiting = append(o.waiting, ref)
		}
	}
	return o, nil
}

type ownerState string

const (
	solid    ownerState = "solid"
	dangling ownerState = "dangling"
	waiting  ownerState = "waiting"
)

func (c *collector) ownerState(ctx context.Context, item identity, ref metav1.OwnerReference) (ownerState, error) {
	as, linked := c.graph.lives(ref, item)
	if linked && c.monitors.synced(as.resource) {
		return solid, nil
	}
	// An owner that is shown is read although it was found to be absent: a backup may have restored it.
	if as == nil && (c.graph.absent.has(claimed(ref, "")) || c.graph.absent.has(claimed(ref, item.namespace))) {
		return dangling, nil
	}
	at, err := c.locate(claimed(ref, item.namespace))
	if err != nil {
		return "", err
	}
	owner, err := c.read(ctx, at, ref.UID)
	if err != nil {
		return "", err
	}
	if owner == nil {
		c.graph.absent.add(claimed(ref, at.namespace))
		return dangling, nil
	}
	c.apply(ctx, &change{kind: changeOwned, identity: item, claim: ref})
	if deletingDependents(owner) {
		return waiting, nil
	}
	return solid, nil
}

// action is what to do with an object.
type action string

const (
	keep    action = "keep"
	disown  action = "disown"  // remove references to owners that are gone or being deleted
	discard action = "discard" // delete the object
	unblock action = "unblock" // let its owners be deleted first, then delete the object
)

// verdict is the decision about an object, given its owners.
type verdict struct {
	action action
	// disowned are the owners to be removed.
	disowned []types.UID
	// policy is the propagation policy of the deletion.
	policy metav1.DeletionPropagation
}

// judge decides about an object with at least one owner reference.
func judge(o ownership, s state, finalizers []string) verdict {
	switch {
	case len(o.solid) > 0 && len(o.dangling) == 0 && len(o.waiting) == 0:
		return verdict{action: keep}
	case len(o.solid) > 0:
		// The object is kept, and the waiting owner would wait forever.
		return verdict{action: disown, disowned: uidsOf(o.dangling, o.waiting)}
	case len(o.waiting) > 0 && s.deletingDependent:
		// There may be a cycle, in which each object would wait for the next.
		return verdict{action: unblock, policy: metav1.DeletePropagationForeground}
	case len(o.waiting) > 0 && s.dependents > 0:
		return verdict{action: discard, policy: metav1.DeletePropagationForeground}
	}
	return verdict{action: discard, policy: policyOf(finalizers)}
}

// policyOf returns the propagation policy that the finalizers of an object require.
func policyOf(finalizers []string) metav1.DeletionPropagation {
	switch {
	case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

func uidsOf(lists ...[]metav1.OwnerReference) []types.UID {
	var uids []types.UID
	for _, refs := range lists {
		for _, ref := range refs {
			if !slices.Contains(uids, ref.UID) {
				uids = append(uids, ref.UID)
			}
		}
	}
	return uids
}
