package workloads

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// replicas is what ReplicaSet and ReplicationController have in common.
type replicas struct {
	Name            string
	Replicas        int32
	MinReadySeconds int32
	Template        corev1.PodTemplateSpec

	// Set by the API server and the controller.
	UID                                     types.UID
	Generation, ObservedGeneration          int64
	Current, FullyLabeled, Ready, Available int32
	Terminating                             *int32 // nil for a ReplicationController
	Conditions                              []string
}

// replicaKind is one of the two kinds.
type replicaKind struct {
	Kind      string
	Component string // of events
	Create    func(ctx context.Context, namespace string, r *replicas) error
	Get       func(ctx context.Context, namespace, name string) (*replicas, error)
	Patch     func(ctx context.Context, namespace, name, patch string) error
	Delete    func(ctx context.Context, namespace, name string) error
}

// behaviour is a test of either kind.
type behaviour struct {
	name string
	test func(*testing.T, replicaKind)
}

// replicaBehaviours are the same for both kinds.
var replicaBehaviours = []behaviour{
	{"Scales", testScales},
	{"RS-16, RC-12: AdoptsAndReleases", testAdoptsAndReleases},
	{"RS-23, RC-12: ReplacesPods", testReplacesPods},
	{"RS-24, RC-12: DeletesTheRightPods", testDeletesTheRightPods},
	{"RS-21, RC-12: WaitsMinReadySeconds", testWaitsMinReadySeconds},
	{"RS-27, RS-40, RC-15: ShowsQuotaFailure", testShowsQuotaFailure},
	{"RS-23, RC-12: IsQuietInTerminatingNamespace", testIsQuietInTerminatingNamespace},
}

func testReplicas(t *testing.T, kind replicaKind) {
	t.Helper()
	for _, b := range replicaBehaviours {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			b.test(t, kind)
		})
	}
}

// create creates an object named web with the labels app=web.
func (k replicaKind) create(t *testing.T, namespace string, count int32, edit func(*replicas)) *replicas {
	t.Helper()
	r := &replicas{Name: "web", Replicas: count, Template: harness.PodTemplate("web", "web:1")}
	if edit != nil {
		edit(r)
	}
	if err := k.Create(t.Context(), namespace, r); err != nil {
		t.Fatal(err)
	}
	return must.Get(k.Get(t.Context(), namespace, r.Name))(t)
}

func (k replicaKind) patch(t *testing.T, namespace, patch string) {
	t.Helper()
	if err := k.Patch(t.Context(), namespace, "web", patch); err != nil {
		t.Fatal(err)
	}
}

func (k replicaKind) scale(t *testing.T, namespace string, count int) {
	t.Helper()
	k.patch(t, namespace, fmt.Sprintf(`{"spec":{"replicas":%d}}`, count))
}

// waitFor waits until check accepts the object web.
func (k replicaKind) waitFor(t *testing.T, namespace, what string, check func(*replicas) error) *replicas {
	t.Helper()
	var r *replicas
	await.That(t, what, func(ctx context.Context) (err error) {
		if r, err = k.Get(ctx, namespace, "web"); err != nil {
			return err
		}
		if r.ObservedGeneration < r.Generation {
			return fmt.Errorf("generation %d of %d is observed", r.ObservedGeneration, r.Generation)
		}
		return check(r)
	})
	return r
}

// waitForStatus waits until all counts of the status are count, and no condition is
// set.
func (k replicaKind) waitForStatus(t *testing.T, namespace string, count int32) *replicas {
	t.Helper()
	return k.waitFor(t, namespace, fmt.Sprintf("the status counts %d", count), func(r *replicas) error {
		if r.Current != count || r.FullyLabeled != count || r.Ready != count || r.Available != count || len(r.Conditions) > 0 {
			return fmt.Errorf("it is %+v", r)
		}
		return nil
	})
}

func (k replicaKind) event(kind, reason, message string) string {
	return fmt.Sprintf("%s %s %s: %s", k.Component, kind, reason, message)
}

func testScales(t *testing.T, kind replicaKind) {
	namespace := cluster.NamespaceForPods(t)
	r := kind.create(t, namespace, 3, func(r *replicas) {
		r.Template.Annotations = map[string]string{"example.com/note": "kept"}
		r.Template.Finalizers = []string{harness.Hold}
	})
	kind.waitForStatus(t, namespace, 3)
	var want []string
	for _, p := range cluster.WaitForReadyPods(t, namespace, map[string]string{"app": "web"}, 3) {
		want = append(want, kind.event("Normal", "SuccessfulCreate", "Created pod: "+p.Name))
		owner := metav1.GetControllerOf(&p)
		if owner == nil || owner.Kind != kind.Kind || owner.UID != r.UID || owner.Name != "web" || !*owner.BlockOwnerDeletion || len(p.OwnerReferences) != 1 {
			t.Errorf("%s is owned by %v", p.Name, p.OwnerReferences)
		}
		if p.GenerateName != "web-" || p.Annotations["example.com/note"] != "kept" || len(p.Finalizers) != 1 {
			t.Errorf("%s is not made from the template: %+v", p.Name, p.ObjectMeta)
		}
		want = append(want, kind.event("Normal", "SuccessfulDelete", "Deleted pod: "+p.Name))
	}
	kind.scale(t, namespace, 0)
	r = kind.waitForStatus(t, namespace, 0)
	if r.Terminating != nil {
		// The finalizer keeps the pods terminating.
		kind.waitFor(t, namespace, "three pods are terminating", func(r *replicas) error { return terminating(r, 3) })
	}
	for _, p := range must.Get(cluster.PodsOf(t.Context(), namespace, map[string]string{"app": "web"}))(t) {
		cluster.PatchPod(t, namespace, p.Name, harness.NoFinalizers)
	}
	if r.Terminating != nil {
		kind.waitFor(t, namespace, "no pods are terminating", func(r *replicas) error { return terminating(r, 0) })
	}
	cluster.WaitForEvents(t, namespace, r.UID, want...)
}

func terminating(r *replicas, want int32) error {
	if r.Terminating == nil || *r.Terminating != want {
		return fmt.Errorf("the status is %+v", r)
	}
	return nil
}

func testAdoptsAndReleases(t *testing.T, kind replicaKind) {
	namespace := cluster.NamespaceForPods(t)
	orphan := cluster.CreatePod(t, namespace, "orphan", "web", nil)
	cluster.CreatePod(t, namespace, "stranger", "other", nil)
	cluster.WaitForReadyPods(t, namespace, map[string]string{"app": "web"}, 1)
	r := kind.create(t, namespace, 2, func(r *replicas) { r.Template.Labels["extra"] = "yes" })
	kind.waitFor(t, namespace, "two replicas are there, one of them adopted", func(r *replicas) error {
		// The adopted pod does not have all labels of the template.
		if r.Current != 2 || r.FullyLabeled != 1 || r.Ready != 2 {
			return fmt.Errorf("it is %+v", r)
		}
		return nil
	})
	pods := cluster.WaitForReadyPods(t, namespace, map[string]string{"app": "web"}, 2)
	for _, p := range pods {
		if owner := metav1.GetControllerOf(&p); owner == nil || owner.UID != r.UID || owner.Kind != kind.Kind {
			t.Errorf("%s is owned by %v", p.Name, p.OwnerReferences)
		}
	}
	cluster.PatchPod(t, namespace, orphan.Name, `{"metadata":{"labels":{"app":"other"}}}`)
	kind.waitForStatus(t, namespace, 2)
	for _, name := range []string{"orphan", "stranger"} {
		await.That(t, name+" belongs to nobody", func(ctx context.Context) error {
			p, err := admin.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
			if err == nil && len(p.OwnerReferences) > 0 {
				err = fmt.Errorf("it is owned by %v", p.OwnerReferences)
			}
			return err
		})
	}
	// One more matching pod is one too many.
	cluster.CreatePod(t, namespace, "surplus", "web", unscheduled)
	await.That(t, "the surplus pod is deleted", func(ctx context.Context) error {
		_, err := admin.CoreV1().Pods(namespace).Get(ctx, "surplus", metav1.GetOptions{})
		return await.Gone(err)
	})
	kind.waitForStatus(t, namespace, 2)
}

func unscheduled(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"no-node": "has-this"} }

func testReplacesPods(t *testing.T, kind replicaKind) {
	namespace := cluster.NamespaceForPods(t)
	kind.create(t, namespace, 3, nil)
	kind.waitForStatus(t, namespace, 3)
	pods := cluster.WaitForReadyPods(t, namespace, map[string]string{"app": "web"}, 3)
	cluster.DeletePodNow(t, namespace, pods[0].Name)
	cluster.PatchPodStatus(t, namespace, pods[1].Name, map[string]any{"phase": corev1.PodFailed})
	await.That(t, "both pods are replaced and the failed one is kept", func(ctx context.Context) error {
		now, err := cluster.PodsOf(ctx, namespace, map[string]string{"app": "web"})
		if err != nil {
			return err
		}
		ready := map[string]bool{}
		failed := ""
		for _, p := range now {
			if p.Status.Phase == corev1.PodFailed {
				failed = p.Name
			} else if harness.IsReady(&p) {
				ready[p.Name] = true
			}
		}
		if failed != pods[1].Name || len(ready) != 3 || !ready[pods[2].Name] || ready[pods[0].Name] {
			return fmt.Errorf("failed: %q, ready: %v", failed, ready)
		}
		return nil
	})
	kind.waitForStatus(t, namespace, 3)
}

func testDeletesTheRightPods(t *testing.T, kind replicaKind) {
	namespace := cluster.NamespaceForPods(t)
	kind.create(t, namespace, 4, nil)
	kind.waitForStatus(t, namespace, 4)
	pods := cluster.WaitForReadyPods(t, namespace, map[string]string{"app": "web"}, 4)
	unready, cheap, plain, dear := pods[0].Name, pods[1].Name, pods[2].Name, pods[3].Name
	const cost = `{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"%d"}}}`
	cluster.PatchPod(t, namespace, cheap, fmt.Sprintf(cost, -5))
	cluster.PatchPod(t, namespace, dear, fmt.Sprintf(cost, 10))
	cluster.SetReady(t, namespace, unready, corev1.ConditionFalse)
	// The controller has seen this change, so it has seen the earlier ones too.
	kind.waitFor(t, namespace, "one pod is not ready", func(r *replicas) error {
		if r.Ready != 3 || r.Available != 3 || r.Current != 4 {
			return fmt.Errorf("it is %+v", r)
		}
		return nil
	})
	for i, victim := range []string{unready, cheap, plain} {
		left := int32(3 - i)
		kind.scale(t, namespace, int(left))
		kind.waitForStatus(t, namespace, left)
		for _, p := range cluster.WaitForReadyPods(t, namespace, map[string]string{"app": "web"}, int(left)) {
			if p.Name == victim {
				t.Errorf("of %v the victim of step %d is not %s", pods, i, victim)
			}
		}
	}
}

func testWaitsMinReadySeconds(t *testing.T, kind replicaKind) {
	namespace := cluster.NamespaceForPods(t)
	kind.create(t, namespace, 1, func(r *replicas) { r.MinReadySeconds = 3 })
	kind.waitFor(t, namespace, "it is ready and not yet available", func(r *replicas) error {
		if r.Available > 0 {
			return await.Final(errors.New("it is available at once"))
		}
		if r.Ready != 1 {
			return errors.New("it is not ready")
		}
		return nil
	})
	kind.waitForStatus(t, namespace, 1)
	for _, c := range cluster.WaitForReadyPods(t, namespace, map[string]string{"app": "web"}, 1)[0].Status.Conditions {
		if age := time.Since(c.LastTransitionTime.Time); c.Type == corev1.PodReady && age < 3*time.Second {
			t.Errorf("it is available %s after it became ready", age)
		}
	}
}

func testShowsQuotaFailure(t *testing.T, kind replicaKind) {
	namespace := cluster.NamespaceForPods(t)
	setQuota(t, namespace, "pods", 2, 0)
	r := kind.create(t, namespace, 3, nil)
	kind.waitFor(t, namespace, "the failure is shown", func(r *replicas) error {
		if r.Current != 2 || len(r.Conditions) != 1 ||
			!strings.HasPrefix(r.Conditions[0], `ReplicaFailure=True FailedCreate: pods "web-`) ||
			!strings.HasSuffix(r.Conditions[0], `exceeded quota: quota, requested: pods=1, used: pods=2, limited: pods=2`) {
			return fmt.Errorf("it is %+v", r)
		}
		return nil
	})
	await.That(t, "the failure is an event", func(ctx context.Context) error {
		events, err := cluster.EventsOf(ctx, namespace, r.UID)
		if err == nil && !strings.Contains(strings.Join(events, "\n"), kind.event("Warning", "FailedCreate", `Error creating: pods "web-`)) {
			err = fmt.Errorf("the events are %q", events)
		}
		return err
	})
	setQuota(t, namespace, "pods", 3, 2)
	kind.waitForStatus(t, namespace, 3)
}

func testIsQuietInTerminatingNamespace(t *testing.T, kind replicaKind) {
	namespace := cluster.NamespaceForPods(t)
	r := kind.create(t, namespace, 3, nil)
	kind.waitForStatus(t, namespace, 3)
	w, err := admin.CoreV1().Events(namespace).Watch(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(r.UID)})
	stop := harness.Follow(t, w, err, func(_ watch.EventType, e *corev1.Event) error {
		if e.Reason == "FailedCreate" {
			return fmt.Errorf("a namespace that is being deleted gets the event %q", harness.EventText(e))
		}
		return nil
	})
	cluster.DeleteNamespace(t, namespace)
	cluster.WaitForNamespaceGone(t, namespace)
	stop()
}
