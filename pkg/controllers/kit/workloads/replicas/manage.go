package replicas

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// manage creates missing pods or deletes surplus ones, and returns the first failure (reconcile.Worst).
func (e *Engine[T]) manage(ctx context.Context, owner T, active []*corev1.Pod) error {
	missing := int(e.kind.Spec(owner).Replicas) - len(active)
	if missing == 0 {
		return nil
	}
	if err := e.scale(ctx, owner, active, missing); err != nil {
		return err
	}
	e.owners.Writes.CountsChange(owner)
	return nil
}

func (e *Engine[T]) scale(ctx context.Context, owner T, active []*corev1.Pod, missing int) error {
	logger := klog.FromContext(ctx)
	if missing > 0 {
		n := min(missing, burst)
		logger.V(2).Info("Too few replicas", "owner", klog.KObj(owner), "missing", missing, "creating", n)
		return e.create(ctx, owner, n)
	}
	n := min(-missing, burst)
	logger.V(2).Info("Too many replicas", "owner", klog.KObj(owner), "surplus", -missing, "deleting", n)
	return e.delete(ctx, owner, e.chooseVictims(ctx, owner, active, n))
}

func (e *Engine[T]) create(ctx context.Context, owner T, n int) error {
	template := e.kind.Template(owner)
	ref := metav1.NewControllerRef(owner, e.kind.GroupVersionKind)
	errs := e.podControl.CreateAll(ctx, owner, ref, n, func(int) *corev1.PodTemplateSpec { return template })
	return reconcile.Worst(errs...)
}

func (e *Engine[T]) delete(ctx context.Context, owner T, victims []*corev1.Pod) error {
	return reconcile.Worst(e.podControl.DeleteAll(ctx, owner, victims)...)
}

// chooseVictims returns the n active pods to delete. It may reorder the slice.
func (e *Engine[T]) chooseVictims(ctx context.Context, owner T, active []*corev1.Pod, n int) []*corev1.Pod {
	if n >= len(active) {
		return active
	}
	now := e.clock.Now()
	pods.Preference{Rank: e.rank(ctx, owner), Now: now, DeletionCost: e.options.DeletionCost}.Sort(active)
	if e.options.OnAgeRatio != nil {
		for _, ratio := range ageRatios(active, n, now) {
			e.options.OnAgeRatio(ratio)
		}
	}
	return active[:n]
}

// rank returns a function that counts the active related pods on the node of a pod, nil if the
// kind has none.
func (e *Engine[T]) rank(ctx context.Context, owner T) func(*corev1.Pod) int {
	if e.kind.RelatedByNode == nil {
		return nil
	}
	byNode, err := e.kind.RelatedByNode(owner)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to list related pods, ignoring them in the deletion order", "owner", klog.KObj(owner))
		return nil
	}
	return func(pod *corev1.Pod) int { return byNode[pod.Spec.NodeName] }
}

// ageRatios returns, for each ready pod among the first n, its age in multiples of the age of
// the youngest ready pod, truncated to whole numbers. It returns none if the youngest is less
// than a millisecond old.
func ageRatios(active []*corev1.Pod, n int, now time.Time) []float64 {
	var youngest time.Time
	for _, pod := range active {
		if pods.IsReady(pod) && pod.CreationTimestamp.After(youngest) {
			youngest = pod.CreationTimestamp.Time
		}
	}
	unit := now.Sub(youngest).Milliseconds()
	if unit == 0 {
		return nil
	}
	var ratios []float64
	for _, pod := range active[:n] {
		if pods.IsReady(pod) {
			ratios = append(ratios, float64(now.Sub(pod.CreationTimestamp.Time).Milliseconds()/unit))
		}
	}
	return ratios
}
