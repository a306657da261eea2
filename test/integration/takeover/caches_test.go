package takeover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/await"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/must"
)

// TestAControllerWaitsForCachesItReadsThroughListersOnly restarts a manager in the middle of
// the rollout of a StatefulSet, with the ControllerRevisions late. No handler is on those.
func TestAControllerWaitsForCachesItReadsThroughListersOnly(t *testing.T) {
	const lease = "late-caches"
	first := join(t, lease)
	first.leads(t)
	namespace := plane.Namespace(t)
	rollOutStatefulSet(t, namespace)
	await.That(t, "the rollout has reached the partition", func(ctx context.Context) error { return statefulSetRolledOut(ctx, namespace) })
	must.Succeed(t, first.Stop())

	revisions := faultproxy.Requests{Resource: schema.GroupResource{Group: appsv1.GroupName, Resource: "controllerrevisions"}, Verbs: []string{"list", "watch"}}
	p := faultproxy.Start(t, plane)
	held := p.HoldRequests(revisions)
	second := &replica{Process: begin(t, p, lease), proxy: p}
	second.leads(t)
	await.That(t, "the controller says what it waits for", func(ctx context.Context) error {
		c, err := second.Controller(ctx, "statefulset-controller")
		if err != nil {
			return err
		}
		if want := "the cache of controllerrevisions.apps is not complete"; !strings.Contains(c.Reason, want) {
			return fmt.Errorf("its reason is %q", c.Reason)
		}
		return nil
	})
	// Every pod below the partition that goes is made again: from which revision is the test.
	pods := plane.AdminClient().CoreV1().Pods(namespace)
	must.Succeed(t, pods.Delete(t.Context(), "web-0", metav1.DeleteOptions{}))
	if s, err := second.Controller(t.Context(), "statefulset-controller"); err != nil || len(s.Loops) == 0 || s.Loops[0].Reconciled > 0 {
		t.Errorf("it works without revisions: %+v, %v", s.Loops, err)
	}
	held.Lift()
	await.That(t, "the pod is back", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "web-0", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if image := pod.Spec.Containers[0].Image; image != "a" {
			t.Fatalf("the pod below the partition has image %q", image)
		}
		if pod.DeletionTimestamp != nil {
			return errors.New("it is being deleted")
		}
		return statefulSetRolledOut(ctx, namespace)
	})
}
