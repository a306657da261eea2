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
func autoscalerComparisons() []Scenario { return []Scenario{autoscalersBlind(), autoscalersScaling()} }

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

// autoscalersBlind has no metrics: bounds are kept, and everything else is an error.
func autoscalersBlind() Scenario {
	const bounds = "minReplicas: 2, maxReplicas: 4"
	const object = "{type: Object, object: {metric: {name: hits}, describedObject: {apiVersion: v1, kind: Service, name: web}, target: {type: %s}}}"
	return Scenario{
		Name:        "horizontalpodautoscalers-blind",
		Controllers: ofAutoscalers,
		Configure:   everySecond,
		Flags:       everySecondFlags,
		Bare:        true,
		Differs: map[string]string{ // in any order
			`^(missing|too much): event of \S+ about \S+ HorizontalPodAutoscaler (first|second): Warning (AmbiguousSelector|FailedComputeMetricsReplicas): .* are controlled by multiple HPAs: \[[^]]*\]$`: "HPA-27",
			`^(before step \d+, by [^:]+: )?horizontalpodautoscalers/(first|second) differs: \.status\.conditions\[\d\]\.message is "[^"]* multiple HPAs: [^"]*" instead of "[^"]* multiple HPAs: [^"]*"$`: "HPA-27",
		},
		Kinds: []schema.GroupVersionResource{autoscalers, deployments, replicaSets, replicationControllers, sets, pods},
		Steps: []Step{
			{
				"create targets",
				[]Action{
					createAll("Deployment", workload{name: "over", spec: "replicas: 9"}, workload{name: "under", spec: "replicas: 1"}, workload{name: "zero", spec: "replicas: 0"}, workload{name: "fits", spec: "replicas: 3"},
						workload{name: "memory", spec: "replicas: 3"}, workload{name: "container", spec: "replicas: 3"}, workload{name: "pods", spec: "replicas: 3"}, workload{name: "object", spec: "replicas: 3"},
						workload{name: "objectaverage", spec: "replicas: 3"}, workload{name: "external", spec: "replicas: 3"}, workload{name: "externalaverage", spec: "replicas: 3"}, workload{name: "many", spec: "replicas: 3"}, workload{name: "shared", spec: "replicas: 3"},
						workload{name: "old", spec: "replicas: 3"}),
					createAll("ReplicaSet", workload{name: "rs", spec: "replicas: 9"}), createAll("ReplicationController", workload{name: "rc", spec: "replicas: 9"}), createAll("StatefulSet", workload{name: "set", spec: "replicas: 1"}),
					Create(barePod("shared", "app: shared", "")),
				},
				nil,
			},
			{
				"create autoscalers",
				[]Action{CreateAll(
					scaler("over", "", bounds), scaler("under", "", bounds), scaler("zero", "", bounds), scaler("fits", "", bounds), scaler("atleast", "apiVersion: apps/v1, kind: Deployment, name: nobody", bounds),
					scaler("rs", "apiVersion: apps/v1, kind: ReplicaSet, name: rs", bounds), scaler("rc", "apiVersion: v1, kind: ReplicationController, name: rc", bounds), scaler("set", "apiVersion: apps/v9, kind: StatefulSet, name: set", bounds),
					scaler("daemon", "apiVersion: apps/v1, kind: DaemonSet, name: daemon", bounds), scaler("job", "apiVersion: batch/v1, kind: Job, name: job", bounds), scaler("unknown", "apiVersion: example.com/v1, kind: Thing, name: thing", bounds),
					scaler("wronggroup", "apiVersion: wrong/v1, kind: Deployment, name: fits", bounds),
					scaler("memory", "", bounds+", metrics: [{type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1Gi}}}]"),
					scaler("container", "", bounds+", metrics: [{type: ContainerResource, containerResource: {name: cpu, container: web, target: {type: Utilization, averageUtilization: 50}}}]"),
					scaler("pods", "", bounds+", metrics: [{type: Pods, pods: {metric: {name: hits, selector: {matchLabels: {a: b}}}, target: {type: AverageValue, averageValue: 10}}}]"),
					scaler("object", "", bounds+", metrics: ["+fmt.Sprintf(object, "Value, value: 10")+"]"), scaler("objectaverage", "", bounds+", metrics: ["+fmt.Sprintf(object, "AverageValue, averageValue: 10")+"]"),
					scaler("external", "", bounds+", metrics: [{type: External, external: {metric: {name: hits, selector: {matchLabels: {a: b}}}, target: {type: Value, value: 10}}}]"),
					scaler("externalaverage", "", bounds+", metrics: [{type: External, external: {metric: {name: hits}, target: {type: AverageValue, averageValue: 10}}}]"),
					scaler("many", "", bounds+", metrics: [{type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1Gi}}}, "+fmt.Sprintf(object, "Value, value: 10")+"]"),
					strings.NewReplacer("autoscaling/v2", "autoscaling/v1").Replace(scaler("old", "", bounds+", targetCPUUtilizationPercentage: 70")),
				)},
				[]Condition{
					Has("deployments", "over", "{.spec.replicas}", "4"), Has("deployments", "under", "{.spec.replicas}", "2"), scalerShows("zero", "ScalingActive", "ScalingDisabled"), scalerShows("fits", "ScalingActive", "FailedGetResourceMetric"),
					scalerShows("over", "ScalingActive", "FailedGetResourceMetric"), scalerShows("under", "ScalingActive", "FailedGetResourceMetric"),
					scalerShows("atleast", "AbleToScale", "FailedGetScale"), Has("replicasets", "rs", "{.spec.replicas}", "4"), Has("replicationcontrollers", "rc", "{.spec.replicas}", "4"), Has("statefulsets", "set", "{.spec.replicas}", "2"),
					scalerShows("daemon", "AbleToScale", "FailedGetScale"), scalerShows("job", "AbleToScale", "FailedGetScale"), scalerShows("unknown", "AbleToScale", "FailedGetScale"), scalerShows("wronggroup", "AbleToScale", "FailedGetScale"),
					scalerShows("memory", "ScalingActive", "FailedGetResourceMetric"), scalerShows("container", "ScalingActive", "FailedGetContainerResourceMetric"),
					scalerShows("pods", "ScalingActive", "FailedGetPodsMetric"), scalerShows("object", "ScalingActive", "FailedGetObjectMetric"), scalerShows("objectaverage", "ScalingActive", "FailedGetObjectMetric"),
					scalerShows("external", "ScalingActive", "FailedGetExternalMetric"), scalerShows("externalaverage", "ScalingActive", "FailedGetExternalMetric"), scalerShows("many", "ScalingActive", "FailedGetResourceMetric"),
					scalerShows("old", "ScalingActive", "FailedGetResourceMetric"), scalerShows("rs", "ScalingActive", "FailedGetResourceMetric"), scalerShows("rc", "ScalingActive", "FailedGetResourceMetric"), scalerShows("set", "ScalingActive", "FailedGetResourceMetric"),
				},
			},
			{
				"change targets and bounds",
				[]Action{
					Patch("deployments", "zero", `{"spec":{"replicas":1}}`), Patch("deployments", "fits", `{"spec":{"replicas":0}}`), Patch("horizontalpodautoscalers", "over", `{"spec":{"minReplicas":6,"maxReplicas":7}}`),
					Patch("horizontalpodautoscalers", "under", `{"spec":{"minReplicas":null,"maxReplicas":1}}`), Patch("horizontalpodautoscalers", "unknown", `{"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"memory"}}}`),
					Delete("statefulsets", "set", metav1.DeletePropagationBackground),
				},
				[]Condition{
					Has("deployments", "zero", "{.spec.replicas}", "2"), scalerShows("fits", "ScalingActive", "ScalingDisabled"), Has("deployments", "over", "{.spec.replicas}", "6"), Has("deployments", "under", "{.spec.replicas}", "1"),
					scalerShows("set", "AbleToScale", "FailedGetScale"), scalerShows("unknown", "AbleToScale", "SucceededGetScale"), scalerShows("zero", "ScalingActive", "FailedGetResourceMetric"),
				},
			},
			{
				"create one that selects pods alone",
				[]Action{Create(scaler("first", "apiVersion: apps/v1, kind: Deployment, name: shared", bounds))},
				[]Condition{scalerShows("first", "ScalingActive", "FailedGetResourceMetric")},
			},
			{
				"have two select the same pods",
				[]Action{Create(scaler("second", "apiVersion: apps/v1, kind: Deployment, name: shared", bounds))},
				[]Condition{scalerShows("first", "ScalingActive", "AmbiguousSelector"), scalerShows("second", "ScalingActive", "AmbiguousSelector")},
			},
			{
				"select none", // upstream sends further events about an autoscaler that is deleted while it counts pods
				[]Action{Patch("pods", "shared", `{"metadata":{"labels":{"app":"nobodys"}}}`)},
				[]Condition{scalerShows("first", "ScalingActive", "FailedGetResourceMetric"), scalerShows("second", "ScalingActive", "FailedGetResourceMetric")},
			},
			{
				"leave it to one",
				[]Action{
					Delete("horizontalpodautoscalers", "second", metav1.DeletePropagationBackground), Rest(stillness),
					Patch("pods", "shared", `{"metadata":{"labels":{"app":"shared"}}}`), Rest(stillness),
				},
				[]Condition{scalerShows("first", "ScalingActive", "FailedGetResourceMetric")},
			},
		},
	}
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
	target("requestless", 2, "160m", "")
	// Only one pod lacks a request: of two, the message would name either.
	texts[len(texts)-1] = strings.Replace(texts[len(texts)-1], "requests: {}", "requests: {"+request+"}", 1)
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
			{"create pods", []Action{Use(strings.Join(uses, " ")), CreateAll(texts...)}, append(ready, func(ctx context.Context, _ *world) error { return sleep(ctx, stillness) })},
			{
				"create autoscalers",
				[]Action{CreateAll(
					scaler("up", "", bounds+cpuOf(50)), scaler("within", "", bounds+cpuOf(50)), scaler("tolerated", "", bounds+cpuOf(50)+", behavior: {scaleUp: {tolerance: '0.5'}}"),
					scaler("down", "", bounds+cpuOf(50)+", "+fmt.Sprintf(down, "")), scaler("kept", "", bounds+cpuOf(50)), scaler("disabled", "", bounds+cpuOf(50)+", behavior: {scaleUp: {selectPolicy: Disabled}}"),
					scaler("value", "", bounds+"metrics: [{type: Resource, resource: {name: cpu, target: {type: AverageValue, averageValue: 100m}}}]"),
					scaler("container", "", bounds+"metrics: [{type: ContainerResource, containerResource: {name: cpu, container: web, target: {type: Utilization, averageUtilization: 100}}}]"),
					scaler("wrong", "", bounds+"metrics: [{type: ContainerResource, containerResource: {name: cpu, container: other, target: {type: Utilization, averageUtilization: 100}}}]"),
					scaler("requestless", "", bounds+cpuOf(50)), scaler("partly", "", bounds+partly), scaler("memory", "", bounds+"metrics: ["+memory+"]"), scaler("single", "", "minReplicas: 2, maxReplicas: 2, "+cpuOf(50)),
				)},
				[]Condition{
					size("up", 5, "ScalingLimited", "TooManyReplicas"), size("within", 2, "ScalingLimited", "DesiredWithinRange"), size("tolerated", 2, "ScalingLimited", "DesiredWithinRange"),
					size("down", 1, "ScalingActive", "ValidMetricFound"), size("kept", 4, "AbleToScale", "ScaleDownStabilized"), size("disabled", 2, "ScalingLimited", "ScaleUpLimit"), size("value", 4, "ScalingActive", "ValidMetricFound"),
					size("container", 4, "ScalingActive", "ValidMetricFound"), size("wrong", 2, "ScalingActive", "FailedGetContainerResourceMetric"), size("requestless", 2, "ScalingActive", "FailedGetResourceMetric"),
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
				[]Action{CreateAll(
					scaler("limited", "", "minReplicas: 1, maxReplicas: 50, "+cpuOf(1)+", behavior: {scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 300}]}}"),
					scaler("percent", "", "minReplicas: 1, maxReplicas: 50, "+cpuOf(1)+", behavior: {scaleUp: {policies: [{type: Percent, value: 50, periodSeconds: 300}]}}"),
					scaler("slowly", "", "minReplicas: 1, maxReplicas: 50, "+cpuOf(1)+", behavior: {scaleUp: {selectPolicy: Min, policies: [{type: Percent, value: 50, periodSeconds: 300}, {type: Pods, value: 3, periodSeconds: 300}]}}"),
					scaler("slowdown", "", bounds+cpuOf(50)+", "+fmt.Sprintf(down, ", policies: [{type: Pods, value: 1, periodSeconds: 300}]")),
				)},
				[]Condition{size("limited", 3, "ScalingLimited", "ScaleUpLimit"), size("percent", 6, "ScalingLimited", "ScaleUpLimit"), size("slowly", 3, "ScalingLimited", "ScaleUpLimit"), size("slowdown", 3, "ScalingLimited", "ScaleDownLimit")},
			},
		},
	}
}
