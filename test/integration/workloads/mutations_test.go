package workloads

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// changeOnCreation has the API server change what is created of a resource in a namespace, as JSON patches in CEL say, until
// the returned function is called. It returns once the probe finds no fault in what a dry run answers.
func changeOnCreation(t *testing.T, namespace, group, resource, patches string, probe func(context.Context) error) (end func()) {
	t.Helper()
	policy := &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}},
				}}},
			},
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			Mutations: []admissionv1.Mutation{{
				PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: patches},
			}},
		},
	}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: namespace},
	}
	api := admin.AdmissionregistrationV1()
	must.Get(api.MutatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}))(t)
	must.Get(api.MutatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}))(t)
	await.That(t, "the policy is in force", probe)
	return func() {
		if err := api.MutatingAdmissionPolicyBindings().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

var judged = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

func replicaSetOf(replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To(replicas), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: harness.PodTemplate("web", "web:1"),
		},
	}
}

// changeReplicaSets does that with ReplicaSets, each of which shall differ from what was sent.
func changeReplicaSets(t *testing.T, namespace, patch string, differs func(*appsv1.ReplicaSet) bool) (end func()) {
	t.Helper()
	return changeOnCreation(t, namespace, "apps", "replicasets", patch, func(ctx context.Context) error {
		rs, err := admin.AppsV1().ReplicaSets(namespace).Create(ctx, replicaSetOf(1), judged)
		if err == nil && !differs(rs) {
			err = errors.New("it is not")
		}
		return err
	})
}

// Pins DEP-78.
func TestDeploymentWhoseReplicaSetsAreChanged(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	changeReplicaSets(t, namespace, `[JSONPatch{op: "replace", path: "/spec/template/spec/terminationGracePeriodSeconds", value: 7}]`,
		func(rs *appsv1.ReplicaSet) bool { return *rs.Spec.Template.Spec.TerminationGracePeriodSeconds == 7 })
	cluster.CreateDeployment(t, namespace, 2, nil)
	cluster.WaitForRollout(t, namespace)
	theReplicaSets(t, namespace, 1)
	cluster.UpdateDeployment(t, namespace, setImage("other"))
	d := cluster.WaitForRollout(t, namespace)
	if got := sizes(theReplicaSets(t, namespace, 2)); !slices.Equal(got, []int32{0, 2}) || d.Status.CollisionCount != nil {
		t.Errorf("the ReplicaSets have the sizes %v after %v collisions", got, d.Status.CollisionCount)
	}
}

// Pins DEP-79.
func TestDeploymentWhoseReplicaSetsAreNotSelected(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	end := changeReplicaSets(t, namespace, `[JSONPatch{op: "add", path: "/metadata/labels", value: {"app": "other"}}]`,
		func(rs *appsv1.ReplicaSet) bool { return rs.Labels["app"] == "other" })
	cluster.CreateDeployment(t, namespace, 1, nil)
	cluster.WaitForDeployment(t, namespace, "it says why there is no rollout", func(d *appsv1.Deployment) error {
		return harness.HasCondition(d, "Progressing=False ReplicaSetCreateError: *an admission webhook may change them")
	})
	theReplicaSets(t, namespace, 1)
	end()
	d := cluster.WaitForRollout(t, namespace)
	if got := ptr.Deref(d.Status.CollisionCount, 0); got != 1 {
		t.Errorf("%d collisions, want the one with the ReplicaSet that was changed", got)
	}
}

// Pins WL-125.
func TestReplicaSetWhosePodsAreChanged(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	end := changeOnCreation(t, namespace, "", "pods", `[JSONPatch{op: "add", path: "/metadata/labels", value: {"app": "other"}}]`,
		func(ctx context.Context) error {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "probe", Labels: map[string]string{"app": "web"}}, Spec: harness.PodTemplate("web", "web:1").Spec,
			}
			pod, err := admin.CoreV1().Pods(namespace).Create(ctx, pod, judged)
			if err == nil && pod.Labels["app"] != "other" {
				err = errors.New("it is not")
			}
			return err
		})
	must.Get(admin.AppsV1().ReplicaSets(namespace).Create(t.Context(), replicaSetOf(2), metav1.CreateOptions{}))(t)
	await.That(t, "it says why there are no pods", func(ctx context.Context) error {
		rs, err := admin.AppsV1().ReplicaSets(namespace).Get(ctx, "web", metav1.GetOptions{})
		if err == nil && (len(rs.Status.Conditions) != 1 || rs.Status.Conditions[0].Reason != "FailedCreate") {
			err = fmt.Errorf("the conditions are %v", rs.Status.Conditions)
		}
		return err
	})
	if pods := must.Get(admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}))(t); len(pods.Items) > 1 {
		t.Errorf("there are %d pods", len(pods.Items))
	}
	end()
	cluster.WaitForReadyPods(t, namespace, map[string]string{"app": "web"}, 2)
}
