package statefulset

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/workloads/history"
	"kcmd.dev/pkg/controllers/kit/workloads/podtemplate"
)

// maxEqualities is the size of the LRU cache of equalities.
const maxEqualities = 10_000

// revisions are the current and the update revision of a set; they are the same when no update
// is in progress.
type revisions struct {
	current, update *appsv1.ControllerRevision
	// collisions counts names of revisions that were taken.
	collisions int32
}

// equality is how a revision equals the template of a set.
type equality int

const (
	// identical means that it has the same payload.
	identical equality = iota + 1
	// equivalent means that it has the payload of the same template encoded by another version
	// of the API.
	equivalent
)

// equalities caches which revisions equal the template of a set, so that reconciling an
// unchanged set encodes nothing. Entries expire after five minutes: in a cluster restored from
// a backup, a generation of a set can occur twice.
type equalities struct{ cache *utilcache.LRUExpireCache }

// equalityTime is how long an entry is cached.
const equalityTime = 5 * time.Minute

type equalityKey struct {
	set        types.UID
	generation int64
	version    string // of the revision
}

// payloadKey is the key of an equivalence that does not depend on the rest of the spec.
type payloadKey struct {
	set     types.UID
	version string // of the revision
	payload [sha256.Size]byte
}

func newEqualities(c clock.PassiveClock) *equalities {
	return &equalities{utilcache.NewLRUExpireCacheWithClock(maxEqualities, c)}
}

func (e *equalities) of(set *appsv1.StatefulSet, revision *appsv1.ControllerRevision) equality {
	known, ok := e.cache.Get(equalityKey{set.UID, set.Generation, revision.ResourceVersion})
	if !ok {
		return 0
	}
	return known.(equality)
}

func (e *equalities) remember(set *appsv1.StatefulSet, revision *appsv1.ControllerRevision, is equality) {
	if revision.ResourceVersion != "" {
		e.cache.Add(equalityKey{set.UID, set.Generation, revision.ResourceVersion}, is, equalityTime)
	}
}

// equivalentTo reports whether a revision was found equivalent to a payload.
func (e *equalities) equivalentTo(set *appsv1.StatefulSet, revision *appsv1.ControllerRevision, payload []byte) bool {
	_, ok := e.cache.Get(payloadKey{set.UID, revision.ResourceVersion, sha256.Sum256(payload)})
	return ok
}

func (e *equalities) rememberEquivalent(set *appsv1.StatefulSet, revision *appsv1.ControllerRevision, payload []byte) {
	e.remember(set, revision, equivalent)
	if revision.ResourceVersion != "" {
		e.cache.Add(payloadKey{set.UID, revision.ResourceVersion, sha256.Sum256(payload)}, equivalent, equalityTime)
	}
}

// listRevisions adopts orphaned revisions and returns the history of a set.
func (c *statefulSetController) listRevisions(
	ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector,
) ([]*appsv1.ControllerRevision, error) {
	listed, err := c.history.List(setKind.Kind, set, selector)
	if err != nil {
		return nil, err
	}
	checked := false
	for i, revision := range listed {
		if metav1.GetControllerOfNoCopy(revision) != nil {
			continue
		}
		if !checked {
			if err := c.owners.CanAdopt(set)(ctx); err != nil {
				return nil, revisionsNotAdopted(set, err)
			}
			checked = true
		}
		if listed[i], err = c.adoptRevision(ctx, set, revision); err != nil {
			return nil, err
		}
	}
	return listed, nil
}

// revisionsNotAdopted returns a Requeue error if the set is being deleted, since that is
// expected until the set is gone.
func revisionsNotAdopted(set *appsv1.StatefulSet, cause error) error {
	err := fmt.Errorf("can't adopt ControllerRevisions: %w", cause)
	if set.DeletionTimestamp != nil {
		return reconcile.Requeue(err)
	}
	return err
}

func (c *statefulSetController) adoptRevision(
	ctx context.Context, set *appsv1.StatefulSet, revision *appsv1.ControllerRevision,
) (*appsv1.ControllerRevision, error) {
	patch, err := owners.AdoptPatch(revision.UID, *metav1.NewControllerRef(set, setKind))
	if err != nil {
		return nil, err
	}
	adopted, err := c.history.Patch(ctx, revision, types.StrategicMergePatchType, patch)
	if err != nil {
		return nil, fmt.Errorf("adopting revision %s: %w", klog.KObj(revision), err)
	}
	c.wroteRevision(set, adopted)
	return adopted, nil
}

// wroteRevision makes the next reconcile wait until the cache shows a revision.
func (c *statefulSetController) wroteRevision(set *appsv1.StatefulSet, revision *appsv1.ControllerRevision) {
	if c.config.requireFresh {
		c.owners.Writes.Wrote(set, revisionResource, revision.ResourceVersion)
	}
}

// currentRevisions returns the two revisions of a set from its sorted history. A revision of
// the template is created if it is missing, unless the set is being deleted, and renumbered if it is not the newest.
func (c *statefulSetController) currentRevisions(
	ctx context.Context, set *appsv1.StatefulSet, sorted []*appsv1.ControllerRevision,
) (revisions, error) {
	found := revisions{collisions: ptr.Deref(set.Status.CollisionCount, 0)}
	var err error
	if found.update, err = c.updateRevision(ctx, set, sorted, &found.collisions); err != nil {
		return found, err
	}
	found.current, err = c.currentRevision(ctx, set, sorted, found.update)
	return found, err
}

// currentRevision returns the revision that the status of a set names as the current one, and the update revision if
// there is none. One that the history lacks is read live: a list after a break of the watch may lack it, and once the
// status names another one, nothing says which it was.
func (c *statefulSetController) currentRevision(
	ctx context.Context, set *appsv1.StatefulSet, listed []*appsv1.ControllerRevision, update *appsv1.ControllerRevision,
) (*appsv1.ControllerRevision, error) {
	name := set.Status.CurrentRevision
	if name == "" || name == update.Name {
		return update, nil
	}
	for _, revision := range listed {
		if revision.Name == name {
			return revision, nil
		}
	}
	live, err := c.Client.AppsV1().ControllerRevisions(set.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case controller.Absent(err):
		return update, nil
	case err != nil:
		return nil, fmt.Errorf("reading revision %s/%s: %w", set.Namespace, name, err)
	case !c.isRevisionOf(set, live):
		return update, nil
	}
	return live, nil
}

// isRevisionOf reports whether a revision belongs to the history of a set.
func (c *statefulSetController) isRevisionOf(set *appsv1.StatefulSet, revision *appsv1.ControllerRevision) bool {
	selector, err := c.owners.Selectors.Of(set)
	return err == nil && metav1.IsControlledBy(revision, set) && selector.Matches(labels.Set(revision.Labels))
}

func (c *statefulSetController) updateRevision(
	ctx context.Context, set *appsv1.StatefulSet, sorted []*appsv1.ControllerRevision, collisions *int32,
) (*appsv1.ControllerRevision, error) {
	var last *appsv1.ControllerRevision
	if len(sorted) > 0 {
		last = sorted[len(sorted)-1]
		if c.equalities.of(set, last) == identical {
			return last, nil
		}
	}
	payload, err := history.Payload(&set.Spec.Template)
	if err != nil {
		return nil, err
	}
	equal := lastHolding(sorted, payload)
	switch {
	case equal == nil:
	case history.Holds(last, payload):
		c.equalities.remember(set, last, identical)
		return last, nil
	default:
		rolledBack, err := c.history.Renumber(ctx, equal, history.NextNumber(sorted))
		if err != nil {
			return nil, err
		}
		c.wroteRevision(set, rolledBack)
		c.equalities.remember(set, rolledBack, identical)
		return rolledBack, nil
	}
	if c.config.semanticComparison && last != nil && c.isEquivalent(ctx, set, last, payload) {
		return last, nil
	}
	owner := history.Owner{Object: set, Kind: setKind}
	next := history.New(owner, &set.Spec.Template, payload, history.NextNumber(sorted), *collisions)
	if set.DeletionTimestamp != nil {
		return next, nil // only its name is needed, for the status: the garbage collector may just have deleted this revision
	}
	created, count, err := c.history.Create(ctx, set.Namespace, set.Name, next, *collisions)
	*collisions = count
	if err != nil {
		return nil, err
	}
	if ref := metav1.GetControllerOfNoCopy(created); ref != nil && ref.UID != set.UID {
		c.owners.EnqueueAfter(set, reconcile.RecheckAfter) // it was there, and goes with the set that it belongs to
	}
	c.wroteRevision(set, created)
	c.equalities.remember(set, created, identical)
	return created, nil
}

// lastHolding returns the last of the sorted revisions with the payload, or nil.
func lastHolding(sorted []*appsv1.ControllerRevision, payload []byte) *appsv1.ControllerRevision {
	for i := len(sorted) - 1; i >= 0; i-- {
		if history.Holds(sorted[i], payload) {
			return sorted[i]
		}
	}
	return nil
}

// isEquivalent reports whether a revision holds the set's template as encoded by an earlier
// version of the API. Such a revision must not cause an update of all pods.
func (c *statefulSetController) isEquivalent(
	ctx context.Context, set *appsv1.StatefulSet, revision *appsv1.ControllerRevision, payload []byte,
) bool {
	if c.equalities.of(set, revision) == equivalent {
		return true
	}
	if wasFound(set, revision) || c.equalities.equivalentTo(set, revision, payload) ||
		c.hasSameTemplate(ctx, set, revision, payload) {
		c.equalities.rememberEquivalent(set, revision, payload)
		return true
	}
	return false
}

// wasFound reports whether the revision was found for the present generation of the spec. The
// API server increments the generation with every change of the spec, but not when a newer
// version of the API adds a default to the stored object.
func wasFound(set *appsv1.StatefulSet, revision *appsv1.ControllerRevision) bool {
	return set.Generation != 0 && set.Status.ObservedGeneration == set.Generation &&
		set.Status.UpdateRevision == revision.Name
}

// hasSameTemplate compares a revision with the template of the set after applying the known
// defaults. It is needed if the spec was changed while no controller ran.
func (c *statefulSetController) hasSameTemplate(
	ctx context.Context, set *appsv1.StatefulSet, revision *appsv1.ControllerRevision, payload []byte,
) bool {
	at, err := atRevision(set, revision)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to compare a revision", "revision", klog.KObj(revision))
		return false
	}
	equal, err := sameTemplate(&at.Spec.Template, &set.Spec.Template, payload)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to compare a revision", "revision", klog.KObj(revision))
		return false
	}
	return equal
}

// sameTemplate reports whether a stored template equals the present one, whose payload is
// given, when both have the defaults of the API.
func sameTemplate(stored, present *corev1.PodTemplateSpec, payload []byte) (bool, error) {
	again, err := history.Payload(stored)
	if err != nil {
		return false, err
	}
	if bytes.Equal(again, payload) {
		return true, nil
	}
	a, err := history.Payload(podtemplate.WithDefaults(stored))
	if err != nil {
		return false, err
	}
	b, err := history.Payload(podtemplate.WithDefaults(present))
	if err != nil {
		return false, err
	}
	return bytes.Equal(a, b), nil
}

// atRevision returns the set with the template of a revision. It shares memory with the set,
// unless the revision has an unusual form.
func atRevision(set *appsv1.StatefulSet, revision *appsv1.ControllerRevision) (*appsv1.StatefulSet, error) {
	template, ok := history.Template(revision.Data.Raw)
	if !ok {
		return history.Apply(set, revision.Data.Raw)
	}
	at := *set
	at.Spec.Template = *template
	return &at, nil
}

// builder builds the pods of slots at the current or the update revision. Revisions are decoded
// on first use, at most once. It may be used concurrently.
type builder struct {
	set *appsv1.StatefulSet
	revisions
	// atCurrent and atUpdate return the set with the template of a revision.
	atCurrent, atUpdate func() (*appsv1.StatefulSet, error)
}

// newBuilder returns a builder for the revisions of a set. The update revision may be known to
// equal the template of the set.
func newBuilder(set *appsv1.StatefulSet, at revisions, updateIsSet bool) *builder {
	decoded := func(revision *appsv1.ControllerRevision) func() (*appsv1.StatefulSet, error) {
		return sync.OnceValues(func() (*appsv1.StatefulSet, error) {
			if updateIsSet && revision == at.update {
				return set, nil
			}
			return atRevision(set, revision)
		})
	}
	return &builder{set: set, revisions: at, atCurrent: decoded(at.current), atUpdate: decoded(at.update)}
}

func (b *builder) pod(ordinal int) (*corev1.Pod, error) {
	revision, decoded := b.update, b.atUpdate
	if b.current != b.update && startsAtCurrent(b.set, ordinal) {
		revision, decoded = b.current, b.atCurrent
	}
	at, err := decoded()
	if err != nil {
		return nil, err
	}
	return newPod(at, revision.Name, ordinal), nil
}

// startsAtCurrent reports whether a pod for the slot is created at the current revision,
// because a rolling update has not reached it yet.
func startsAtCurrent(set *appsv1.StatefulSet, ordinal int) bool {
	strategy := set.Spec.UpdateStrategy
	first := firstOrdinal(set)
	if strategy.RollingUpdate == nil {
		return strategy.Type == appsv1.RollingUpdateStatefulSetStrategyType && ordinal < first+int(set.Status.CurrentReplicas)
	}
	return ordinal < first+partitionOf(set)
}

// partitionOf returns the number of lowest slots that a rolling update does not update.
func partitionOf(set *appsv1.StatefulSet) int {
	if set.Spec.UpdateStrategy.RollingUpdate == nil {
		return 0
	}
	return int(ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate.Partition, 0))
}
