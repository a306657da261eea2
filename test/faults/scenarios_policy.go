package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

var (
	budgets     = policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")
	autoscalers = autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers")
	quotas      = corev1.SchemeGroupVersion.WithResource("resourcequotas")
)

// policyScenarios are those of the controllers that say how much there may be of something.
func policyScenarios() []Scenario {
	return []Scenario{disruption(), horizontalPodAutoscaler(), resourceQuota()}
}

func disruption() Scenario {
	allows := func(healthy, allowed int) []Condition {
		return []Condition{Has("poddisruptionbudgets", "web",
			"{.status.currentHealthy}", fmt.Sprint(healthy), "{.status.disruptionsAllowed}", fmt.Sprint(allowed), "{.status.disruptedPods}", "")}
	}
	return Scenario{
		Name:        "disruption",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.Disruption.Enabled} },
		Kinds:       []schema.GroupVersionResource{budgets, pods},
		Steps: []Step{
			{
				"create pods",
				[]Action{Create(podOn(0, "a") + "\n---\n" + podOn(1, "b") + "\n---\n" + podOn(2, "c") + "\n---\n" + podOn(0, "d"))},
				[]Condition{isReady("a"), isReady("b"), isReady("c"), isReady("d")},
			},
			{
				"create a budget",
				[]Action{Create("{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}}")},
				allows(4, 2),
			},
			{"evict a pod", []Action{Evict("a")}, append(allows(3, 1), Gone("pods", "a"))},
			{"make a pod not ready", []Action{PatchStatus("pods", "b", unready)}, allows(2, 0)},
			{"lose a pod", []Action{Delete("pods", "b", metav1.DeletePropagationBackground)}, []Condition{Has("poddisruptionbudgets", "web", "{.status.expectedPods}", "2")}},
			{"ask for less", []Action{Patch("poddisruptionbudgets", "web", `{"spec":{"minAvailable":1}}`)}, allows(2, 1)},
		},
	}
}

// horizontalPodAutoscaler has no metrics: the bounds are kept without.
func horizontalPodAutoscaler() Scenario {
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 5" + template
	const autoscaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 2, maxReplicas: 3}
`
	scaledTo := func(n int) []Condition {
		return []Condition{
			Has("deployments", "web", "{.spec.replicas}", fmt.Sprint(n)),
			Has("horizontalpodautoscalers", "web", "{.status.conditions[?(@.type=='ScalingActive')].reason}", "FailedGetResourceMetric"),
		}
	}
	return Scenario{
		Name: "horizontalpodautoscaler",
		Controllers: func(c *manager.Config) []**bool {
			c.Controllers.HorizontalPodAutoscaler.SyncPeriod = &metav1.Duration{Duration: time.Second}
			return []**bool{&c.Controllers.HorizontalPodAutoscaler.Enabled}
		},
		Clock: fast,
		Kinds: []schema.GroupVersionResource{autoscalers, deployments},
		Steps: []Step{
			{"create a Deployment", []Action{Create(deployment)}, nil},
			{"create an autoscaler", []Action{Create(autoscaler)}, scaledTo(3)},
			{"ask for fewer replicas than the least", []Action{Patch("deployments", "web", `{"spec":{"replicas":1}}`)}, scaledTo(2)},
			{"change the bounds", []Action{Patch("horizontalpodautoscalers", "web", `{"spec":{"minReplicas":4,"maxReplicas":6}}`)}, scaledTo(4)},
			// Without metrics, a status that could not be written is not made up for.
			{"delete the autoscaler", []Action{Delete("horizontalpodautoscalers", "web", metav1.DeletePropagationBackground)}, []Condition{Gone("horizontalpodautoscalers", "web")}},
		},
	}
}

// chargesWhatIsCreated is that the API server knows a quota that allows no Service. Until it sees a quota, it admits
// what nobody charges, and that is only found by the next full recalculation.
func chargesWhatIsCreated(ctx context.Context, w *world) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "refused"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	_, err := w.admin.CoreV1().Services(w.namespace).Create(ctx, service, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return errors.New("the API server does not know the quota yet")
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return nil
	default:
		return err
	}
}

func resourceQuota() Scenario {
	used := func(pods, configMaps int) []Condition {
		return []Condition{Has("resourcequotas", "web", "{.status.used.pods}", fmt.Sprint(pods), `{.status.used.count/configmaps}`, fmt.Sprint(configMaps))}
	}
	return Scenario{
		Name:        "resourcequota",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.ResourceQuota.Enabled} },
		Kinds:       []schema.GroupVersionResource{quotas, pods, configMaps},
		Reads:       []string{"resourcequotas", "pods", "configmaps"},
		Steps: []Step{
			{"create what is counted", []Action{Create(podOn(0, "a") + "\n---\n" + podOn(1, "b") + "\n---\n" + configMap("first"))}, []Condition{isReady("a"), isReady("b")}},
			{
				"create a quota",
				[]Action{Create("{apiVersion: v1, kind: ResourceQuota, metadata: {name: web}, spec: {hard: {pods: 3, count/configmaps: 3, services: 0}}}")},
				append(used(2, 1), chargesWhatIsCreated),
			},
			{"create more", []Action{Create(configMap("second"))}, used(2, 2)},
			{"lose a pod and a ConfigMap", []Action{Delete("pods", "a", metav1.DeletePropagationBackground), Delete("configmaps", "first", metav1.DeletePropagationBackground)}, used(1, 1)},
			{"end a pod", []Action{PatchStatus("pods", "b", `{"status":{"phase":"Succeeded"}}`)}, used(0, 1)},
			{
				"change the limits",
				[]Action{Patch("resourcequotas", "web", `{"spec":{"hard":{"pods":"5","secrets":"1"}}}`)},
				[]Condition{Has("resourcequotas", "web", "{.status.hard.pods}", "5", "{.status.used.secrets}", "0")},
			},
		},
	}
}
