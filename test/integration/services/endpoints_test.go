package services

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// subsetText is "ports: ready (not ready)", with pods by name, or by IP without a target.
func subsetText(s *corev1.EndpointSubset) string {
	var ports, all []string
	for _, p := range s.Ports {
		ports = append(ports, fmt.Sprintf("%s/%s/%d", p.Name, p.Protocol, p.Port))
	}
	for _, a := range s.Addresses {
		all = append(all, addressText(&a))
	}
	for _, a := range s.NotReadyAddresses {
		all = append(all, "("+addressText(&a)+")")
	}
	slices.Sort(ports)
	slices.Sort(all)
	return fmt.Sprint(ports, ": ", all)
}

func addressText(a *corev1.EndpointAddress) string {
	if a.TargetRef == nil {
		return a.IP
	}
	return a.TargetRef.Name
}

// waitForEndpoints waits until the Endpoints of the Service have just these subsets.
func waitForEndpoints(t *testing.T, namespace string, want ...string) *corev1.Endpoints {
	t.Helper()
	var found *corev1.Endpoints
	await.That(t, "the Endpoints are as they should be", func(ctx context.Context) (err error) {
		if found, err = admin.CoreV1().Endpoints(namespace).Get(ctx, "web", metav1.GetOptions{}); err != nil {
			return err
		}
		var got []string
		for i := range found.Subsets {
			got = append(got, subsetText(&found.Subsets[i]))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
	return found
}

// Pins EP-31a and EP-32.
func TestEndpointsDescribePods(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createService(t, namespace, nil)
	waitForEndpoints(t, namespace)
	pods := createPods(t, namespace, "web", 2)
	createPods(t, namespace, "other", 1)
	found := waitForEndpoints(t, namespace, "[http/TCP/8080]: [web-0 web-1]")
	labels := map[string]string{"team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
	if fmt.Sprint(found.Labels) != fmt.Sprint(labels) || len(found.OwnerReferences) != 0 {
		t.Errorf("the Endpoints are %+v", found.ObjectMeta)
	}
	if _, err := time.Parse(time.RFC3339Nano, found.Annotations[corev1.EndpointsLastChangeTriggerTime]); err != nil {
		t.Errorf("the trigger time: %v", err)
	}
	for _, a := range found.Subsets[0].Addresses {
		i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == a.TargetRef.Name })
		target := corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pods[i].Name, UID: pods[i].UID}
		if a.IP != pods[i].Status.PodIP || *a.NodeName != controlplane.NodeName(i) || *a.TargetRef != target || a.Hostname != "" {
			t.Errorf("the address of %s is %+v", pods[i].Name, a)
		}
	}
}

func TestEndpointsFollowPods(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createService(t, namespace, nil)
	createPods(t, namespace, "web", 2)
	waitForEndpoints(t, namespace, "[http/TCP/8080]: [web-0 web-1]")

	cluster.SetReady(t, namespace, "web-0", corev1.ConditionFalse)
	waitForEndpoints(t, namespace, "[http/TCP/8080]: [(web-0) web-1]")
	// Back at once, however far the cache lags.
	cluster.SetReady(t, namespace, "web-0", corev1.ConditionTrue)
	cluster.SetReady(t, namespace, "web-0", corev1.ConditionFalse)
	cluster.SetReady(t, namespace, "web-0", corev1.ConditionTrue)
	waitForEndpoints(t, namespace, "[http/TCP/8080]: [web-0 web-1]")

	cluster.PatchPod(t, namespace, "web-1", `{"metadata":{"finalizers":["`+harness.Hold+`"]}}`)
	if err := admin.CoreV1().Pods(namespace).Delete(t.Context(), "web-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// Unlike slices, Endpoints do not list what terminates.
	waitForEndpoints(t, namespace, "[http/TCP/8080]: [web-0]")
	cluster.PatchPod(t, namespace, "web-1", harness.NoFinalizers)

	cluster.PatchPod(t, namespace, "web-0", `{"metadata":{"labels":{"app":"other"}}}`)
	waitForEndpoints(t, namespace)
	cluster.PatchPod(t, namespace, "web-0", `{"metadata":{"labels":{"app":"web"}}}`)
	waitForEndpoints(t, namespace, "[http/TCP/8080]: [web-0]")
}

func TestEndpointsFollowService(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createService(t, namespace, nil)
	createPods(t, namespace, "web", 1)
	createPods(t, namespace, "other", 1)
	waitForEndpoints(t, namespace, "[http/TCP/8080]: [web-0]")
	patchService(t, namespace, `{"spec":{"selector":{"app":"other"}}}`)
	waitForEndpoints(t, namespace, "[http/TCP/8080]: [other-0]")
	patchService(t, namespace, `{"spec":{"ports":[{"name":"http","port":80,"targetPort":9090,"protocol":"TCP"},{"name":"dns","port":53,"protocol":"UDP"}]}}`)
	waitForEndpoints(t, namespace, "[dns/UDP/53 http/TCP/9090]: [other-0]")
	patchService(t, namespace, `{"spec":{"publishNotReadyAddresses":true},"metadata":{"labels":{"team":"b"}}}`)
	cluster.SetReady(t, namespace, "other-0", corev1.ConditionFalse)
	await.That(t, "the Endpoints have the Service's new label", func(ctx context.Context) error {
		found, err := admin.CoreV1().Endpoints(namespace).Get(ctx, "web", metav1.GetOptions{})
		if err == nil && found.Labels["team"] != "b" {
			err = fmt.Errorf("the labels are %v", found.Labels)
		}
		return err
	})
	waitForEndpoints(t, namespace, "[dns/UDP/53 http/TCP/9090]: [other-0]")
	if err := admin.CoreV1().Services(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.That(t, "the Endpoints are gone", func(ctx context.Context) error {
		_, err := admin.CoreV1().Endpoints(namespace).Get(ctx, "web", metav1.GetOptions{})
		return await.Gone(err)
	})
}

// Pins EP-28.
func TestEndpointsOfServiceThatWasExternal(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createPods(t, namespace, "web", 1)
	createService(t, namespace, func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
	})
	patchService(t, namespace, `{"spec":{"type":"ClusterIP","externalName":null}}`)
	waitForEndpoints(t, namespace, "[http/TCP/8080]: [web-0]")
}

// Pins EP-11 and EP-45.
func TestEndpointsAreMadeAgainAndAdopted(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createPods(t, namespace, "web", 1)
	endpoints := admin.CoreV1().Endpoints(namespace)
	foreign := &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{"kept": "yes"}},
		Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}}},
	}
	must.Get(endpoints.Create(t.Context(), foreign, metav1.CreateOptions{}))(t)
	createService(t, namespace, nil)
	first := waitForEndpoints(t, namespace, "[http/TCP/8080]: [web-0]")
	if first.Annotations["kept"] != "yes" {
		t.Errorf("the annotations are %v", first.Annotations)
	}
	if err := endpoints.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.That(t, "there are new Endpoints", func(ctx context.Context) error {
		found, err := endpoints.Get(ctx, "web", metav1.GetOptions{})
		if err == nil && found.UID == first.UID {
			err = fmt.Errorf("they are the old ones")
		}
		return err
	})
	waitForEndpoints(t, namespace, "[http/TCP/8080]: [web-0]")
}

// Pins EP-32 and EP-36d.
func TestEndpointsOfHeadlessService(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createService(t, namespace, func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.Ports = corev1.ClusterIPNone, nil })
	cluster.CreatePod(t, namespace, "named", "web", func(p *corev1.Pod) {
		harness.OnNode(0)(p)
		p.Spec.Hostname, p.Spec.Subdomain = "first", "web"
	})
	found := waitForEndpoints(t, namespace, "[]: [named]")
	if value, there := found.Labels[corev1.IsHeadlessService]; !there || value != "" {
		t.Errorf("the labels are %v", found.Labels)
	}
	if got := found.Subsets[0].Addresses[0].Hostname; got != "first" {
		t.Errorf("the hostname is %q", got)
	}
}

// Pins EP-32.
func TestEndpointsNamedPorts(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createService(t, namespace, func(s *corev1.Service) {
		s.Spec.Ports = []corev1.ServicePort{
			{Name: "http", Port: 80, TargetPort: intstr.FromString("web")},
			{Name: "all", Port: 90, TargetPort: intstr.FromInt32(90)},
		}
	})
	for name, port := range map[string]int32{"a": 8080, "b": 9090, "none": 0} {
		cluster.CreatePod(t, namespace, name, "web", func(p *corev1.Pod) {
			harness.OnNode(0)(p)
			if port > 0 {
				p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: port}}
			}
		})
	}
	waitForEndpoints(t, namespace, "[all/TCP/90]: [a b none]", "[http/TCP/8080]: [a]", "[http/TCP/9090]: [b]")
}

// createAddressed creates the i-th pod named web-<i>, Ready at an address of its own.
func createAddressed(ctx context.Context, namespace string, i int) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", i), Labels: map[string]string{"app": "web"}},
		Spec:       harness.PodSpec("web"),
	}
	pod.Spec.NodeName = harness.Ghost
	pod, err := admin.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	ip := fmt.Sprintf("10.99.%d.%d", i/250, i%250+1)
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	_, err = admin.CoreV1().Pods(namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// TestEndpointsHoldAtMostOneThousand fakes the pods' addresses: nobody runs them.
// Pins EP-36b.
func TestEndpointsHoldAtMostOneThousand(t *testing.T) {
	t.Parallel()
	const count, most = 1010, 1000
	namespace := cluster.NamespaceForPods(t)
	var requests errgroup.Group
	requests.SetLimit(8)
	for i := range count {
		requests.Go(func() error { return createAddressed(t.Context(), namespace, i) })
	}
	if err := requests.Wait(); err != nil {
		t.Fatal(err)
	}
	createService(t, namespace, nil)
	endpoints := admin.CoreV1().Endpoints(namespace)
	var full *corev1.Endpoints
	await.That(t, "the Endpoints are full", func(ctx context.Context) (err error) {
		full, err = endpoints.Get(ctx, "web", metav1.GetOptions{})
		if err == nil && (full.Annotations[corev1.EndpointsOverCapacity] != "truncated" || len(full.Subsets) != 1 || len(full.Subsets[0].Addresses) != most) {
			err = fmt.Errorf("they are %v", full.ObjectMeta)
		}
		return err
	})
	cluster.SetReady(t, namespace, "web-0", corev1.ConditionFalse)
	for i := range count - most + 5 {
		cluster.DeletePodNow(t, namespace, fmt.Sprintf("web-%d", i))
	}
	await.That(t, "the Endpoints are not full any more", func(ctx context.Context) error {
		found, err := endpoints.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if _, marked := found.Annotations[corev1.EndpointsOverCapacity]; marked || len(found.Subsets[0].Addresses) != most-5 {
			return fmt.Errorf("they have %d addresses, annotations %v", len(found.Subsets[0].Addresses), found.Annotations)
		}
		return nil
	})
}

// TestEndpointsOfUsersAreLeftAlone: the second Service shows that the first was seen.
// Pins EP-28.
func TestEndpointsOfUsersAreLeftAlone(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createPods(t, namespace, "web", 1)
	own := &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: "own"},
		Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}}},
	}
	endpoints := admin.CoreV1().Endpoints(namespace)
	own = must.Get(endpoints.Create(t.Context(), own, metav1.CreateOptions{}))(t)
	createService(t, namespace, func(s *corev1.Service) { s.Name, s.Spec.Selector = "own", nil })
	createService(t, namespace, nil)
	waitForEndpoints(t, namespace, "[http/TCP/8080]: [web-0]")
	must.Get(admin.CoreV1().Services(namespace).Patch(t.Context(), "own", types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"b"}}}`), metav1.PatchOptions{}))(t)
	patchService(t, namespace, `{"spec":{"selector":{"app":"none"}}}`)
	waitForEndpoints(t, namespace)
	if found := must.Get(endpoints.Get(t.Context(), "own", metav1.GetOptions{}))(t); found.ResourceVersion != own.ResourceVersion {
		t.Errorf("the Endpoints were changed: %+v", found)
	}
}
