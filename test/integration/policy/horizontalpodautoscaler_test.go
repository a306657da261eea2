package policy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// TestHorizontalPodAutoscaler serves the metrics APIs for all that is about autoscaling:
// a cluster has them once.
func TestHorizontalPodAutoscaler(t *testing.T) {
	apis := serveMetricsAPIs(t)
	t.Run("remembers over a reload", func(t *testing.T) { autoscalerRemembers(t, apis) })
	t.Run("all", func(t *testing.T) { // ends before the metrics APIs are taken away
		for name, test := range map[string]func(*testing.T, *metricsAPIs){
			"follows the CPU of pods":          autoscalerFollowsCPU,
			"follows one container":            autoscalerFollowsOneContainer,
			"follows external metrics":         autoscalerFollowsExternal,
			"follows metrics of objects":       autoscalerFollowsObject,
			"follows metrics of pods":          autoscalerFollowsPods,
			"changes nothing without metrics":  autoscalerWithoutMetrics,
			"keeps the bounds without metrics": autoscalerKeepsBounds,
			"leaves a target at zero alone":    autoscalerAtZero,
			"limits the rate":                  autoscalerLimitsRate,
			"stabilizes scale down":            autoscalerStabilizes,
			"refuses shared pods":              autoscalersSharePods,
			"tells of a missing target":        autoscalerWithoutTarget,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, apis)
			})
		}
	})
}

// scaledDeployment is a Deployment whose pods request a tenth of a CPU.
func scaledDeployment(t *testing.T, replicas int32) string {
	t.Helper()
	namespace := cluster.NamespaceForPods(t)
	cluster.CreateDeployment(t, namespace, replicas, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	})
	cluster.WaitForRollout(t, namespace)
	return namespace
}

// createAutoscaler creates an autoscaler of the Deployment, for 1 to 10 replicas. It scales
// down without waiting.
func createAutoscaler(t *testing.T, namespace, name string, metric autoscalingv2.MetricSpec, edit func(*autoscalingv2.HorizontalPodAutoscalerSpec)) types.UID {
	t.Helper()
	target := must.Get(cluster.GetDeployment(t.Context(), namespace))(t)
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: target.Name},
			MinReplicas:    ptr.To[int32](1), MaxReplicas: 10,
			Metrics: []autoscalingv2.MetricSpec{metric},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
				ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To[int32](0)},
			},
		},
	}
	if edit != nil {
		edit(&hpa.Spec)
	}
	return must.Get(admin.AutoscalingV2().HorizontalPodAutoscalers(namespace).Create(t.Context(), hpa, metav1.CreateOptions{}))(t).UID
}

// waitForAutoscaler waits until check passes on an autoscaler.
func waitForAutoscaler(t *testing.T, namespace, name, what string, check func(*autoscalingv2.HorizontalPodAutoscaler) error) {
	t.Helper()
	await.That(t, what, func(ctx context.Context) error {
		hpa, err := admin.AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return await.Existing(err)
		}
		if err := check(hpa); err != nil {
			return fmt.Errorf("%w, status %+v", err, hpa.Status)
		}
		return nil
	})
}

// shows checks that the autoscaler has conditions, each written as
// "type=status reason: start of the message".
func shows(want ...string) func(*autoscalingv2.HorizontalPodAutoscaler) error {
	return func(hpa *autoscalingv2.HorizontalPodAutoscaler) error {
		var got []string
		for _, c := range hpa.Status.Conditions {
			got = append(got, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
		for _, condition := range want {
			found := false
			for _, c := range got {
				found = found || strings.HasPrefix(c, condition)
			}
			if !found {
				return fmt.Errorf("no condition %q", condition)
			}
		}
		return nil
	}
}

// waitForScale waits until the Deployment has a size and the autoscaler sees it settled.
func waitForScale(t *testing.T, namespace string, replicas int32) {
	t.Helper()
	waitForAutoscaler(t, namespace, "web", fmt.Sprintf("the Deployment has %d replicas", replicas), func(hpa *autoscalingv2.HorizontalPodAutoscaler) error {
		if s := hpa.Status; s.CurrentReplicas != replicas || s.DesiredReplicas != replicas {
			return fmt.Errorf("%d replicas, %d desired", s.CurrentReplicas, s.DesiredReplicas)
		}
		return nil
	})
	if d := must.Get(cluster.GetDeployment(t.Context(), namespace))(t); *d.Spec.Replicas != replicas {
		t.Errorf("the Deployment has %d replicas, want %d", *d.Spec.Replicas, replicas)
	}
}

func cpuTarget(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name:   corev1.ResourceCPU,
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
	}}
}

func averageOf(amount string) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse(amount))}
}

// queueTarget is for an external metric, of which each replica gets a share.
func queueTarget(share string) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "queue"}, Target: averageOf(share),
	}}
}

func rescaled(replicas int, reason string) string {
	return fmt.Sprintf("horizontal-pod-autoscaler Normal SuccessfulRescale: New size: %d; reason: %s", replicas, reason)
}

func autoscalerFollowsCPU(t *testing.T, apis *metricsAPIs) {
	namespace := scaledDeployment(t, 2)
	apis.set(apis.cpu, namespace, "100m")
	uid := createAutoscaler(t, namespace, "web", cpuTarget(50), func(s *autoscalingv2.HorizontalPodAutoscalerSpec) { s.MaxReplicas = 4 })
	cluster.WaitForEvent(t, namespace, uid, rescaled(4, "cpu resource utilization (percentage of request) above target"))
	waitForScale(t, namespace, 4)
	waitForAutoscaler(t, namespace, "web", "it is limited", shows(
		"AbleToScale=True ReadyForNewScale: recommended size matches current size",
		"ScalingActive=True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)",
		"ScalingLimited=True TooManyReplicas: the desired replica count is more than the maximum replica count"))

	apis.set(apis.cpu, namespace, "10m")
	cluster.WaitForEvent(t, namespace, uid, rescaled(1, "All metrics below target"))
	waitForScale(t, namespace, 1)
	waitForAutoscaler(t, namespace, "web", "its status tells the usage", func(hpa *autoscalingv2.HorizontalPodAutoscaler) error {
		if m := hpa.Status.CurrentMetrics; len(m) != 1 || *m[0].Resource.Current.AverageUtilization != 10 || m[0].Resource.Current.AverageValue.String() != "10m" {
			return fmt.Errorf("metrics %+v", m)
		}
		if hpa.Status.LastScaleTime == nil {
			return fmt.Errorf("no time of the last change")
		}
		return nil
	})
}

func autoscalerFollowsOneContainer(t *testing.T, apis *metricsAPIs) {
	namespace := scaledDeployment(t, 2)
	apis.set(apis.cpu, namespace, "100m")
	uid := createAutoscaler(t, namespace, "web", autoscalingv2.MetricSpec{
		Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
			Name: corev1.ResourceCPU, Container: "web",
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](50)},
		},
	}, func(s *autoscalingv2.HorizontalPodAutoscalerSpec) { s.MaxReplicas = 4 })
	cluster.WaitForEvent(t, namespace, uid, rescaled(4, "cpu container resource utilization (percentage of request) above target"))
	waitForScale(t, namespace, 4)
}

func autoscalerFollowsExternal(t *testing.T, apis *metricsAPIs) {
	namespace := scaledDeployment(t, 1)
	apis.set(apis.external, namespace+"/queue", "30")
	uid := createAutoscaler(t, namespace, "web", queueTarget("10"), nil)
	cluster.WaitForEvent(t, namespace, uid, rescaled(3, "external metric queue(nil) above target"))
	waitForScale(t, namespace, 3)
}

func autoscalerFollowsObject(t *testing.T, apis *metricsAPIs) {
	namespace := scaledDeployment(t, 2)
	apis.set(apis.custom, namespace+"/services/front/hits", "20")
	uid := createAutoscaler(t, namespace, "web", autoscalingv2.MetricSpec{
		Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{
			DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "front"},
			Metric:          autoscalingv2.MetricIdentifier{Name: "hits"},
			Target:          averageOf("4"),
		},
	}, nil)
	cluster.WaitForEvent(t, namespace, uid, rescaled(5, "external metric hits(nil) above target"))
	waitForScale(t, namespace, 5)
}

func autoscalerFollowsPods(t *testing.T, apis *metricsAPIs) {
	namespace := scaledDeployment(t, 2)
	apis.set(apis.custom, namespace+"/pods/*/rps", "3")
	uid := createAutoscaler(t, namespace, "web", autoscalingv2.MetricSpec{
		Type: autoscalingv2.PodsMetricSourceType,
		Pods: &autoscalingv2.PodsMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "rps"}, Target: averageOf("2")},
	}, func(s *autoscalingv2.HorizontalPodAutoscalerSpec) { s.MaxReplicas = 3 })
	cluster.WaitForEvent(t, namespace, uid, rescaled(3, "pods metric rps above target"))
	waitForScale(t, namespace, 3)
}

func autoscalerWithoutMetrics(t *testing.T, _ *metricsAPIs) {
	namespace := scaledDeployment(t, 2)
	uid := createAutoscaler(t, namespace, "web", cpuTarget(50), nil)
	const cause = "failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource metrics API"
	waitForAutoscaler(t, namespace, "web", "it says why it cannot scale", shows(
		"AbleToScale=True SucceededGetScale: the HPA controller was able to get the target's current scale",
		"ScalingActive=False FailedGetResourceMetric: the HPA was unable to compute the replica count: "+cause))
	cluster.WaitForEvent(t, namespace, uid, "horizontal-pod-autoscaler Warning FailedGetResourceMetric: "+cause)
	cluster.WaitForEvent(t, namespace, uid, "horizontal-pod-autoscaler Warning FailedComputeMetricsReplicas: "+
		"invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: "+cause)
	if d := must.Get(cluster.GetDeployment(t.Context(), namespace))(t); *d.Spec.Replicas != 2 {
		t.Errorf("the Deployment has %d replicas", *d.Spec.Replicas)
	}
}

func autoscalerKeepsBounds(t *testing.T, _ *metricsAPIs) {
	namespace := scaledDeployment(t, 1)
	uid := createAutoscaler(t, namespace, "web", cpuTarget(50), func(s *autoscalingv2.HorizontalPodAutoscalerSpec) { s.MinReplicas = ptr.To[int32](2) })
	cluster.WaitForEvent(t, namespace, uid, rescaled(2, "Current number of replicas below Spec.MinReplicas"))
	cluster.UpdateDeployment(t, namespace, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](11) })
	cluster.WaitForEvent(t, namespace, uid, rescaled(10, "Current number of replicas above Spec.MaxReplicas"))
}

func autoscalerAtZero(t *testing.T, apis *metricsAPIs) {
	namespace := scaledDeployment(t, 0)
	apis.set(apis.external, namespace+"/queue", "30")
	createAutoscaler(t, namespace, "web", queueTarget("10"), nil)
	waitForAutoscaler(t, namespace, "web", "it is disabled", shows(
		"ScalingActive=False ScalingDisabled: scaling is disabled since the replica count of the target is zero"))
	cluster.UpdateDeployment(t, namespace, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](1) })
	waitForScale(t, namespace, 3)
}

func autoscalerLimitsRate(t *testing.T, apis *metricsAPIs) { limitedAutoscaler(t, apis) }

// limitedAutoscaler brings an autoscaler to 3 replicas, after which a policy lets it add
// none for half an hour. It returns its namespace.
func limitedAutoscaler(t *testing.T, apis *metricsAPIs) string {
	t.Helper()
	namespace := scaledDeployment(t, 1)
	apis.set(apis.external, namespace+"/queue", "80")
	createAutoscaler(t, namespace, "web", queueTarget("10"), func(s *autoscalingv2.HorizontalPodAutoscalerSpec) {
		s.Behavior.ScaleUp = &autoscalingv2.HPAScalingRules{
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 2, PeriodSeconds: 1800}},
		}
	})
	waitForScale(t, namespace, 3)
	waitForAutoscaler(t, namespace, "web", "it goes no further in this period", shows(
		"ScalingLimited=True ScaleUpLimit: the desired replica count is increasing faster than the maximum scale rate"))
	return namespace
}

// autoscalerRemembers replaces the controller while a policy limits an autoscaler: what the
// instance before added still counts.
func autoscalerRemembers(t *testing.T, apis *metricsAPIs) {
	namespace := limitedAutoscaler(t, apis)
	before := cluster.Manager.Config().Controllers.HorizontalPodAutoscaler.ConcurrentSyncs
	cluster.Restore(t, func(c *manager.Config) { c.Controllers.HorizontalPodAutoscaler.ConcurrentSyncs = before })
	harness.CarryOut(t, cluster.Manager, func(c *manager.Config) { c.Controllers.HorizontalPodAutoscaler.ConcurrentSyncs = ptr.To[int32](6) })
	apis.set(apis.external, namespace+"/queue", "90")
	waitForAutoscaler(t, namespace, "web", "the next instance has evaluated it", func(hpa *autoscalingv2.HorizontalPodAutoscaler) error {
		if m := hpa.Status.CurrentMetrics; len(m) != 1 || m[0].External.Current.AverageValue.String() != "30" {
			return fmt.Errorf("metrics %+v", m)
		}
		if hpa.Status.DesiredReplicas != 3 {
			return await.Final(fmt.Errorf("%d replicas desired", hpa.Status.DesiredReplicas))
		}
		return nil
	})
	waitForAutoscaler(t, namespace, "web", "it is still limited", shows("ScalingLimited=True ScaleUpLimit"))
	waitForScale(t, namespace, 3)
}

func autoscalerStabilizes(t *testing.T, apis *metricsAPIs) {
	namespace := scaledDeployment(t, 3)
	apis.set(apis.external, namespace+"/queue", "10")
	createAutoscaler(t, namespace, "web", queueTarget("10"), func(s *autoscalingv2.HorizontalPodAutoscalerSpec) { s.Behavior = nil })
	waitForAutoscaler(t, namespace, "web", "the first size holds", shows(
		"AbleToScale=True ScaleDownStabilized: recent recommendations were higher than current one, applying the highest recent recommendation"))
	waitForScale(t, namespace, 3)
}

func autoscalersSharePods(t *testing.T, apis *metricsAPIs) {
	namespace := scaledDeployment(t, 2)
	apis.set(apis.external, namespace+"/queue", "20")
	createAutoscaler(t, namespace, "web", queueTarget("10"), nil)
	waitForScale(t, namespace, 2)
	createAutoscaler(t, namespace, "other", queueTarget("10"), nil)
	for _, name := range []string{"web", "other"} {
		waitForAutoscaler(t, namespace, name, name+" is refused", shows(fmt.Sprintf(
			"ScalingActive=False AmbiguousSelector: pods by selector app=web are controlled by multiple HPAs: [%s/other %s/web]", namespace, namespace)))
	}
	if err := admin.AutoscalingV2().HorizontalPodAutoscalers(namespace).Delete(t.Context(), "other", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForAutoscaler(t, namespace, "web", "the one left goes on", shows("ScalingActive=True ValidMetricFound"))
}

func autoscalerWithoutTarget(t *testing.T, _ *metricsAPIs) {
	namespace := scaledDeployment(t, 1)
	uid := createAutoscaler(t, namespace, "web", cpuTarget(50), func(s *autoscalingv2.HorizontalPodAutoscalerSpec) { s.ScaleTargetRef.Name = "gone" })
	waitForAutoscaler(t, namespace, "web", "it says so", shows(
		`AbleToScale=False FailedGetScale: the HPA controller was unable to get the target's current scale: deployments.apps "gone" not found`))
	cluster.WaitForEvent(t, namespace, uid, `horizontal-pod-autoscaler Warning FailedGetScale: deployments.apps "gone" not found`)
}
