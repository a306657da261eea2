package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	kcmruntime "kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const maintenance = "example.com/maintenance"

// ownNode makes a node without a kubelet, which nobody else uses.
func ownNode(t *testing.T, name string) {
	t.Helper()
	must.Get(admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		_ = admin.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
}

func setTaints(t *testing.T, node string, taints ...corev1.Taint) {
	t.Helper()
	patch := must.Get(json.Marshal(map[string]any{"spec": map[string]any{"taints": taints}}))(t)
	must.Get(admin.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}))(t)
}

// tolerating makes a pod on a node, which a finalizer keeps when it is deleted.
func tolerating(t *testing.T, namespace, node, name string, seconds ...int64) *corev1.Pod {
	t.Helper()
	return cluster.CreatePod(t, namespace, name, "web", func(p *corev1.Pod) {
		p.Spec.NodeName, p.Finalizers = node, []string{harness.Hold}
		t.Cleanup(func() {
			_, _ = admin.CoreV1().Pods(namespace).Patch(context.Background(), name, types.MergePatchType, []byte(harness.NoFinalizers), metav1.PatchOptions{})
		})
		if seconds == nil {
			return
		}
		toleration := corev1.Toleration{Key: maintenance, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
		if seconds[0] > 0 {
			toleration.TolerationSeconds = ptr.To(seconds[0])
		}
		p.Spec.Tolerations = []corev1.Toleration{toleration}
	})
}

// without is for tolerating: without a limit.
const without = -1

func getPod(t *testing.T, namespace, name string) *corev1.Pod {
	t.Helper()
	return must.Get(admin.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
}

func awaitEvicted(t *testing.T, namespace, name string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	await.That(t, name+" is being deleted", func(ctx context.Context) (err error) {
		if pod, err = admin.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); apierrors.IsNotFound(err) || err != nil {
			return err
		}
		if pod.DeletionTimestamp == nil {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	return pod
}

// The times are those of the clock of the manager, which runs eight times as fast.
//
// Pins TAINT-16, TAINT-17d, TAINT-20, TAINT-22, TAINT-23 and TAINT-42.
func TestPodsAreEvictedFromATaintedNode(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	ownNode(t, "evicting")
	intolerant := tolerating(t, namespace, "evicting", "intolerant")
	patient := tolerating(t, namespace, "evicting", "patient", 60)
	tolerating(t, namespace, "evicting", "tolerant", without)
	setTaints(t, "evicting", corev1.Taint{Key: maintenance, Effect: corev1.TaintEffectNoExecute})

	pod := awaitEvicted(t, namespace, "intolerant")
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
	if i < 0 {
		t.Fatalf("conditions are %+v", pod.Status.Conditions)
	}
	if c := pod.Status.Conditions[i]; c.Status != corev1.ConditionTrue || c.Reason != "DeletionByTaintManager" || c.ObservedGeneration != intolerant.Generation ||
		c.Message != "Taint manager: deleting due to NoExecute taint" {
		t.Errorf("the condition is %+v", c)
	}
	if pod := getPod(t, namespace, "patient"); pod.DeletionTimestamp != nil {
		t.Error("a pod is evicted before its time")
	}
	awaitEvicted(t, namespace, "patient")
	if pod := getPod(t, namespace, "tolerant"); pod.DeletionTimestamp != nil {
		t.Error("a pod is evicted that tolerates the taint")
	}
	awaitEvent(t, namespace, "Marking for deletion Pod "+namespace+"/"+patient.Name)

	late := tolerating(t, namespace, "evicting", "late", 100_000)
	await.That(t, "the time of a late pod is counted and cancelled", func(ctx context.Context) error {
		setTaints(t, "evicting", corev1.Taint{Key: maintenance, Effect: corev1.TaintEffectNoExecute})
		setTaints(t, "evicting")
		return hasEvent(ctx, namespace, "Cancelling deletion of Pod "+namespace+"/"+late.Name)
	})
}

// By its generation, a pod that was bound is told from one that was changed. Pins TAINT-40.
func TestBindingAPodIsNoChangeOfItsGeneration(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	ownNode(t, "binding")
	pod := cluster.CreatePod(t, namespace, "bound", "web", func(p *corev1.Pod) { p.Spec.SchedulerName = "nobody" })
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "binding"}}
	must.Succeed(t, admin.CoreV1().Pods(namespace).Bind(t.Context(), binding, metav1.CreateOptions{}))
	pod = getPod(t, namespace, pod.Name)
	scheduled := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero()
	})
	if pod.Generation != 1 || pod.Spec.NodeName != "binding" || !scheduled {
		t.Errorf("generation %d, on %q, %+v", pod.Generation, pod.Spec.NodeName, pod.Status.Conditions)
	}
	tolerations := must.Get(json.Marshal(append(pod.Spec.Tolerations, corev1.Toleration{Key: maintenance, Operator: corev1.TolerationOpExists})))(t)
	cluster.PatchPod(t, namespace, pod.Name, fmt.Sprintf(`{"spec":{"tolerations":%s}}`, tolerations))
	if pod = getPod(t, namespace, pod.Name); pod.Generation != 2 {
		t.Errorf("generation %d after its tolerations changed", pod.Generation)
	}
}

// awaitEvent waits for an event. It names a pod, but not its UID.
func awaitEvent(t *testing.T, namespace, message string) {
	t.Helper()
	await.That(t, "there is an event: "+message, func(ctx context.Context) error { return hasEvent(ctx, namespace, message) })
}

func hasEvent(ctx context.Context, namespace, message string) error {
	list, err := admin.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=TaintManagerEviction"})
	if err != nil {
		return err
	}
	for i := range list.Items {
		e := &list.Items[i]
		if e.Message == message && e.Type == corev1.EventTypeNormal && e.InvolvedObject.Kind == "Pod" && e.InvolvedObject.UID == "" && e.Source.Component == "taint-eviction-controller" {
			return nil
		}
	}
	return fmt.Errorf("there are %d others", len(list.Items))
}

// Pins TAINT-40. An edit that restarts the controller stops neither clock: what was to be evicted
// is, and what was not is not.
func TestARestartContinuesCountdowns(t *testing.T) {
	namespace := cluster.Namespace(t)
	ownNode(t, "restarting")
	tolerating(t, namespace, "restarting", "soon", 60)
	tolerating(t, namespace, "restarting", "much-later", 100_000)
	setTaints(t, "restarting", corev1.Taint{Key: maintenance, Effect: corev1.TaintEffectNoExecute})
	before := harness.Instances(harness.Status(t, cluster.Manager))["taint-eviction-controller"]
	harness.Edit(t, cluster.Manager, func(c *manager.Config) { c.FeatureGates["TaintTolerationComparisonOperators"] = true })
	await.That(t, "the controller was restarted", func(context.Context) error {
		if after := harness.Instances(harness.Status(t, cluster.Manager))["taint-eviction-controller"]; after == before {
			return fmt.Errorf("it is the same: %+v", after)
		}
		return nil
	})
	awaitEvicted(t, namespace, "soon")
	if pod := getPod(t, namespace, "much-later"); pod.DeletionTimestamp != nil {
		t.Error("a pod is evicted before its time")
	}
	if err := hasEvent(t.Context(), namespace, "Cancelling deletion of Pod "+namespace+"/much-later"); err == nil {
		t.Error("the restart cancelled a countdown")
	}
}

// An emulated version in which pods can be evicted as a part of node-lifecycle-controller does so, and
// evicts nothing without that controller. Pins NLC-90 and TAINT-49.
func TestEvictionsCanBelongToNodeLifecycle(t *testing.T) {
	namespace := cluster.Namespace(t)
	setLifecycle := func(on bool) {
		must.Succeed(t, cluster.Manager.Edit(t.Context(), func(c *manager.Config) { c.Controllers.NodeLifecycle.Enabled = &on }))
	}
	cluster.Restore(t, configure)
	cluster.Emulate(t, "1.33", map[string]bool{"SeparateTaintEvictionController": false})
	harness.Wait(t, cluster.Manager, "taint-eviction-controller stops without node-lifecycle-controller", func(s *kcmruntime.Status) error {
		if c := harness.ControllerOf(s, "taint-eviction-controller"); c.Pending || c.State == supervisor.Running || c.State == supervisor.Stopping {
			return fmt.Errorf("it is %s", c.State)
		}
		return nil
	})
	ownNode(t, "together")
	tolerating(t, namespace, "together", "intolerant")
	setTaints(t, "together", corev1.Taint{Key: maintenance, Effect: corev1.TaintEffectNoExecute})
	setLifecycle(true)
	awaitEvicted(t, namespace, "intolerant")
	setLifecycle(false)
}
