package statefulset

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/expectations"
	"kcmd.dev/pkg/controllers/kit/history"
	"kcmd.dev/pkg/controllers/kit/ownership"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// defaultHistoryLimit is what the API server defaults spec.revisionHistoryLimit to.
const defaultHistoryLimit = 10

// pass is what one reconcile found.
type pass struct {
	set *appsv1.StatefulSet
	// now is the instant at which availability is judged.
	now time.Time
	// members are the pods of the set, whatever their slot.
	members []*corev1.Pod
	// history holds the revisions of the set, sorted.
	history []*appsv1.ControllerRevision
	revisions
}

func (c *statefulSetController) reconcile(ctx context.Context, key types.NamespacedName) error {
	err := c.sync(ctx, key)
	if apierrors.IsConflict(err) {
		return reconcile.Requeue(err)
	}
	return err
}

func (c *statefulSetController) sync(ctx context.Context, key types.NamespacedName) error {
	set, err := c.current(key)
	if apierrors.IsNotFound(err) {
		c.forget(key)
		return nil
	}
	if reconcile.IsRequeue(err) {
		return err
	}
	if err != nil {
		return fmt.Errorf("reading StatefulSet %s: %w", key, err)
	}
	// Asked before pods are listed: one that arrives in between must not count as missing.
	mayAct := c.settled(key, set) && set.DeletionTimestamp == nil
	selector, err := c.selectors.Of(set)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Selector cannot be parsed, nothing is done until it changes", "statefulSet", klog.KObj(set))
		return nil
	}
	p, err := c.observe(ctx, set, selector)
	if err != nil {
		return err
	}
	return c.finish(ctx, p, mayAct)
}

// finish brings pods, status and history of a set to where they should be.
func (c *statefulSetController) finish(ctx context.Context, p *pass, mayAct bool) error {
	status := countStatus(p.set, p.revisions, p.members, p.now)
	var failure error
	if mayAct {
		status, failure = c.advance(ctx, p)
	}
	if ctx.Err() != nil {
		// Cut off: what failed says nothing about the pods.
		return errors.Join(context.Cause(ctx), failure)
	}
	current, err := c.report(ctx, p.set, status)
	if failure == nil {
		failure = err
	}
	if err := c.truncateHistory(ctx, p, current); err != nil {
		return utilerrors.NewAggregate(append(flatten(failure), err))
	}
	if failure == nil {
		c.checkAvailability(p.set, &status, p.members, p.now)
	}
	return failure
}

func flatten(err error) []error {
	if err == nil {
		return nil
	}
	return []error{err}
}

// current returns the set as it is cached. It fails while the caches are older than what was
// written for the set.
func (c *statefulSetController) current(key types.NamespacedName) (*appsv1.StatefulSet, error) {
	get := func() (*appsv1.StatefulSet, error) { return c.sets.StatefulSets(key.Namespace).Get(key.Name) }
	if !c.value.staleConsistency {
		return get()
	}
	set, err := expectations.Read(c.tracker, key, get)
	var stale *expectations.StaleError
	if !errors.As(err, &stale) {
		return set, err
	}
	c.metrics.staleSyncSkipped(stale.Resource)
	return nil, reconcile.Requeue(err)
}

// settled reports that the caches show what was done for the set before.
func (c *statefulSetController) settled(key types.NamespacedName, set *appsv1.StatefulSet) bool {
	settled, retry := c.tracker.Settled(key, set.UID)
	if retry > 0 {
		c.queue.AddAfter(key, retry)
	}
	return settled
}

// forget drops what is remembered for a set that is gone.
func (c *statefulSetController) forget(key types.NamespacedName) {
	c.tracker.Forget(key, "")
	c.selectors.Forget(key)
	c.metrics.forget(key)
}

// observe finds the revisions and pods of a set, and adopts those it should have.
func (c *statefulSetController) observe(ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector) (*pass, error) {
	listed, err := c.listRevisions(ctx, set, selector)
	if err != nil {
		return nil, err
	}
	members, err := c.claimPods(ctx, set, selector)
	if err != nil {
		return nil, err
	}
	p := &pass{set: set, now: c.clock.Now(), members: members, history: listed}
	if p.revisions, err = c.currentRevisions(ctx, set, listed); err != nil {
		return nil, fmt.Errorf("finding the revisions of StatefulSet %s: %w", klog.KObj(set), err)
	}
	return p, nil
}

// claimPods returns the pods of a set, having adopted and released what it had to.
func (c *statefulSetController) claimPods(ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector) ([]*corev1.Pod, error) {
	candidates, err := c.pods.OwnedByOrOrphans(setKind.Kind, set)
	if err != nil {
		return nil, err
	}
	tracked := pods.Tracked{Control: pods.Control{Client: c.client, Events: c.events}, Tracker: c.tracker}
	return ownership.Claimer[*corev1.Pod]{
		Owner:     set,
		OwnerKind: setKind,
		Kind:      "Pod",
		Selector:  selector,
		Filters:   []func(*corev1.Pod) bool{func(pod *corev1.Pod) bool { return isMember(set, pod) }},
		CanAdopt:  c.canAdopt(set),
		Patch:     tracked.PatchFor(set),
	}.Claim(ctx, candidates)
}

func (c *statefulSetController) canAdopt(set *appsv1.StatefulSet) func(context.Context) error {
	return ownership.Recheck(set, setKind.Kind, func(ctx context.Context) (*appsv1.StatefulSet, error) {
		return c.client.AppsV1().StatefulSets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
	})
}

// truncateHistory deletes the oldest revisions beyond the limit. Those that pods or the
// status name do not count.
func (c *statefulSetController) truncateHistory(ctx context.Context, p *pass, current string) error {
	limit := int(ptr.Deref(p.set.Spec.RevisionHistoryLimit, defaultHistoryLimit))
	if len(p.history) <= limit {
		return nil
	}
	live := map[string]bool{current: true, p.update.Name: true}
	for _, pod := range p.members {
		live[revisionOf(pod)] = true
	}
	for _, revision := range history.Surplus(p.history, limit, func(name string) bool { return live[name] }) {
		if err := c.history.Delete(ctx, revision); err != nil {
			return err
		}
	}
	return nil
}
