package heartbeats

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// createPod makes a pod that is ready, and that leaves its node after some seconds.
func createPod(t *testing.T, namespace, name, node string, seconds int64) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{harness.Hold}}, Spec: harness.PodSpec("web")}
	pod.Spec.NodeName = node
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To(seconds),
		})
	}
	pods := admin.CoreV1().Pods(namespace)
	must.Get(pods.Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	ready := []byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","reason":"Played"}]}}`)
	must.Get(pods.Patch(t.Context(), name, types.StrategicMergePatchType, ready, metav1.PatchOptions{}, "status"))(t)
	t.Cleanup(func() {
		_, _ = pods.Patch(context.Background(), name, types.MergePatchType, []byte(harness.NoFinalizers), metav1.PatchOptions{})
		_ = pods.Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	})
}

// eventsOf returns the events of an object, as "component type reason: message".
func eventsOf(ctx context.Context, namespace string, uid types.UID) ([]string, error) {
	return (&harness.Cluster{Admin: admin}).EventsOf(ctx, namespace, uid)
}

func awaitEvent(t *testing.T, namespace string, uid types.UID, want string) {
	t.Helper()
	await.That(t, "there is the event "+want, func(ctx context.Context) error {
		got, err := eventsOf(ctx, namespace, uid)
		if err == nil && !slices.Contains(got, want) {
			err = fmt.Errorf("there are %q", got)
		}
		return err
	})
}

// Pins NLC-21, NLC-27, NLC-45, NLC-51, NLC-52, NLC-54 and NLC-67. The pod leaves by the hand of taint-eviction-controller.
func TestANodeFallsSilentAndComesBack(t *testing.T) {
	start(t, faultproxy.Start(t, plane))
	k := play(t, 10*time.Second)
	k.join("a", "n0", "n1", "n2")
	for _, name := range []string{"n0", "n1", "n2"} {
		awaitNode(t, name, "loses the taint that it was admitted with", isUntainted)
	}
	namespace := plane.Namespace(t)
	createPod(t, namespace, "short", "n0", 5)
	createPod(t, namespace, "long", "n0", 100_000)
	createPod(t, namespace, "elsewhere", "n1", 5)

	last := k.fall("n0")
	node := awaitNode(t, "n0", "is unknown", isUnknown)
	if after := clk.Since(last); after < grace {
		t.Errorf("it is after %v", after)
	}
	for _, is := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		if c := conditionOf(node, is); c.Status != corev1.ConditionUnknown || c.Reason != "NodeStatusUnknown" || c.Message != "Kubelet stopped posting node status." {
			t.Errorf("the condition is %+v", c)
		}
	}
	awaitNode(t, "n0", "is tainted", func(n *corev1.Node) bool {
		return len(n.Spec.Taints) == 2 && hasTaint(n, corev1.TaintNodeUnreachable, corev1.TaintEffectNoSchedule) && hasTaint(n, corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	})
	awaitEvent(t, "", node.UID, "node-controller Normal RegisteredNode: Node n0 event: Registered Node n0 in Controller")
	awaitEvent(t, "", node.UID, "node-controller Normal NodeNotReady: Node n0 status is now: NodeNotReady")

	pods := admin.CoreV1().Pods(namespace)
	await.That(t, "pods are not ready, and one is evicted", func(ctx context.Context) error {
		for name, leaves := range map[string]bool{"short": true, "long": false} {
			pod, err := pods.Get(ctx, name, metav1.GetOptions{})
			if err != nil || harness.IsReady(pod) || leaves != (pod.DeletionTimestamp != nil) {
				return fmt.Errorf("%s is deleted at %v, ready is %v, %w", name, pod.DeletionTimestamp, harness.IsReady(pod), err)
			}
		}
		return nil
	})
	long := must.Get(pods.Get(t.Context(), "long", metav1.GetOptions{}))(t)
	awaitEvent(t, namespace, long.UID, "node-controller Warning NodeNotReady: Node is not ready")
	if c := long.Status.Conditions[0]; c.Reason != "Played" {
		t.Errorf("the condition of the pod is %+v", c)
	}
	if pod := must.Get(pods.Get(t.Context(), "elsewhere", metav1.GetOptions{}))(t); !harness.IsReady(pod) {
		t.Error("a pod of another node was marked")
	}

	k.report("n0", corev1.ConditionFalse)
	awaitNode(t, "n0", "is tainted as not ready", func(n *corev1.Node) bool {
		return len(n.Spec.Taints) == 2 && hasTaint(n, corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule) && hasTaint(n, corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	})
	k.rise("n0")
	awaitNode(t, "n0", "is free of taints", isUntainted)
}

// Pins NLC-27, NLC-28 and NLC-29.
func TestTaintsFollowConditions(t *testing.T) {
	start(t, faultproxy.Start(t, plane))
	k := play(t, 10*time.Second)
	k.join("a", "n0")
	nodes := admin.CoreV1().Nodes()
	patch := func(body string, subresource ...string) {
		t.Helper()
		must.Get(nodes.Patch(t.Context(), "n0", types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, subresource...))(t)
	}
	awaitNode(t, "n0", "loses the taint that it was admitted with", isUntainted)
	patch(`{"spec":{"unschedulable":true,"taints":[{"key":"example.com/own","effect":"NoSchedule"}]},"metadata":{"labels":{"kubernetes.io/os":"linux"}}}`)
	patch(`{"status":{"conditions":[{"type":"MemoryPressure","status":"True"}]}}`, "status")
	awaitNode(t, "n0", "shows what it is", func(n *corev1.Node) bool {
		return len(n.Spec.Taints) == 3 && hasTaint(n, "example.com/own", corev1.TaintEffectNoSchedule) &&
			hasTaint(n, corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule) &&
			hasTaint(n, corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule) && n.Labels["beta.kubernetes.io/os"] == "linux"
	})
	patch(`{"spec":{"unschedulable":null}}`)
	patch(`{"status":{"conditions":[{"type":"MemoryPressure","status":"False"}]}}`, "status")
	awaitNode(t, "n0", "keeps only the taint of another", func(n *corev1.Node) bool { return taintsOf(n) == "example.com/own:NoSchedule " })
}

// registrations counts how often a node was announced.
func registrations(ctx context.Context, uid types.UID) (n int32, err error) {
	list, err := admin.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=RegisteredNode,involvedObject.uid=" + string(uid)})
	if err != nil {
		return 0, err
	}
	for i := range list.Items {
		n += max(1, list.Items[i].Count)
	}
	return n, nil
}

// An edit restarts the controller in the middle of a countdown. Pins NLC-91.
func TestARestartKeepsTheCountdown(t *testing.T) {
	m := start(t, faultproxy.Start(t, plane))
	k := play(t, 10*time.Second)
	k.join("a", "n0", "n1", "n2")
	node := awaitNode(t, "n0", "loses the taint that it was admitted with", isUntainted)
	awaitEvent(t, "", node.UID, "node-controller Normal RegisteredNode: Node n0 event: Registered Node n0 in Controller")
	last := k.fall("n0")
	await.That(t, "half of the grace period is over", func(context.Context) error {
		if since := clk.Since(last); since < grace/2 {
			return fmt.Errorf("only %v of it", since)
		}
		return nil
	})
	before := harness.Instances(harness.Status(t, m))
	harness.CarryOut(t, m, func(c *manager.Config) { c.Controllers.NodeLifecycle.LargeClusterSizeThreshold = ptr.To[int32](51) })
	harness.SameInstances(t, before, harness.Instances(harness.Status(t, m)), lifecycle)
	awaitNode(t, "n0", "is unknown", isUnknown)
	// With a whole new period it were at least half as much again.
	if after := clk.Since(last); after < grace || after > grace+grace/2 {
		t.Errorf("it is after %v", after)
	}
	if n, err := registrations(t.Context(), node.UID); err != nil || n != 1 {
		t.Errorf("the node was announced %d times, error %v", n, err)
	}
}

// watchNodes fails the test if a node becomes unknown or is tainted, until stop is called.
func watchNodes(t *testing.T) (stop func()) {
	t.Helper()
	list := must.Get(admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t)
	w, err := admin.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	return harness.Follow(t, w, err, func(_ watch.EventType, node *corev1.Node) error {
		if !isReady(node) || !isUntainted(node) {
			return fmt.Errorf("%s: Ready is %s, taints are %s", node.Name, conditionOf(node, corev1.NodeReady).Status, taintsOf(node))
		}
		return nil
	})
}

// Pins NLC-84 and NLC-91. The second manager has not heard of the silent node, which falls
// silent while nobody is there: it counts from its own beginning.
func TestAnotherManagerGivesEveryNodeItsGracePeriod(t *testing.T) {
	proxy := faultproxy.Start(t, plane)
	first := start(t, proxy)
	k := play(t, 10*time.Second)
	k.join("a", "n0", "n1", "n2")
	for _, name := range []string{"n0", "n1", "n2"} {
		awaitNode(t, name, "loses the taint that it was admitted with", isUntainted)
	}
	last := k.fall("n0")
	must.Succeed(t, first.Stop())
	elapse(t, last, grace+2*period)
	begun := clk.Now()
	start(t, proxy)
	awaitNode(t, "n0", "is unknown", isUnknown)
	if after := clk.Since(begun); after < grace {
		t.Errorf("it is after %v", after)
	}
	awaitNode(t, "n1", "is ready", isReady)
}

// elapse waits until an amount of time has passed since a point in time.
func elapse(t *testing.T, since time.Time, d time.Duration) {
	t.Helper()
	await.Within(t, 5*time.Minute, fmt.Sprint(d, " have passed"), func(context.Context) error {
		if passed := clk.Since(since); passed < d {
			return fmt.Errorf("only %v have", passed)
		}
		return nil
	})
}

// The kubelets renew all the time, but the manager does not hear of it. Pins NLC-84.
func TestAManagerThatHearsNothingTaintsNobody(t *testing.T) {
	const grace, renewal = 25 * time.Second, 5 * time.Second // shorter than the defaults: it takes several of them
	leases := faultproxy.Requests{Verbs: []string{"watch"}, Resource: coordination}
	for name, cut := range map[string]func(*faultproxy.Proxy) *faultproxy.Fault{
		"no connection is answered": func(p *faultproxy.Proxy) *faultproxy.Fault { return p.Pause() },
		"every request is refused, and connections are cut": func(p *faultproxy.Proxy) *faultproxy.Fault {
			f := p.Refuse(faultproxy.Requests{}, unavailable)
			p.Cut()
			return f
		},
		"only the watch of Leases hangs": func(p *faultproxy.Proxy) *faultproxy.Fault { return p.HoldEvents(leases) },
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			proxy := faultproxy.Start(t, plane)
			start(t, proxy, func(c *manager.Config) {
				c.Controllers.NodeLifecycle.NodeMonitorGracePeriod = &metav1.Duration{Duration: grace}
			})
			k := play(t, renewal)
			k.join("a", "n0", "n1")
			k.join("b", "n2")
			for _, name := range []string{"n0", "n1", "n2"} {
				awaitNode(t, name, "loses the taint that it was admitted with", isUntainted)
			}
			stop := watchNodes(t)
			defer stop()
			fault := cut(proxy)
			elapse(t, clk.Now(), 2*grace)
			fault.Lift()
			back := clk.Now()
			elapse(t, back, grace-period)
			stop()
			k.fall("n0")
			awaitNode(t, "n0", "is unknown", isUnknown) // it works again
			if after := clk.Since(back); after < grace {
				t.Errorf("it is %v after the manager is back", after)
			}
			awaitNode(t, "n2", "is ready", isReady)
		})
	}
}
