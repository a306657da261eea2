package faults

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// autoscalerComparisons are those of HorizontalPodAutoscalers.
func autoscalerComparisons() []Scenario { return []Scenario{autoscalersScaling()} }

func ofAutoscalers(c *manager.Config) []**bool {
	return []**bool{&c.Controllers.HorizontalPodAutoscaler.Enabled}
}

// everySecond has autoscalers be evaluated every second, whatever the age of their pods.
func everySecond(c *manager.Config) {
	settings, second := &c.Controllers.HorizontalPodAutoscaler, &metav1.Duration{Duration: time.Second}
	settings.SyncPeriod, settings.CPUInitializationPeriod, settings.InitialReadinessDelay = second, second, second
}

var everySecondFlags = []string{
	"--horizontal-pod-autoscaler-sync-period=1s", "--horizontal-pod-autoscaler-cpu-initialization-period=1s", "--horizontal-pod-autoscaler-initial-readiness-delay=1s",
}

// scaler is an autoscaler of a target of the same name, Deployment unless a kind is given.
func scaler(name, target, spec string) string {
	if target == "" {
		target = "apiVersion: apps/v1, kind: Deployment, name: " + name
	}
	return fmt.Sprintf("{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: %s, labels: {side: by-side}}, spec: {scaleTargetRef: {%s}, %s}}", name, target, spec)
}

// scalerShows is the reason of a condition of an autoscaler.
func scalerShows(name, condition, reason string) Condition {
	return Has("horizontalpodautoscalers", name, "{.status.conditions[?(@.type=='"+condition+"')].reason}", reason)
}

// cpuOf is a metric in YAML: of the use of CPUs.
func cpuOf(percent int) string {
	return fmt.Sprintf("metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: %d}}}]", percent)
}

// autoscalersScaling has metrics of pods that nobody makes: two for each target.
func autoscalersScaling() Scenario {
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: %[1]s-%[2]d, labels: {app: %[1]s}}, spec: {nodeName: node-%[2]d, terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1", resources: {requests: {%[3]s}}}]}}`
	var texts, uses []string
	var ready []Condition
	target := func(name string, replicas int, use, request string) {
		texts = append(texts, workload{name: name, spec: fmt.Sprintf("replicas: %d", replicas)}.yaml("Deployment"))
		for i := range 2 {
			texts = append(texts, fmt.Sprintf(pod, name, i, request))
			uses = append(uses, fmt.Sprintf("%s-%d=%s", name, i, use))
			ready = append(ready, isReady(fmt.Sprintf("%s-%d", name, i)))
		}
	}
	const request = "cpu: 100m"
	target("up", 2, "160m", request)
	target("limited", 2, "160m", request)
	target("within", 2, "52m", request)
	target("tolerated", 2, "70m", request)
	target("down", 4, "10m", request)
	target("kept", 4, "10m", request)
	target("disabled", 2, "160m", request)
	target("value", 2, "160m", request)
	target("container", 2, "160m", request)
	target("wrong", 2, "160m", request)
	target("partly", 2, "160m", request)
	target("memory", 2, "160m", request)
	target("single", 2, "160m", request)
	target("percent", 4, "160m", request)
	target("slowly", 2, "160m", request)
	target("slowdown", 4, "10m", request)
	uses = append(uses, "stranger-1=500m")
	const bounds = "minReplicas: 1, maxReplicas: 5, "
	const down = "behavior: {scaleDown: {stabilizationWindowSeconds: 0%s}}"
	memory := "{type: Resource, resource: {name: memory, target: {type: Utilization, averageUtilization: 50}}}"
	partly := strings.TrimSuffix(cpuOf(50), "]") + ", " + memory + "]"
	size := func(name string, replicas int, condition, reason string) Condition {
		return func(ctx context.Context, w *world) error {
			if err := Has("deployments", name, "{.spec.replicas}", fmt.Sprint(replicas))(ctx, w); err != nil {
				return err
			}
			return scalerShows(name, condition, reason)(ctx, w)
		}
	}
	return Scenario{
		Name:        "horizontalpodautoscalers-scaling",
		Controllers: ofAutoscalers,
		Configure:   everySecond,
		Flags:       everySecondFlags,
		Before:      []Action{ServeMetrics},
		Kinds:       []schema.GroupVersionResource{autoscalers, deployments, pods},
		Steps: []Step{
			{"create pods", []Action{Use(strings.Join(uses, " ")), Create(strings.Join(texts, "\n---\n"))}, append(ready, func(ctx context.Context, _ *world) error { return sleep(ctx, stillness) })},
			{
				"create autoscalers",
				[]Action{Create(strings.Join([]string{
					scaler("up", "", bounds+cpuOf(50)), scaler("within", "", bounds+cpuOf(50)), scaler("tolerated", "", bounds+cpuOf(50)+", behavior: {scaleUp: {tolerance: '0.5'}}"),
					scaler("down", "", bounds+cpuOf(50)+", "+fmt.Sprintf(down, "")), scaler("kept", "", bounds+cpuOf(50)), scaler("disabled", "", bounds+cpuOf(50)+", behavior: {scaleUp: {selectPolicy: Disabled}}"),
					scaler("value", "", bounds+"metrics: [{type: Resource, resource: {name: cpu, target: {type: AverageValue, averageValue: 100m}}}]"),
					scaler("container", "", bounds+"metrics: [{type: ContainerResource, containerResource: {name: cpu, container: web, target: {type: Utilization, averageUtilization: 100}}}]"),
					scaler("wrong", "", bounds+"metrics: [{type: ContainerResource, containerResource: {name: cpu, container: other, target: {type: Utilization, averageUtilization: 100}}}]"),
					scaler("partly", "", bounds+partly), scaler("memory", "", bounds+"metrics: ["+memory+"]"), scaler("single", "", "minReplicas: 2, maxReplicas: 2, "+cpuOf(50)),
				}, "\n---\n"))},
				[]Condition{
					size("up", 5, "ScalingLimited", "TooManyReplicas"), size("within", 2, "ScalingLimited", "DesiredWithinRange"), size("tolerated", 2, "ScalingLimited", "DesiredWithinRange"),
					size("down", 1, "ScalingActive", "ValidMetricFound"), size("kept", 4, "AbleToScale", "ScaleDownStabilized"), size("disabled", 2, "ScalingLimited", "ScaleUpLimit"), size("value", 4, "ScalingActive", "ValidMetricFound"),
					size("container", 4, "ScalingActive", "ValidMetricFound"), size("wrong", 2, "ScalingActive", "FailedGetContainerResourceMetric"),
					size("partly", 5, "ScalingActive", "ValidMetricFound"), size("memory", 2, "ScalingActive", "FailedGetResourceMetric"), size("single", 2, "ScalingLimited", "TooManyReplicas"),
				},
			},
			{
				"make pods unready, and lose the metrics of some",
				[]Action{
					PatchStatus("pods", "within-0", unready), PatchStatus("pods", "kept-1", evicted), Delete("pods", "container-0", metav1.DeletePropagationBackground),
					Use(strings.ReplaceAll(strings.ReplaceAll(strings.Join(uses, " "), "value-0=160m", ""), "disabled-0=160m disabled-1=160m", "")),
				},
				[]Condition{scalerShows("disabled", "ScalingActive", "FailedGetResourceMetric")},
			},
			{
				"create autoscalers that are slow", // a manager that takes over does not know how fast another one was
				[]Action{Create(strings.Join([]string{
					scaler("limited", "", "minReplicas: 1, maxReplicas: 50, "+cpuOf(1)+", behavior: {scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 300}]}}"),
					scaler("percent", "", "minReplicas: 1, maxReplicas: 50, "+cpuOf(1)+", behavior: {scaleUp: {policies: [{type: Percent, value: 50, periodSeconds: 300}]}}"),
					scaler("slowly", "", "minReplicas: 1, maxReplicas: 50, "+cpuOf(1)+", behavior: {scaleUp: {selectPolicy: Min, policies: [{type: Percent, value: 50, periodSeconds: 300}, {type: Pods, value: 3, periodSeconds: 300}]}}"),
					scaler("slowdown", "", bounds+cpuOf(50)+", "+fmt.Sprintf(down, ", policies: [{type: Pods, value: 1, periodSeconds: 300}]")),
				}, "\n---\n"))},
				[]Condition{size("limited", 3, "ScalingLimited", "ScaleUpLimit"), size("percent", 6, "ScalingLimited", "ScaleUpLimit"), size("slowly", 3, "ScalingLimited", "ScaleUpLimit"), size("slowdown", 3, "ScalingLimited", "ScaleDownLimit")},
			},
		},
	}
}
