package promises

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/breaker"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// orphans is how many objects there are of the kind of these tests, which no other test uses.
const orphans = 120

// limited lets half of the objects of a kind be deleted.
func limited(mode string) func(*manager.Config) {
	return harness.All(harness.Settle(10*time.Millisecond), func(c *manager.Config) {
		c.DeletionBreaker = v1beta1.DeletionBreaker{
			Mode: mode, Share: ptr.To(int32(50)), Minimum: ptr.To(int32(50)), Window: &metav1.Duration{Duration: time.Hour},
		}
	})
}

// createTemplates creates objects which, as after a restore of etcd from an old backup, have owners
// that do not exist; or no owners.
func createTemplates(t *testing.T, namespace string, owned bool) {
	t.Helper()
	for i := range orphans {
		template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("t-", i)}, Template: harness.PodTemplate("app", "image")}
		if owned {
			template.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprint("lost-", i), UID: uuid.NewUUID()}}
		}
		must.Get(plane.AdminClient().CoreV1().PodTemplates(namespace).Create(t.Context(), template, metav1.CreateOptions{}))(t)
	}
}

// templatesLeft waits until there are so many objects left.
func templatesLeft(t *testing.T, namespace string, want int) {
	t.Helper()
	await.That(t, fmt.Sprintf("%d objects are left", want), func(ctx context.Context) error {
		list, err := plane.AdminClient().CoreV1().PodTemplates(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != want {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		return nil
	})
}

// templatesStopped waits until deletions of the kind are stopped, and keys of a controller wait.
func templatesStopped(t *testing.T, m *manager.Manager, controller string, keys func(breaker.Stop) int) breaker.Stop {
	t.Helper()
	var stop breaker.Stop
	harness.Wait(t, m, "deletions are stopped", func(s *runtime.Status) error {
		found := false
		for _, one := range s.Deletions.Stops {
			if one.Resource == "podtemplates" {
				stop, found = one, true
			}
		}
		waiting, busy := 0, 0
		for _, l := range harness.ControllerOf(s, controller).Loops {
			waiting += l.Stopped
			busy += l.Depth + len(l.InFlight)
		}
		if !found || waiting != keys(stop) || busy > 0 {
			return fmt.Errorf("stopped: %+v; %d keys wait, %d are worked on", s.Deletions.Stops, waiting, busy)
		}
		return nil
	})
	return stop
}

// allowDeletions lets deletions go on, as the message of the breaker asks for.
func allowDeletions(t *testing.T, m *manager.Manager) {
	t.Helper()
	harness.Edit(t, m, func(c *manager.Config) {
		c.DeletionBreaker.AllowUntil = time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	})
}

func shows(t *testing.T, m *manager.Manager, path, part string) {
	t.Helper()
	if text := string(must.Get(m.Get(t.Context(), path))(t)); !strings.Contains(text, part) {
		t.Errorf("%s does not show %q", path, part)
	}
}

// After a restore of etcd, dependents exist whose owners are lost. The garbage collector deletes its
// share of them and asks; one edit has it delete the rest.
func TestTheGarbageCollectorAsksBeforeItDeletesTheRestOfAKind(t *testing.T) {
	namespace := plane.Namespace(t)
	createTemplates(t, namespace, true)
	m := start(t, limited(v1beta1.DeletionsStop))
	stop := templatesStopped(t, m, collector, func(s breaker.Stop) int { return orphans - s.Deleted })
	templatesLeft(t, namespace, orphans-stop.Deleted)
	// The cache can be behind, and so show more objects than there are.
	if stop.Deleted < orphans/2 || stop.Deleted > orphans/2+10 || stop.Deleted != stop.Limit || stop.Controller != collector {
		t.Errorf("it was stopped by %+v", stop)
	}
	before := harness.Status(t, m)
	if got := harness.ControllerOf(&before, collector).Reason; !strings.Contains(got, "keys wait until deletions go on (deletionBreaker)") {
		t.Errorf("the controller shows %q", got)
	}
	shows(t, m, "/metrics", `kcmd_deletions_stopped_since_timestamp_seconds{group="",resource="podtemplates"}`)
	shows(t, m, "/statusz", stop.Reason())
	leaseEvent(t, "DeletionsStopped", stop.Reason()+". If that is intended, set deletionBreaker.allowUntil")

	allowDeletions(t, m)
	templatesLeft(t, namespace, 0)
	leaseEvent(t, "DeletionsResumed", "podtemplates")
	after := harness.Status(t, m)
	if len(after.Deletions.Stops) != 0 || after.Deletions.AllowedUntil.IsZero() {
		t.Errorf("the status is %+v", after.Deletions)
	}
	harness.SameInstances(t, harness.Instances(before), harness.Instances(after))
}

func TestTheGarbageCollectorIsOnlyReportedInTheModeWarn(t *testing.T) {
	namespace := plane.Namespace(t)
	createTemplates(t, namespace, true)
	m := start(t, limited(v1beta1.DeletionsWarn))
	templatesLeft(t, namespace, 0)
	leaseEvent(t, "DeletionsExceeded", "Deletions of podtemplates go on, since the mode of deletionBreaker is Warn: "+collector+" was about to delete")
	shows(t, m, "/metrics", `kcmd_deletions_exceeded_timestamp_seconds{group="",resource="podtemplates"}`)
	if s := harness.Status(t, m); len(s.Deletions.Stops) != 0 {
		t.Errorf("stopped are %+v", s.Deletions.Stops)
	}
}

// All objects of a kind in a namespace are deleted by one request, which is refused as a whole.
func TestANamespaceThatHoldsTooMuchOfAKindIsNotEmptiedBeforeThatIsConfirmed(t *testing.T) {
	namespace := plane.Namespace(t)
	createTemplates(t, namespace, false)
	m := start(t, limited(v1beta1.DeletionsStop))
	settled(t, m)
	core := plane.AdminClient().CoreV1()
	must.Succeed(t, core.Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}))
	stop := templatesStopped(t, m, "namespace-controller", func(breaker.Stop) int { return 1 })
	if stop.Next != orphans || stop.Deleted != 0 {
		t.Errorf("it was stopped by %+v", stop)
	}
	templatesLeft(t, namespace, orphans)
	ns := must.Get(core.Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}))(t)
	if conditions := strings.Join(harness.NamespaceConditions(ns), "\n"); !strings.Contains(conditions, stop.Reason()) {
		t.Errorf("the namespace shows\n%s", conditions)
	}
	allowDeletions(t, m)
	await.That(t, "the namespace is gone", func(ctx context.Context) error {
		_, err := core.Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it exists: %w", err)
		}
		return nil
	})
}
