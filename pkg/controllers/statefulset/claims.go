package statefulset

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/index"
)

func claimName(set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim, ordinal int) string {
	return template.Name + "-" + set.Name + "-" + strconv.Itoa(ordinal)
}

// newClaim returns the claim of a slot for a template. It already has the owner that the
// retention policy requires, which saves an update.
func newClaim(
	set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim, ordinal int,
) *corev1.PersistentVolumeClaim {
	claim := template.DeepCopy()
	claim.Name = claimName(set, template, ordinal)
	claim.Namespace = set.Namespace
	if claim.Labels == nil {
		claim.Labels = map[string]string{}
	}
	if set.Spec.Selector != nil {
		maps.Copy(claim.Labels, set.Spec.Selector.MatchLabels)
	}
	if wantedOwners(policyOf(set), inRange(set, ordinal)).set {
		claim.OwnerReferences = append(claim.OwnerReferences, *metav1.NewControllerRef(set, setKind))
	}
	return claim
}

// claimsBySet finds claims by the UIDs of the StatefulSets that own them.
type claimsBySet struct{ indexer cache.Indexer }

const claimsBySetIndex = "statefulSetUID"

// newClaimsBySet adds the index to the informer of claims if needed.
func newClaimsBySet(informer cache.SharedIndexInformer) claimsBySet {
	index.Ensure(informer, claimsBySetIndex, func(obj any) ([]string, error) {
		claim, ok := obj.(*corev1.PersistentVolumeClaim)
		if !ok {
			return nil, nil
		}
		var keys []string
		for _, ref := range claim.OwnerReferences {
			if ref.Kind == setKind.Kind {
				keys = append(keys, string(ref.UID))
			}
		}
		return keys, nil
	})
	return claimsBySet{informer.GetIndexer()}
}

// slotsOf returns the slots of a set whose claims the set owns.
func (c claimsBySet) slotsOf(set *appsv1.StatefulSet) (map[int]bool, error) {
	owned, err := index.Append[*corev1.PersistentVolumeClaim](nil, c.indexer, claimsBySetIndex, string(set.UID))
	slots := map[int]bool{}
	for _, claim := range owned {
		names, ordinal := split(claim.Name)
		template, ok := strings.CutSuffix(names, "-"+set.Name)
		if ok && ordinal >= 0 && claim.Namespace == set.Namespace && hasTemplate(set, template) {
			slots[ordinal] = true
		}
	}
	return slots, err
}

// claimsOf calls do with the cached claims of a pod's slot, and stops at the first error. A
// claim that does not exist is skipped.
func (c *statefulSetController) claimsOf(
	set *appsv1.StatefulSet, pod *corev1.Pod, do func(*corev1.PersistentVolumeClaim) error,
) error {
	ordinal := ordinalOf(pod)
	for i := range set.Spec.VolumeClaimTemplates {
		name := claimName(set, &set.Spec.VolumeClaimTemplates[i], ordinal)
		claim, err := c.claims.PersistentVolumeClaims(set.Namespace).Get(name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("could not retrieve claim %s for %s: %w", name, pod.Name, err)
		}
		if err := do(claim); err != nil {
			return err
		}
	}
	return nil
}

// claimIsGoing is the error of a claim that is being deleted, with its name.
type claimIsGoing string

func (c claimIsGoing) Error() string { return fmt.Sprintf("pvc %s is being deleted", string(c)) }

// createClaims creates the missing claims of a pod's slot. It attempts all of them. A claim
// that is being deleted is an error.
func (c *statefulSetController) createClaims(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	ordinal := ordinalOf(pod)
	var errs []error
	for i := range set.Spec.VolumeClaimTemplates {
		template := &set.Spec.VolumeClaimTemplates[i]
		name := claimName(set, template, ordinal)
		existing, err := c.claims.PersistentVolumeClaims(set.Namespace).Get(name)
		switch {
		case apierrors.IsNotFound(err):
			if err := c.createClaim(ctx, set, pod, newClaim(set, template, ordinal)); err != nil {
				errs = append(errs, fmt.Errorf("failed to create PVC %s: %w", name, err))
			}
		case err != nil:
			errs = append(errs, fmt.Errorf("failed to retrieve PVC %s: %w", name, err))
		case existing.DeletionTimestamp != nil:
			errs = append(errs, claimIsGoing(name))
		}
	}
	return joinFailures(errs)
}

func (c *statefulSetController) createClaim(
	ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim,
) error {
	created, err := c.Client.CoreV1().PersistentVolumeClaims(set.Namespace).Create(ctx, claim, metav1.CreateOptions{})
	switch {
	case err == nil:
		c.owners.Writes.Wrote(set, claimResource, created.ResourceVersion)
		c.Record(claimCreated(set, pod, claim))
	case !apierrors.IsAlreadyExists(err):
		c.RecordFailure(ctx, claimFailed(set, pod, claim, err))
	}
	return err
}
