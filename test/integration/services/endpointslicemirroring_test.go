package services

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

// createOwnEndpoints creates Endpoints named web as a user does.
func createOwnEndpoints(t *testing.T, namespace string, edit func(*corev1.Endpoints)) *corev1.Endpoints {
	t.Helper()
	e := &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"team": "a"}},
		Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}},
			Ports:     []corev1.EndpointPort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP}},
		}},
	}
	if edit != nil {
		edit(e)
	}
	return must.Get(admin.CoreV1().Endpoints(namespace).Create(t.Context(), e, metav1.CreateOptions{}))(t)
}

func patchEndpoints(t *testing.T, namespace, patch string) {
	t.Helper()
	must.Get(admin.CoreV1().Endpoints(namespace).Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
}

func withoutSelector(s *corev1.Service) { s.Spec.Selector = nil }

// waitForMirror waits until the slices are just these, "family ports: addresses".
func waitForMirror(t *testing.T, namespace string, want ...string) []discoveryv1.EndpointSlice {
	t.Helper()
	var found []discoveryv1.EndpointSlice
	await.That(t, "the Endpoints are mirrored", func(ctx context.Context) (err error) {
		if found, err = slicesOf(ctx, namespace); err != nil {
			return err
		}
		var got []string
		for i := range found {
			if found[i].Labels[discoveryv1.LabelManagedBy] == "endpointslicemirroring-controller.k8s.io" {
				got = append(got, mirrorText(&found[i]))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
	return found
}

func mirrorText(s *discoveryv1.EndpointSlice) string {
	var all []string
	for _, e := range s.Endpoints {
		text := strings.Join(e.Addresses, ",")
		if !*e.Conditions.Ready {
			text = "(" + text + ")"
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return fmt.Sprintf("%s %s: %s", s.AddressType, portText(s), strings.Join(all, " "))
}

// Pins EPM-18 and EPM-20c.
func TestMirrorOfEndpoints(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createService(t, namespace, withoutSelector)
	endpoints := createOwnEndpoints(t, namespace, func(e *corev1.Endpoints) {
		e.Annotations = map[string]string{"kept": "yes", corev1.LastAppliedConfigAnnotation: "{}"}
	})
	slice := waitForMirror(t, namespace, "IPv4 http/TCP/8080: 192.0.2.1")[0]
	labels := map[string]string{"team": "a", discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslicemirroring-controller.k8s.io"}
	if !maps.Equal(slice.Labels, labels) || !maps.Equal(slice.Annotations, map[string]string{"kept": "yes"}) ||
		slice.GenerateName != "web-" || !metav1.IsControlledBy(&slice, endpoints) || !*slice.OwnerReferences[0].BlockOwnerDeletion {
		t.Errorf("the slice is %+v", slice.ObjectMeta)
	}
	if c := slice.Endpoints[0].Conditions; c.Serving != nil || c.Terminating != nil {
		t.Errorf("the conditions are %+v", c)
	}
	patchEndpoints(t, namespace, `{"subsets":[{"addresses":[{"ip":"192.0.2.1"},{"ip":"2001:db8::1"}],"notReadyAddresses":[{"ip":"192.0.2.2"}],"ports":[{"name":"http","port":9090}]}]}`)
	found := waitForMirror(t, namespace, "IPv4 http/TCP/9090: (192.0.2.2) 192.0.2.1", "IPv6 http/TCP/9090: 2001:db8::1")
	if found[0].UID != slice.UID {
		t.Error("the slice was not used again")
	}
	patchEndpoints(t, namespace, `{"subsets":[{"addresses":[{"ip":"192.0.2.1"}]},{"addresses":[{"ip":"192.0.2.3"}],"ports":[{"name":"dns","port":53,"protocol":"UDP"}]}]}`)
	waitForMirror(t, namespace, "IPv4 : 192.0.2.1", "IPv4 dns/UDP/53: 192.0.2.3")
	patchEndpoints(t, namespace, `{"subsets":[]}`)
	waitForMirror(t, namespace)
	patchEndpoints(t, namespace, `{"subsets":[{"addresses":[{"ip":"192.0.2.1"}],"ports":[{"name":"http","port":80}]}]}`)
	waitForMirror(t, namespace, "IPv4 http/TCP/80: 192.0.2.1")
	if err := admin.CoreV1().Endpoints(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForMirror(t, namespace)
}

// Pins EPM-33.
func TestMirrorFollowsMetadata(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createService(t, namespace, withoutSelector)
	createOwnEndpoints(t, namespace, nil)
	waitForMirror(t, namespace, "IPv4 http/TCP/8080: 192.0.2.1")
	patchEndpoints(t, namespace, `{"metadata":{"labels":{"team":null,"zone":"x"},"annotations":{"note":"y","`+corev1.LastAppliedConfigAnnotation+`":"{}"}}}`)
	await.That(t, "labels and annotations are mirrored", func(ctx context.Context) error {
		found, err := slicesOf(ctx, namespace)
		if err != nil {
			return err
		}
		labels := map[string]string{"zone": "x", discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslicemirroring-controller.k8s.io"}
		if len(found) != 1 || !maps.Equal(found[0].Labels, labels) || !maps.Equal(found[0].Annotations, map[string]string{"note": "y"}) {
			return fmt.Errorf("the slices are %v", found)
		}
		return nil
	})
}

// Pins EPM-11.
func TestMirrorIsRepaired(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createService(t, namespace, withoutSelector)
	createOwnEndpoints(t, namespace, nil)
	first := waitForMirror(t, namespace, "IPv4 http/TCP/8080: 192.0.2.1")[0]
	client := admin.DiscoveryV1().EndpointSlices(namespace)
	must.Get(client.Patch(t.Context(), first.Name, types.MergePatchType, []byte(`{"endpoints":[]}`), metav1.PatchOptions{}))(t)
	waitForMirror(t, namespace, "IPv4 http/TCP/8080: 192.0.2.1")
	if err := client.Delete(t.Context(), first.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.That(t, "there is another slice", func(ctx context.Context) error {
		found, err := slicesOf(ctx, namespace)
		if err == nil && (len(found) != 1 || found[0].UID == first.UID) {
			err = fmt.Errorf("the slices are %v", found)
		}
		return err
	})
}

func TestMirrorBeginsAndEnds(t *testing.T) {
	t.Parallel()
	const mirrored = "IPv4 http/TCP/8080: 192.0.2.1"
	for name, step := range map[string]struct{ end, begin func(*testing.T, string) }{
		"service": {
			func(t *testing.T, namespace string) {
				if err := admin.CoreV1().Services(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				await.That(t, "the Endpoints are gone with their Service", func(ctx context.Context) error {
					_, err := admin.CoreV1().Endpoints(namespace).Get(ctx, "web", metav1.GetOptions{})
					return await.Gone(err)
				})
			},
			func(t *testing.T, namespace string) {
				createService(t, namespace, withoutSelector)
				createOwnEndpoints(t, namespace, nil)
			},
		},
		"skip label": {
			func(t *testing.T, namespace string) {
				patchEndpoints(t, namespace, `{"metadata":{"labels":{"`+discoveryv1.LabelSkipMirror+`":"true"}}}`)
			},
			func(t *testing.T, namespace string) {
				patchEndpoints(t, namespace, `{"metadata":{"labels":{"`+discoveryv1.LabelSkipMirror+`":null}}}`)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := cluster.NamespaceForPods(t)
			createService(t, namespace, withoutSelector)
			createOwnEndpoints(t, namespace, nil)
			waitForMirror(t, namespace, mirrored)
			step.end(t, namespace)
			waitForMirror(t, namespace)
			step.begin(t, namespace)
			waitForMirror(t, namespace, mirrored)
		})
	}
}

// TestMirrorOfServiceThatGetsASelector: what a selector found stays when it goes, and is
// mirrored then.
// Pins EPM-34.
func TestMirrorOfServiceThatGetsASelector(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	pods := createPods(t, namespace, "web", 1)
	createService(t, namespace, withoutSelector)
	createOwnEndpoints(t, namespace, nil)
	waitForMirror(t, namespace, "IPv4 http/TCP/8080: 192.0.2.1")
	patchService(t, namespace, `{"spec":{"selector":{"app":"web"}}}`)
	waitForMirror(t, namespace)
	waitForEndpoints(t, namespace, "[http/TCP/8080]: [web-0]")
	patchService(t, namespace, `{"spec":{"selector":null}}`)
	waitForMirror(t, namespace, "IPv4 http/TCP/8080: "+pods[0].Status.PodIP)
}

// Pins EPM-23 and EPM-24.
func TestMirrorReportsWhatItSkips(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createService(t, namespace, withoutSelector)
	endpoints := createOwnEndpoints(t, namespace, func(e *corev1.Endpoints) {
		for i := range 1004 {
			e.Subsets[0].Addresses = append(e.Subsets[0].Addresses, corev1.EndpointAddress{IP: fmt.Sprintf("198.51.%d.%d", i/250, i%250+1)})
		}
	})
	cluster.WaitForEvent(t, namespace, endpoints.UID, "endpoint-slice-mirroring-controller Warning TooManyAddressesToMirror: "+
		"A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 5 addresses were skipped")
	await.That(t, "the slice is full", func(ctx context.Context) error {
		found, err := slicesOf(ctx, namespace)
		if err == nil && (len(found) != 1 || len(found[0].Endpoints) != 1000) {
			err = errors.New("it is not")
		}
		return err
	})
}
