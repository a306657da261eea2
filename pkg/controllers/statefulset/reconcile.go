package statefulset

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/workloads/history"
)

// defaultHistoryLimit is the API server's default of spec.revisionHistoryLimit.
const defaultHistoryLimit = 10

// observation is the observed state of one reconcile.
type observation struct {
	set *appsv1.StatefulSet
	// now is the time at which availability is evaluated.
	now time.Time
	// members are the pods of the set, in any slot.
	members []*corev1.Pod
	// history holds the revisions of the set, sorted.
	history []*appsv1.ControllerRevision
	revisions
	builder *builder
}

func (c *statefulSetController) reconcile(ctx context.Context, set *appsv1.StatefulSet) error {
	// Called before pods are listed: a pod that arrives in between must not count as missing.
	mayAct := c.owners.Settled(set) && set.DeletionTimestamp == nil
	selector, err := c.owners.Selectors.Of(set)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to parse the selector, ignoring the object until it changes",
			"statefulSet", klog.KObj(set))
		return nil
	}
	o, err := c.observe(ctx, set, selector)
	if err != nil {
		return err
	}
	return c.sync(ctx, o, mayAct)
}

// sync reconciles pods, status and history of a set.
func (c *statefulSetController) sync(ctx context.Context, o *observation, mayAct bool) error {
	status := countStatus(o.set, o.revisions, o.members, o.now)
	var failure error
	if mayAct {
		status, failure = c.syncPods(ctx, o)
	}
	if ctx.Err() != nil {
		// The requests were cancelled, so their errors say nothing about the pods.
		return errors.Join(context.Cause(ctx), failure)
	}
	current, err := c.report(ctx, o.set, status)
	c.checkAvailability(o.set, &status, o.members, o.now) // the retry of a failure may be later
	if failure == nil || err != nil && reconcile.IsExpected(failure) {
		failure = err
	}
	if err := c.truncateHistory(ctx, o, current); err != nil {
		return utilerrors.NewAggregate([]error{failure, err})
	}
	return failure
}

// observe lists the revisions and pods of a set, and adopts orphans among them.
func (c *statefulSetController) observe(
	ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector,
) (*observation, error) {
	listed, err := c.listRevisions(ctx, set, selector)
	if err != nil {
		return nil, err
	}
	members, err := c.claimPods(ctx, set, selector)
	if err != nil {
		return nil, err
	}
	o := &observation{set: set, now: c.Clock.Now(), members: members, history: listed}
	if o.revisions, err = c.currentRevisions(ctx, set, listed); err != nil {
		return nil, fmt.Errorf("finding the revisions of StatefulSet %s: %w", klog.KObj(set), err)
	}
	o.builder = newBuilder(set, o.revisions, c.equalities.of(set, o.update) == identical)
	return o, nil
}

// claimPods adopts and releases pods as needed and returns those of the set.
func (c *statefulSetController) claimPods(
	ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector,
) ([]*corev1.Pod, error) {
	candidates, err := c.podIndex.OwnedByOrOrphans(setKind.Kind, set)
	if err != nil {
		return nil, err
	}
	claimer := owners.ClaimerFor(c.owners, set, "Pod", selector, c.podControl.PatchFor(set))
	claimer.Filters = []func(*corev1.Pod) bool{func(pod *corev1.Pod) bool { return isMember(set, pod) }}
	return claimer.Claim(ctx, candidates)
}

// truncateHistory deletes the oldest revisions beyond the limit. Those in use by pods or the
// status do not count.
func (c *statefulSetController) truncateHistory(ctx context.Context, o *observation, current string) error {
	limit := int(ptr.Deref(o.set.Spec.RevisionHistoryLimit, defaultHistoryLimit))
	if len(o.history) <= limit {
		return nil
	}
	live := map[string]bool{current: true, o.update.Name: true}
	for _, pod := range o.members {
		live[revisionOf(pod)] = true
	}
	return c.history.DeleteAll(ctx, history.Surplus(o.history, limit, func(name string) bool { return live[name] }))
}
