package daemonset

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// burst is the largest number of pods created, and of pods deleted, in one reconcile. Their
// events cause the reconciles that handle the rest.
const burst = 250

// apply executes a plan. It deletes pods even if creating others failed.
func (c *daemonSetController) apply(ctx context.Context, o *observation, b *blueprint, p plan) error {
	for _, event := range p.events {
		c.Record(event)
	}
	c.enqueueAfter(o.ds, p.retry)
	if p.empty() {
		return nil
	}
	loose := o.loose()
	if loose > 0 && len(p.create) > 0 {
		c.Record(loosePods(o.ds, loose))
	}
	// Each of these pods would be missed on its node again and again, and so may be no more than there are nodes.
	nodes := take(turned(p.create, o.retries), min(burst, len(p.create)-loose))
	victims := take(turned(p.delete, o.retries), burst)
	klog.FromContext(ctx).V(2).Info("Changing pods",
		"daemonSet", klog.KObj(o.ds), "create", len(nodes), "delete", len(victims))
	return outcome(append(c.create(ctx, o, b, nodes), c.podControl.DeleteAll(ctx, o.ds, victims)...))
}

// outcome joins the errors of all creations and deletions into the error of the reconcile.
func outcome(all []error) error {
	errs := pods.Failures(all)
	isUncertain := func(err error) bool { return errors.Is(err, writes.ErrUncertain) }
	if _, only := controller.StoppedIn(utilerrors.NewAggregate(errs)); only && slices.ContainsFunc(all, isUncertain) {
		return reconcile.AwaitCache(utilerrors.NewAggregate(all)) // creations do not wait for the breaker
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return utilerrors.NewAggregate(errs)
}

func (c *daemonSetController) create(ctx context.Context, o *observation, b *blueprint, nodes []string) []error {
	if len(nodes) == 0 {
		return nil
	}
	template := b.podTemplate(o.ds, o.hash)
	ref := metav1.NewControllerRef(o.ds, daemonSetKind)
	return c.podControl.CreateAll(ctx, o.ds, ref, len(nodes), func(i int) *corev1.PodTemplateSpec {
		pinned := *template
		pinned.Spec.Affinity = pin(template.Spec.Affinity, nodes[i])
		return &pinned
	})
}
