package promises

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/pausing"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const collector = "garbage-collector-controller"

// scale sets the replicas of the deployment that createDeployment creates.
func scale(t *testing.T, namespace string, replicas int) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	must.Get(plane.AdminClient().AppsV1().Deployments(namespace).Patch(t.Context(), "idle", types.MergePatchType, patch, metav1.PatchOptions{}))(t)
}

// podsIn waits until a namespace has some pods, and returns one of them.
func podsIn(t *testing.T, namespace string, want int) (name string) {
	t.Helper()
	await.That(t, fmt.Sprintf("%d pods are in namespace %s", want, namespace), func(ctx context.Context) error {
		pods, err := plane.AdminClient().CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(pods.Items) != want {
			return fmt.Errorf("there are %d", len(pods.Items))
		}
		for _, pod := range pods.Items {
			name = pod.Name
		}
		return nil
	})
	return name
}

// scaledUp waits until the events are there that report the first replica of the deployment that createDeployment
// creates. They are written on their own, later than what they report.
func scaledUp(t *testing.T, namespace string) {
	t.Helper()
	await.That(t, "the events of the first replica are there", func(ctx context.Context) error {
		events, err := plane.AdminClient().CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var got []string
		for _, e := range events.Items {
			got = append(got, e.Reason)
		}
		if !slices.Contains(got, "ScalingReplicaSet") || !slices.Contains(got, "SuccessfulCreate") {
			return fmt.Errorf("there are %q", got)
		}
		return nil
	})
}

// createOwned creates a ConfigMap that another one owns.
func createOwned(t *testing.T, namespace string) {
	t.Helper()
	maps := plane.AdminClient().CoreV1().ConfigMaps(namespace)
	owner := must.Get(maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{}))(t)
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID},
	}}}
	must.Get(maps.Create(t.Context(), owned, metav1.CreateOptions{}))(t)
}

// heldBack waits until keys of controllers wait for the end of a pause, and nothing is queued.
func heldBack(t *testing.T, m *manager.Manager, controllers ...string) {
	t.Helper()
	harness.Wait(t, m, "keys are held back", func(s *runtime.Status) error {
		for _, name := range controllers {
			held := 0
			for _, l := range harness.ControllerOf(s, name).Loops {
				held += l.Held
			}
			if held == 0 {
				return fmt.Errorf("%s holds no key back", name)
			}
		}
		return harness.QueuesAreEmpty(s)
	})
}

// sentSince are the requests that the manager has sent since a mark.
func sentSince(t *testing.T, mark controlplane.Mark, filters ...controlplane.Filter) []string {
	t.Helper()
	var all []string
	for _, e := range must.Get(plane.Audit().Since(mark, append(filters, controlplane.ByUserAgent("kube-controller-manager/"))...))(t) {
		all = append(all, e.Verb+" "+e.RequestURI+" by "+e.UserAgent)
	}
	return all
}

// ofCaches passes the beginning of lists and watches. It leaves out those of namespace-controller,
// which lists what is in the namespaces that earlier tests have deleted.
func ofCaches(e *auditv1.Event) bool {
	begins := e.Verb == "list" || e.Stage == auditv1.StageResponseStarted // a watch that ended may be an earlier manager's
	return begins && !strings.HasSuffix(e.UserAgent, "namespace-controller")
}

// settled waits until a manager has read all it reads when it starts, and has nothing to do.
func settled(t *testing.T, m *manager.Manager) {
	t.Helper()
	harness.Wait(t, m, "the manager has nothing to do", func(s *runtime.Status) error {
		for _, check := range []func(*runtime.Status) error{harness.CachesFilled, harness.LoopsBegan, harness.QueuesAreEmpty} {
			if err := check(s); err != nil {
				return err
			}
		}
		return nil
	})
}

// refuseRequests fails if the manager has sent requests of a kind since a mark.
func refuseRequests(t *testing.T, mark controlplane.Mark, what string, filters ...controlplane.Filter) {
	t.Helper()
	for _, request := range sentSince(t, mark, filters...) {
		t.Errorf("%s: %s", what, request)
	}
}

// leaseEvent waits for an event on the lease of the test.
func leaseEvent(t *testing.T, reason, message string) {
	t.Helper()
	await.That(t, "the event "+reason, func(ctx context.Context) error {
		events, err := plane.AdminClient().CoreV1().Events(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + harness.LeaseOf(t)})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == reason && strings.Contains(e.Message, message) {
				return nil
			}
		}
		return fmt.Errorf("not among %d events", len(events.Items))
	})
}

// In a paused namespace nothing is written, whoever would write it. Nothing restarts or is read
// again for that, other namespaces are worked on, and the backlog is worked off on resume.
func TestAPausedNamespaceIsLeftAlone(t *testing.T) {
	m := start(t, harness.Settle(10*time.Millisecond))
	shop, other := plane.Namespace(t), plane.Namespace(t)
	for _, namespace := range []string{shop, other} {
		createDeployment(t, namespace)
		scale(t, namespace, 1)
	}
	pod := podsIn(t, shop, 1)
	podsIn(t, other, 1)
	scaledUp(t, shop)
	createOwned(t, shop)
	settled(t, m)
	before := harness.Status(t, m)

	harness.Edit(t, m, func(c *manager.Config) { c.PausedNamespaces = []string{shop} })
	mark := must.Get(plane.Audit().Mark())(t)
	core := plane.AdminClient().CoreV1()
	scale(t, shop, 3)
	scale(t, other, 2)
	must.Succeed(t, core.Pods(shop).Delete(t.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	must.Succeed(t, core.ConfigMaps(shop).Delete(t.Context(), "owner", metav1.DeleteOptions{}))
	must.Succeed(t, core.ConfigMaps(shop).Delete(t.Context(), "kube-root-ca.crt", metav1.DeleteOptions{}))
	podsIn(t, other, 2)
	heldBack(t, m, deployment, replicaSet, collector, rootCA)
	podsIn(t, shop, 0)

	paused := harness.Status(t, m)
	if got := pausing.List(paused.Pauses); got != "all controllers in namespace "+shop {
		t.Errorf("the status shows as paused: %s", got)
	}
	if text := string(must.Get(m.Get(t.Context(), "/metrics"))(t)); !strings.Contains(text, `kcmd_paused_since_timestamp_seconds{name="",namespace="`+shop+`"}`) {
		t.Error("/metrics does not show the pause")
	}
	leaseEvent(t, "Paused", "all controllers in namespace "+shop)
	refuseRequests(t, mark, "written into the paused namespace", controlplane.Writes(), controlplane.ByNamespace(shop))
	if len(sentSince(t, mark, controlplane.Writes(), controlplane.ByNamespace(other))) == 0 {
		t.Error("the audit log shows no writes into the other namespace: the test looks for the wrong ones")
	}

	harness.Edit(t, m, func(c *manager.Config) { c.PausedNamespaces = nil })
	podsIn(t, shop, 3)
	await.That(t, "the backlog of other controllers is worked off", func(ctx context.Context) error {
		if _, err := core.ConfigMaps(shop).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{}); err != nil {
			return err
		}
		if _, err := core.ConfigMaps(shop).Get(ctx, "owned", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the dependent exists: %w", err)
		}
		return nil
	})
	leaseEvent(t, "Resumed", "all controllers in namespace "+shop)
	harness.SameInstances(t, harness.Instances(before), harness.Instances(harness.Status(t, m)))
	refuseRequests(t, mark, "read again", controlplane.ByVerb("list", "watch"), ofCaches)
}

// A paused namespace that is deleted keeps what is in it until the pause ends.
func TestAPausedNamespaceIsNotEmptied(t *testing.T) {
	m := start(t, harness.Settle(10*time.Millisecond))
	doomed := plane.Namespace(t)
	createOwned(t, doomed)
	settled(t, m)
	harness.Edit(t, m, func(c *manager.Config) { c.PausedNamespaces = []string{doomed} })
	mark := must.Get(plane.Audit().Mark())(t)
	core := plane.AdminClient().CoreV1()
	must.Succeed(t, core.Namespaces().Delete(t.Context(), doomed, metav1.DeleteOptions{}))
	heldBack(t, m, "namespace-controller")
	must.Get(core.ConfigMaps(doomed).Get(t.Context(), "owned", metav1.GetOptions{}))(t)
	refuseRequests(t, mark, "written into the paused namespace", controlplane.Writes(), controlplane.ByNamespace(doomed))
	refuseRequests(t, mark, "written to the Namespace", controlplane.Writes(), func(e *auditv1.Event) bool {
		return e.ObjectRef != nil && e.ObjectRef.Resource == "namespaces" && e.ObjectRef.Name == doomed
	})
	harness.Edit(t, m, func(c *manager.Config) { c.PausedNamespaces = nil })
	await.That(t, "the namespace is gone", func(ctx context.Context) error {
		_, err := core.Namespaces().Get(ctx, doomed, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it exists: %w", err)
		}
		return nil
	})
}

// One controller is paused in a namespace, and the others work there.
func TestAControllerIsPausedInANamespace(t *testing.T) {
	m := start(t, func(c *manager.Config) {
		harness.Settle(10 * time.Millisecond)(c)
		c.Controllers.Deployment.PausedNamespaces = []string{"elsewhere"}
	})
	shop := plane.Namespace(t)
	createDeployment(t, shop)
	scale(t, shop, 1)
	pod := podsIn(t, shop, 1)
	harness.Edit(t, m, func(c *manager.Config) { c.Controllers.Deployment.PausedNamespaces = []string{"elsewhere", shop} })
	scale(t, shop, 2)
	heldBack(t, m, deployment)
	must.Succeed(t, plane.AdminClient().CoreV1().Pods(shop).Delete(t.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	await.That(t, "replicaset-controller replaces the pod", func(ctx context.Context) error {
		_, err := plane.AdminClient().CoreV1().Pods(shop).Get(ctx, pod, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the pod exists: %w", err)
		}
		return nil
	})
	podsIn(t, shop, 1)
	harness.Edit(t, m, func(c *manager.Config) { c.Controllers.Deployment.PausedNamespaces = nil })
	podsIn(t, shop, 2)
}

// A paused controller has no instance and writes nothing, and its caches stay.
func TestAPausedControllerKeepsItsCaches(t *testing.T) {
	m := start(t, harness.Settle(10*time.Millisecond))
	shop := plane.Namespace(t)
	createDeployment(t, shop)
	scale(t, shop, 1)
	podsIn(t, shop, 1)
	scaledUp(t, shop)
	settled(t, m)
	before := harness.Status(t, m)
	mark := must.Get(plane.Audit().Mark())(t)
	harness.Edit(t, m, func(c *manager.Config) { c.Controllers.Deployment.Paused = ptr.To(true) })
	state := func(want supervisor.State) func(*runtime.Status) error {
		return func(s *runtime.Status) error {
			if c := harness.ControllerOf(s, deployment); c.State != want || c.Pending {
				return fmt.Errorf("it is %s, %s", c.State, c.Reason)
			}
			return nil
		}
	}
	s := harness.Wait(t, m, "the controller is paused", state(supervisor.Paused))
	if got := s.Reloads[len(s.Reloads)-1]; got.Plan.Controller(deployment) != plan.Pause || len(got.Deviations) != 0 {
		t.Errorf("planned %s, deviations %v", got.Plan, got.Deviations)
	}
	whilePaused := must.Get(plane.Audit().Mark())(t)
	scale(t, shop, 2)
	controllersWork(t)
	byIt := func(e *auditv1.Event) bool { return strings.HasSuffix(e.UserAgent, deployment) }
	refuseRequests(t, whilePaused, "sent while it is paused", byIt)
	harness.Edit(t, m, func(c *manager.Config) { c.Controllers.Deployment.Paused = nil })
	harness.Wait(t, m, "the controller runs", state(supervisor.Running))
	podsIn(t, shop, 2)
	if len(sentSince(t, whilePaused, byIt)) == 0 {
		t.Error("the audit log shows no requests of the resumed controller: the test looks for the wrong ones")
	}
	harness.SameInstances(t, harness.Instances(before), harness.Instances(harness.Status(t, m)), deployment)
	refuseRequests(t, mark, "read again", controlplane.ByVerb("list", "watch"), ofCaches)
}
