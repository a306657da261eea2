package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// resources makes a list of "name=quantity", separated by spaces.
func resources(text string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for pair := range strings.FieldsSeq(text) {
		name, quantity, _ := strings.Cut(pair, "=")
		list[corev1.ResourceName(name)] = resource.MustParse(quantity)
	}
	return list
}

// differ says how a list is not what is wanted.
func differ(got corev1.ResourceList, want string) error {
	wanted := resources(want)
	for name, quantity := range wanted {
		if is, ok := got[name]; !ok || is.Cmp(quantity) != 0 {
			return fmt.Errorf("%s is %s, want %s", name, is.String(), quantity.String())
		}
	}
	if len(got) != len(wanted) {
		return fmt.Errorf("got %v, want %s", got, want)
	}
	return nil
}

// createQuota creates a ResourceQuota with hard limits.
func createQuota(t *testing.T, namespace, name, hard string, edits ...func(*corev1.ResourceQuota)) {
	t.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: resources(hard)}}
	for _, edit := range edits {
		edit(quota)
	}
	must.Get(admin.CoreV1().ResourceQuotas(namespace).Create(t.Context(), quota, metav1.CreateOptions{}))(t)
}

// updateQuota changes the spec of a quota.
func updateQuota(t *testing.T, namespace, name string, change func(*corev1.ResourceQuota)) {
	t.Helper()
	quotas := admin.CoreV1().ResourceQuotas(namespace)
	must.Succeed(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		quota, err := quotas.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(quota)
		_, err = quotas.Update(t.Context(), quota, metav1.UpdateOptions{})
		return err
	}))
}

// waitForUsed waits until a quota has the limits of its spec in force, and exactly this usage.
func waitForUsed(t *testing.T, namespace, name, used string) {
	t.Helper()
	await.That(t, fmt.Sprintf("of %s is used: %s", name, used), func(ctx context.Context) error {
		quota, err := admin.CoreV1().ResourceQuotas(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(quota.Status.Hard) != len(quota.Spec.Hard) {
			return errors.New("the limits are not in force")
		}
		return differ(quota.Status.Used, used)
	})
}

// askingFor gives a pod requests and limits.
func askingFor(requests, limits string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: resources(requests), Limits: resources(limits)}
	}
}

// A quota counts what was there before it, admission charges what comes, and what goes makes room
// at once: the next full recalculation is an hour away. Pins QUOTA-17.
func TestQuotaLimitsPods(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	cluster.CreatePod(t, namespace, "early", "web", askingFor("cpu=100m memory=1Mi", "cpu=200m"))
	createQuota(t, namespace, "quota", "pods=3 count/pods=10 requests.cpu=1 cpu=1 memory=1Gi limits.cpu=1")
	waitForUsed(t, namespace, "quota", "pods=1 count/pods=1 requests.cpu=100m cpu=100m memory=1Mi limits.cpu=200m")
	cluster.CreatePod(t, namespace, "second", "web", askingFor("cpu=300m memory=1Mi", "cpu=300m"))
	cluster.CreatePod(t, namespace, "third", "web", askingFor("cpu=300m memory=1Mi", "cpu=300m"))
	waitForUsed(t, namespace, "quota", "pods=3 count/pods=3 requests.cpu=700m cpu=700m memory=3Mi limits.cpu=800m")

	fourth := func(ctx context.Context) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "fourth"}, Spec: harness.PodSpec("web")}
		askingFor("cpu=300m memory=1Mi", "cpu=300m")(pod)
		_, err := admin.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	}
	if err := fourth(t.Context()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: quota") {
		t.Fatalf("a fourth pod: got %v, want that the quota is exceeded", err)
	}
	cluster.DeletePodNow(t, namespace, "second")
	began := time.Now()
	await.That(t, "there is room for the fourth pod", fourth)
	t.Logf("there was room %v after a pod was deleted", time.Since(began).Round(time.Millisecond))

	cluster.PatchPodStatus(t, namespace, "third", map[string]any{"phase": "Succeeded"})
	waitForUsed(t, namespace, "quota", "pods=2 count/pods=3 requests.cpu=400m cpu=400m memory=2Mi limits.cpu=500m")
}

// Each scope counts its pods only.
func TestQuotaScopesOfPods(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	class := func(q *corev1.ResourceQuota) {
		q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
			ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"system-node-critical"},
		}}}
	}
	scope := func(scopes ...corev1.ResourceQuotaScope) func(*corev1.ResourceQuota) {
		return func(q *corev1.ResourceQuota) { q.Spec.Scopes = scopes }
	}
	for name, edit := range map[string]func(*corev1.ResourceQuota){
		"terminating": scope(corev1.ResourceQuotaScopeTerminating), "not-terminating": scope(corev1.ResourceQuotaScopeNotTerminating),
		"best-effort": scope(corev1.ResourceQuotaScopeBestEffort), "not-best-effort": scope(corev1.ResourceQuotaScopeNotBestEffort),
		"terminating-best-effort": scope(corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeBestEffort),
		"crossing":                scope(corev1.ResourceQuotaScopeCrossNamespacePodAffinity), "critical": class,
	} {
		createQuota(t, namespace, name, "pods=10", edit)
		waitForUsed(t, namespace, name, "pods=0")
	}
	deadline := func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](3600) }
	cluster.CreatePod(t, namespace, "plain", "web", nil)
	cluster.CreatePod(t, namespace, "limited", "web", deadline)
	cluster.CreatePod(t, namespace, "asking", "web", func(pod *corev1.Pod) { deadline(pod); askingFor("cpu=1m", "")(pod) })
	cluster.CreatePod(t, namespace, "crossing", "web", func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "zone", Namespaces: []string{"elsewhere"}, LabelSelector: &metav1.LabelSelector{}},
		}}}}
	})
	cluster.CreatePod(t, namespace, "critical", "web", func(pod *corev1.Pod) { pod.Spec.PriorityClassName = "system-node-critical" })
	want := map[string][2]string{
		"terminating": {"pods=2", "pods=1"}, "not-terminating": {"pods=3", "pods=3"},
		"best-effort": {"pods=4", "pods=3"}, "not-best-effort": {"pods=1", "pods=1"},
		"terminating-best-effort": {"pods=1", "pods=0"}, "crossing": {"pods=1", "pods=1"}, "critical": {"pods=1", "pods=1"},
	}
	for name, used := range want {
		waitForUsed(t, namespace, name, used[0])
	}
	cluster.DeletePodNow(t, namespace, "limited")
	for name, used := range want {
		waitForUsed(t, namespace, name, used[1])
	}
}

// Other limits are in force at once, with usage for what was not limited before. Pins QUOTA-8a.
func TestQuotaGetsOtherLimits(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	cluster.CreateConfigMap(t, namespace, "one")
	createQuota(t, namespace, "quota", "secrets=5")
	waitForUsed(t, namespace, "quota", "secrets=0")
	updateQuota(t, namespace, "quota", func(q *corev1.ResourceQuota) { q.Spec.Hard = resources("count/configmaps=7") })
	await.That(t, "the ConfigMaps are counted", func(ctx context.Context) error {
		quota, err := admin.CoreV1().ResourceQuotas(namespace).Get(ctx, "quota", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return differ(quota.Status.Hard, "count/configmaps=7")
	})
	maps, err := admin.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	must.Succeed(t, err)
	waitForUsed(t, namespace, "quota", fmt.Sprintf("count/configmaps=%d", len(maps.Items)))
}
