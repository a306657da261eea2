package pvcprotection

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/protection"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	// deletedClaimsIndex indexes by namespace the claims that wait for their finalizer to be removed.
	deletedClaimsIndex = "pvcprotection/deleted"
	// claimsInUseIndex indexes by namespace the claims that are not being deleted and that have no
	// condition saying that they are unused.
	claimsInUseIndex = "pvcprotection/in-use"

	// answerLife is how long an answer stays valid.
	answerLife = time.Minute
)

// answers stores which claims a live list of pods has shown to be unused. Deleting a namespace
// deletes many claims at once. A list for each claim would make the cost quadratic in their number.
//
// The controller sees the deletion of a claim before it sends the list, so no pod can start to use
// the claim later. An answer identifies the claim by UID. A claim in use has no answer, because the
// listed pod may have been deleted since.
type answers struct {
	clock clock.PassiveClock
	of    map[string]answer // by namespace
}

// answer holds the unused claims of one list that nothing has taken yet.
type answer struct {
	listed time.Time // when the list had been read, which can take minutes
	unused map[subject]struct{}
}

// subject identifies a claim. The meaning of "in use" depends on deleted, see uses.
type subject struct {
	claim   types.UID
	deleted bool
}

func subjectOf(claim *corev1.PersistentVolumeClaim) subject {
	return subject{claim: claim.UID, deleted: claim.DeletionTimestamp != nil}
}

// take reports whether there is a valid answer for a claim, and removes the answer.
func (a answers) take(claim *corev1.PersistentVolumeClaim) bool {
	answer, ok := a.of[claim.Namespace]
	if !ok {
		return false
	}
	_, unused := answer.unused[subjectOf(claim)]
	delete(answer.unused, subjectOf(claim))
	old := a.isOld(answer)
	if old || len(answer.unused) == 0 {
		delete(a.of, claim.Namespace)
	}
	return unused && !old
}

func (a answers) isOld(answer answer) bool { return a.clock.Since(answer.listed) >= answerLife }

// isUsed reports whether a pod uses a claim, see uses. The error may request another pass.
func (c *protectionController) isUsed(ctx context.Context, claim *corev1.PersistentVolumeClaim) (bool, error) {
	unused := c.answers.take(claim)
	if c.isUsedByCached(ctx, claim) {
		return true, nil
	}
	if unused {
		return false, nil
	}
	if err := c.listUnused(ctx, claim); err != nil {
		return true, fmt.Errorf("live list of pods failed: %w", err)
	}
	if !c.answers.take(claim) {
		// If the cache never contains the pod, no event reports its deletion.
		return true, reconcile.AwaitCache(errors.New("the cache does not show its pods yet"))
	}
	return false, nil
}

// isUsedByCached reports whether the cache shows that a pod uses a claim.
func (c *protectionController) isUsedByCached(ctx context.Context, claim *corev1.PersistentVolumeClaim) bool {
	pods, err := c.pods.Of(reconcile.KeyOf(claim))
	if err != nil {
		klog.FromContext(ctx).Error(err, "Listing the pods of a claim from the API server instead of the cache",
			"claim", klog.KObj(claim))
	}
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return uses(pod, claim) })
}

// listUnused lists the pods of a namespace live and stores which claims they do not use. It
// considers the given claim and those that subjects returns.
func (c *protectionController) listUnused(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	unused, err := c.subjects(claim.Namespace) // before the list, so that the list is not older than a deletion
	if err != nil {
		return err
	}
	unused[claim.Name] = claim
	_, err = protection.EachPod(ctx, c.Client, claim.Namespace, c.selector(), func(pod *corev1.Pod) {
		for i := range pod.Spec.Volumes {
			volume := &pod.Spec.Volumes[i]
			name := index.ClaimOf(pod, volume)
			if claim, ok := unused[name]; ok && usesFor(pod, volume, claim) {
				delete(unused, name)
			}
		}
	})
	if err != nil {
		return err
	}
	c.answers.add(claim.Namespace, unused)
	return nil
}

// add replaces the answer for a namespace and removes expired answers for others.
func (a answers) add(namespace string, unused map[string]*corev1.PersistentVolumeClaim) {
	maps.DeleteFunc(a.of, func(_ string, answer answer) bool { return a.isOld(answer) })
	subjects := make(map[subject]struct{}, len(unused))
	for _, claim := range unused {
		subjects[subjectOf(claim)] = struct{}{}
	}
	a.of[namespace] = answer{listed: a.clock.Now(), unused: subjects}
}

// selector selects the pods that can use a claim. Only scheduled pods hold a claim, but unscheduled
// pods also count for the condition Unused.
func (c *protectionController) selector() fields.Selector {
	if c.unusedSince {
		return fields.Everything()
	}
	return fields.OneTermNotEqualSelector("spec.nodeName", "")
}

// subjects returns by name the claims in a namespace that one list of its pods must answer for.
func (c *protectionController) subjects(namespace string) (map[string]*corev1.PersistentVolumeClaim, error) {
	claims, err := index.Append[*corev1.PersistentVolumeClaim](nil, c.indexer, deletedClaimsIndex, namespace)
	if err == nil && c.unusedSince {
		claims, err = index.Append(claims, c.indexer, claimsInUseIndex, namespace)
	}
	if err != nil {
		return nil, err
	}
	all := make(map[string]*corev1.PersistentVolumeClaim, len(claims)+1)
	for _, claim := range claims {
		all[claim.Name] = claim
	}
	return all, nil
}

// deletedClaims is the index function of deletedClaimsIndex.
func deletedClaims(obj any) ([]string, error) {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok || !finalizer.Blocks(claim) {
		return nil, nil
	}
	return []string{claim.Namespace}, nil
}

// claimsInUse is the index function of claimsInUseIndex.
func claimsInUse(obj any) ([]string, error) {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok || claim.DeletionTimestamp != nil || isShownUnused(claim) {
		return nil, nil
	}
	return []string{claim.Namespace}, nil
}
