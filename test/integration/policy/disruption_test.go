package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

const unmanagedPods = "controllermanager Warning UnmanagedPods: Pods selected by this PodDisruptionBudget (selector: " +
	"&LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. " +
	"As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. " +
	`To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.`

var appWeb = map[string]string{"app": "web"}

func minAvailable(value string) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = ptr.To(intstr.Parse(value)) }
}

func maxUnavailable(value string) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.MaxUnavailable = ptr.To(intstr.Parse(value)) }
}

func everything(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} }

// createBudget creates a PodDisruptionBudget named web for the pods with app=web.
func createBudget(t *testing.T, namespace string, edits ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	t.Helper()
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: appWeb}},
	}
	for _, edit := range edits {
		edit(budget)
	}
	return must.Get(admin.PolicyV1().PodDisruptionBudgets(namespace).Create(t.Context(), budget, metav1.CreateOptions{}))(t)
}

func getBudget(ctx context.Context, namespace string) (*policyv1.PodDisruptionBudget, error) {
	return admin.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, "web", metav1.GetOptions{})
}

// updateBudget changes the spec of the budget web.
func updateBudget(t *testing.T, namespace string, edit func(*policyv1.PodDisruptionBudget)) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		budget, err := getBudget(t.Context(), namespace)
		if err != nil {
			return err
		}
		edit(budget)
		_, err = admin.PolicyV1().PodDisruptionBudgets(namespace).Update(t.Context(), budget, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// account is what a user reads in the status of a budget.
func account(b *policyv1.PodDisruptionBudget) string {
	text := fmt.Sprintf("%d of %d healthy, %d needed, %d allowed", b.Status.CurrentHealthy, b.Status.ExpectedPods, b.Status.DesiredHealthy, b.Status.DisruptionsAllowed)
	if c := meta.FindStatusCondition(b.Status.Conditions, policyv1.DisruptionAllowedCondition); c != nil {
		text += fmt.Sprintf(": %s %s", c.Status, strings.TrimSpace(c.Reason+" "+c.Message))
	}
	return text
}

// waitForAccount waits until the budget web has an account of its newest generation that
// reads as wanted.
func waitForAccount(t *testing.T, namespace, want string) *policyv1.PodDisruptionBudget {
	t.Helper()
	var budget *policyv1.PodDisruptionBudget
	await.That(t, "the budget says "+want, func(ctx context.Context) (err error) {
		if budget, err = getBudget(ctx, namespace); err != nil {
			return err
		}
		if got := account(budget); got != want || budget.Status.ObservedGeneration != budget.Generation {
			return fmt.Errorf("generation %d of %d: %s", budget.Status.ObservedGeneration, budget.Generation, got)
		}
		return nil
	})
	return budget
}

func evict(ctx context.Context, namespace, name string) error {
	return admin.PolicyV1().Evictions(namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}})
}

// mustEvict evicts a pod, which has to be allowed.
func mustEvict(t *testing.T, namespace, name string) {
	t.Helper()
	if err := evict(t.Context(), namespace, name); err != nil {
		t.Fatalf("evicting %s: %v", name, err)
	}
}

// mustNotEvict tries to evict a pod, which the budget has to forbid.
func mustNotEvict(t *testing.T, namespace, name string) {
	t.Helper()
	err := evict(t.Context(), namespace, name)
	if !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		t.Errorf("evicting %s: got %v, want a refusal because of the budget", name, err)
	}
}

// barePods creates pods without a controller and waits until they are Ready.
func barePods(t *testing.T, namespace string, names ...string) {
	t.Helper()
	for _, name := range names {
		cluster.CreatePod(t, namespace, name, "web", nil)
	}
	cluster.WaitForReadyPods(t, namespace, appWeb, len(names))
}

// owners of four pods with app=web.
var fourPods = map[string]func(t *testing.T, namespace string){
	"Deployment": func(t *testing.T, namespace string) { cluster.CreateDeployment(t, namespace, 4, nil) },
	"ReplicaSet": func(t *testing.T, namespace string) {
		rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To[int32](4), Selector: &metav1.LabelSelector{MatchLabels: appWeb}, Template: harness.PodTemplate("web", "web:1"),
		}}
		must.Get(admin.AppsV1().ReplicaSets(namespace).Create(t.Context(), rs, metav1.CreateOptions{}))(t)
	},
	"ReplicationController": func(t *testing.T, namespace string) {
		rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ReplicationControllerSpec{
			Replicas: ptr.To[int32](4), Template: ptr.To(harness.PodTemplate("web", "web:1")),
		}}
		must.Get(admin.CoreV1().ReplicationControllers(namespace).Create(t.Context(), rc, metav1.CreateOptions{}))(t)
	},
	"StatefulSet": func(t *testing.T, namespace string) {
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](4), Selector: &metav1.LabelSelector{MatchLabels: appWeb}, Template: harness.PodTemplate("web", "web:1"),
			PodManagementPolicy: appsv1.ParallelPodManagement,
		}}
		must.Get(admin.AppsV1().StatefulSets(namespace).Create(t.Context(), set, metav1.CreateOptions{}))(t)
	},
}

// Pins PDB-15a.
func TestDisruptionBudgetOfEachOwner(t *testing.T) {
	t.Parallel()
	for kind, create := range fourPods {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			namespace := cluster.NamespaceForPods(t)
			createBudget(t, namespace, minAvailable("3"))
			create(t, namespace)
			waitForAccount(t, namespace, "4 of 4 healthy, 3 needed, 1 allowed: True SufficientPods")
			for _, step := range []struct {
				edit func(*policyv1.PodDisruptionBudget)
				want string
			}{
				{minAvailable("4"), "4 of 4 healthy, 4 needed, 0 allowed: False InsufficientPods"},
				{minAvailable("6"), "4 of 4 healthy, 6 needed, 0 allowed: False InsufficientPods"},
				{minAvailable("30%"), "4 of 4 healthy, 2 needed, 2 allowed: True SufficientPods"},
				{maxUnavailable("1"), "4 of 4 healthy, 3 needed, 1 allowed: True SufficientPods"},
				{maxUnavailable("9"), "4 of 4 healthy, 0 needed, 4 allowed: True SufficientPods"},
				{maxUnavailable("30%"), "4 of 4 healthy, 2 needed, 2 allowed: True SufficientPods"},
				{maxUnavailable("0"), "4 of 4 healthy, 4 needed, 0 allowed: False InsufficientPods"},
			} {
				updateBudget(t, namespace, func(b *policyv1.PodDisruptionBudget) {
					b.Spec.MinAvailable, b.Spec.MaxUnavailable = nil, nil
					step.edit(b)
				})
				waitForAccount(t, namespace, step.want)
			}
			events := must.Get(cluster.EventsOf(t.Context(), namespace, must.Get(getBudget(t.Context(), namespace))(t).UID))(t)
			for _, event := range events {
				if event != "controllermanager Normal NoPods: No matching pods found" {
					t.Errorf("event %q", event)
				}
			}
		})
	}
}

// Pins PDB-16.
func TestDisruptionBudgetOfBarePods(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	budget := createBudget(t, namespace, maxUnavailable("1"))
	waitForAccount(t, namespace, "0 of 0 healthy, 0 needed, 0 allowed: False InsufficientPods")
	cluster.WaitForEvent(t, namespace, budget.UID, "controllermanager Normal NoPods: No matching pods found")
	barePods(t, namespace, "a", "b", "c")
	waitForAccount(t, namespace, "3 of 0 healthy, 0 needed, 0 allowed: False InsufficientPods")
	cluster.WaitForEvent(t, namespace, budget.UID, unmanagedPods)
	mustNotEvict(t, namespace, "a")

	updateBudget(t, namespace, func(b *policyv1.PodDisruptionBudget) {
		b.Spec.MaxUnavailable = nil
		minAvailable("2")(b)
	})
	waitForAccount(t, namespace, "3 of 3 healthy, 2 needed, 1 allowed: True SufficientPods")
	mustEvict(t, namespace, "a")
	mustNotEvict(t, namespace, "b")
	after := waitForAccount(t, namespace, "2 of 2 healthy, 2 needed, 0 allowed: False InsufficientPods")
	mustNotEvict(t, namespace, "b")
	if len(after.Status.DisruptedPods) > 0 {
		t.Errorf("the pods %v are still expected to go", after.Status.DisruptedPods)
	}
}

// Pins PDB-18.
func TestDisruptionBudgetFollowsReadiness(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	barePods(t, namespace, "a", "b", "c")
	createBudget(t, namespace, minAvailable("2"), everything)
	for _, step := range []struct {
		ready corev1.ConditionStatus
		want  string
	}{
		{corev1.ConditionTrue, "3 of 3 healthy, 2 needed, 1 allowed: True SufficientPods"},
		{corev1.ConditionFalse, "2 of 3 healthy, 2 needed, 0 allowed: False InsufficientPods"},
		{corev1.ConditionTrue, "3 of 3 healthy, 2 needed, 1 allowed: True SufficientPods"},
	} {
		cluster.SetReady(t, namespace, "b", step.ready)
		waitForAccount(t, namespace, step.want)
	}
	cluster.DeletePodNow(t, namespace, "c")
	waitForAccount(t, namespace, "2 of 2 healthy, 2 needed, 0 allowed: False InsufficientPods")
}

// TestDisruptionEvictsOneAfterTheOther drains a Deployment: an eviction is allowed again
// as soon as the pod before was replaced, and never before.
func TestDisruptionEvictsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	cluster.CreateDeployment(t, namespace, 3, nil)
	first := cluster.WaitForReadyPods(t, namespace, appWeb, 3)
	createBudget(t, namespace, maxUnavailable("1"))
	const one = "3 of 3 healthy, 2 needed, 1 allowed: True SufficientPods"
	for n := range first {
		waitForAccount(t, namespace, one)
		refused := 0
		await.That(t, "the pod is evicted", func(ctx context.Context) error {
			err := evict(ctx, namespace, first[n].Name)
			if apierrors.IsTooManyRequests(err) {
				refused++
			}
			return err
		})
		pods := must.Get(cluster.PodsOf(t.Context(), namespace, appWeb))(t)
		ready := 0
		for i := range pods {
			if harness.IsReady(&pods[i]) && pods[i].DeletionTimestamp == nil {
				ready++
			}
		}
		if ready < 2 {
			t.Fatalf("%d pods are ready after an eviction that was refused %d times", ready, refused)
		}
	}
	for _, pod := range cluster.WaitForReadyPods(t, namespace, appWeb, 3) {
		if slices.ContainsFunc(first, func(f corev1.Pod) bool { return f.UID == pod.UID }) {
			t.Errorf("%s was not evicted", pod.Name)
		}
	}
	waitForAccount(t, namespace, one)
}

func TestDisruptionUnhealthyPodEvictionPolicy(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		policy  *policyv1.UnhealthyPodEvictionPolicyType
		needed  string
		account string
		evicted bool
	}{
		{"default, budget is healthy", nil, "1", "1 of 2 healthy, 1 needed, 0 allowed: False InsufficientPods", true},
		{"default, budget is not healthy", nil, "2", "1 of 2 healthy, 2 needed, 0 allowed: False InsufficientPods", false},
		{"IfHealthyBudget, budget is healthy", ptr.To(policyv1.IfHealthyBudget), "1", "1 of 2 healthy, 1 needed, 0 allowed: False InsufficientPods", true},
		{"IfHealthyBudget, budget is not healthy", ptr.To(policyv1.IfHealthyBudget), "2", "1 of 2 healthy, 2 needed, 0 allowed: False InsufficientPods", false},
		{"AlwaysAllow, budget is not healthy", ptr.To(policyv1.AlwaysAllow), "2", "1 of 2 healthy, 2 needed, 0 allowed: False InsufficientPods", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			namespace := cluster.NamespaceForPods(t)
			barePods(t, namespace, "good", "bad")
			cluster.SetReady(t, namespace, "bad", corev1.ConditionFalse)
			createBudget(t, namespace, minAvailable(tc.needed), func(b *policyv1.PodDisruptionBudget) { b.Spec.UnhealthyPodEvictionPolicy = tc.policy })
			waitForAccount(t, namespace, tc.account)
			mustNotEvict(t, namespace, "good")
			if tc.evicted {
				mustEvict(t, namespace, "bad")
			} else {
				mustNotEvict(t, namespace, "bad")
			}
		})
	}
}

// Pins PDB-27.
func TestDisruptionBudgetOfAJobFails(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	budget := createBudget(t, namespace, maxUnavailable("1"))
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: batchv1.JobSpec{Template: harness.PodTemplate("web", "web:1")}}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	harness.Unschedulable(&job.Spec.Template)
	must.Get(admin.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{}))(t)
	const why = "jobs.batch does not implement the scale subresource"
	waitForAccount(t, namespace, "0 of 0 healthy, 0 needed, 0 allowed: False SyncFailed "+why)
	cluster.WaitForEvent(t, namespace, budget.UID, "controllermanager Warning CalculateExpectedPodCountFailed: Failed to calculate the number of expected pods: "+why)

	updateBudget(t, namespace, func(b *policyv1.PodDisruptionBudget) {
		b.Spec.MaxUnavailable = nil
		minAvailable("1")(b)
	})
	waitForAccount(t, namespace, "0 of 1 healthy, 1 needed, 0 allowed: False InsufficientPods")
}

// Pins PDB-5.
func TestDisruptionOfAPodInSeveralBudgets(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createBudget(t, namespace, minAvailable("1"))
	createBudget(t, namespace, minAvailable("1"), everything, func(b *policyv1.PodDisruptionBudget) { b.Name = "all" })
	barePods(t, namespace, "a")
	pod := must.Get(admin.CoreV1().Pods(namespace).Get(t.Context(), "a", metav1.GetOptions{}))(t)
	await.That(t, "the pod has the event", func(ctx context.Context) error {
		events, err := cluster.EventsOf(ctx, namespace, pod.UID)
		if err != nil {
			return err
		}
		want := fmt.Sprintf(`controllermanager Warning MultiplePodDisruptionBudgets: Pod %q/"a" matches multiple PodDisruptionBudgets.  Chose `, namespace)
		for _, event := range events {
			if event == want+`"web" arbitrarily.` || event == want+`"all" arbitrarily.` {
				return nil
			}
		}
		return fmt.Errorf("got %q", events)
	})
}

// Pins PDB-17.
func TestDisruptionGivesUpOnPodsThatStay(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	barePods(t, namespace, "a", "b")
	createBudget(t, namespace, minAvailable("1"))
	const all = "2 of 2 healthy, 1 needed, 1 allowed: True SufficientPods"
	waitForAccount(t, namespace, all)
	// What the API server writes when it evicts: of one pod just now, of one long ago.
	disrupt := func(name string, ago time.Duration) {
		t.Helper()
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			budget, err := getBudget(t.Context(), namespace)
			if err != nil {
				return err
			}
			budget.Status.DisruptedPods = map[string]metav1.Time{name: metav1.NewTime(time.Now().Add(-ago))}
			_, err = admin.PolicyV1().PodDisruptionBudgets(namespace).UpdateStatus(t.Context(), budget, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	disrupt("a", 0)
	budget := waitForAccount(t, namespace, "1 of 2 healthy, 1 needed, 0 allowed: False InsufficientPods")
	if _, there := budget.Status.DisruptedPods["a"]; !there || len(budget.Status.DisruptedPods) != 1 {
		t.Errorf("the pods expected to go are %v", budget.Status.DisruptedPods)
	}
	disrupt("b", 3*time.Minute)
	if budget = waitForAccount(t, namespace, all); len(budget.Status.DisruptedPods) != 0 {
		t.Errorf("the pods expected to go are %v", budget.Status.DisruptedPods)
	}
	pod := must.Get(admin.CoreV1().Pods(namespace).Get(t.Context(), "b", metav1.GetOptions{}))(t)
	cluster.WaitForEvent(t, namespace, pod.UID, fmt.Sprintf("controllermanager Warning NotDeleted: Pod was expected by PDB %s/%s to be deleted but it wasn't", namespace, namespace))
}

// Pins PDB-20.
func TestDisruptionTakesStaleMarksOff(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	barePods(t, namespace, "stale", "kubelet")
	mark := func(name, reason string) {
		t.Helper()
		cluster.PatchPodStatus(t, namespace, name, map[string]any{"conditions": []any{map[string]any{
			"type": corev1.DisruptionTarget, "status": "True", "reason": reason, "message": "because",
			"lastTransitionTime": metav1.NewTime(time.Now().Add(-3 * time.Minute)),
		}}})
	}
	marked := func(ctx context.Context, name string) (corev1.PodCondition, error) {
		pod, err := admin.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return corev1.PodCondition{}, err
		}
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
		if i < 0 || !harness.IsReady(pod) {
			return corev1.PodCondition{}, fmt.Errorf("the conditions are %v", pod.Status.Conditions)
		}
		return pod.Status.Conditions[i], nil
	}
	mark("kubelet", "TerminationByKubelet")
	mark("stale", "EvictionByEvictionAPI")
	await.That(t, "the mark is taken off", func(ctx context.Context) error {
		c, err := marked(ctx, "stale")
		if err == nil && (c.Status != corev1.ConditionFalse || c.Reason != "" || c.Message != "" || time.Since(c.LastTransitionTime.Time) > time.Minute) {
			err = fmt.Errorf("the condition is %+v", c)
		}
		return err
	})
	if c := must.Get(marked(t.Context(), "kubelet"))(t); c.Status != corev1.ConditionTrue {
		t.Errorf("what the kubelet marked has the condition %+v", c)
	}
}

// TestDisruptionBudgetOfACustomResource uses a kind that did not exist when the manager was
// started. That it is not known makes the manager look again at what is served, and the
// budget, of which no event tells, is tried again.
// Pins PDB-15a.
func TestDisruptionBudgetOfACustomResource(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	fleets := createFleets(t, namespace)
	fleet := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "disruption.test.kcmd.dev/v1", "kind": "Fleet", "metadata": map[string]any{"name": "one"},
		"spec": map[string]any{"replicas": int64(4)},
	}}
	await.That(t, "the new kind is served", func(ctx context.Context) error {
		created, err := fleets.Create(ctx, fleet, metav1.CreateOptions{})
		if err == nil {
			fleet = created
		}
		return err
	})
	ref := *metav1.NewControllerRef(fleet, schema.GroupVersionKind{Group: "disruption.test.kcmd.dev", Version: "v1", Kind: "Fleet"})
	for _, name := range []string{"a", "b", "c"} {
		cluster.CreatePod(t, namespace, name, "web", func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{ref} })
	}
	cluster.WaitForReadyPods(t, namespace, appWeb, 3)
	createBudget(t, namespace, maxUnavailable("2"))
	waitForAccount(t, namespace, "3 of 4 healthy, 2 needed, 1 allowed: True SufficientPods")

	// The scale is read again with the next event of a pod.
	patch := []byte(`{"spec":{"replicas":3}}`)
	must.Get(fleets.Patch(t.Context(), "one", types.MergePatchType, patch, metav1.PatchOptions{}))(t)
	cluster.DeletePodNow(t, namespace, "c")
	waitForAccount(t, namespace, "2 of 3 healthy, 1 needed, 1 allowed: True SufficientPods")
	mustEvict(t, namespace, "a")
	mustNotEvict(t, namespace, "b")
}

// createFleets creates a kind with a scale subresource and returns its client.
func createFleets(t *testing.T, namespace string) dynamic.ResourceInterface {
	t.Helper()
	client := must.Get(dynamic.NewForConfig(cluster.AdminConfig()))(t)
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	const name = "fleets.disruption.test.kcmd.dev"
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"group": "disruption.test.kcmd.dev", "scope": "Namespaced",
			"names": map[string]any{"plural": "fleets", "singular": "fleet", "kind": "Fleet"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema":       map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
				"subresources": map[string]any{"scale": map[string]any{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
			}},
		},
	}}
	must.Get(definitions.Create(t.Context(), definition, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := definitions.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return client.Resource(schema.GroupVersionResource{Group: "disruption.test.kcmd.dev", Version: "v1", Resource: "fleets"}).Namespace(namespace)
}
