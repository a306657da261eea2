package endpointslicemirroring

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/controllertest"
)

var (
	defaults = config{concurrentSyncs: 5, maxEndpoints: 1000}
	web      = types.NamespacedName{Namespace: "n", Name: "web"}
)

// bench is a controller on a fake API server, with its caches filled.
type bench struct {
	*controllertest.Env
	c *mirroringController
}

func newBench(t testing.TB, config config, objects ...runtime.Object) *bench {
	t.Helper()
	env := controllertest.New(t, objects...)
	env.StampWrites("endpointslices")
	c, err := newController(env.Env, config)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{env, c}
}

// begin fills the caches and readies the controller for single reconciles.
func (b *bench) begin(t testing.TB) *bench {
	t.Helper()
	b.Start(t)
	if err := b.c.inherit(); err != nil {
		t.Fatal(err)
	}
	b.c.began = true
	return b
}

func (b *bench) reconcile(t testing.TB) {
	t.Helper()
	if err := b.c.reconcile(b.Context(), "n/web"); err != nil {
		t.Fatalf("reconcile: %v", err)
	}
}

// stored returns the slices that the API server holds.
func (b *bench) stored(t testing.TB) []*discoveryv1.EndpointSlice {
	t.Helper()
	list, err := b.Fake.Tracker().List(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), "n")
	if err != nil {
		t.Fatal(err)
	}
	var all []*discoveryv1.EndpointSlice
	for _, slice := range list.(*discoveryv1.EndpointSliceList).Items {
		all = append(all, &slice)
	}
	return all
}

// observed waits until the cache shows every stored slice as it is.
func (b *bench) observed(t testing.TB) {
	t.Helper()
	controllertest.Eventually(t, "the cache shows what is stored", func() bool {
		cached, err := b.c.slices.Of("n", "web")
		stored := b.stored(t)
		if err != nil || len(cached) != len(stored) {
			return false
		}
		for _, s := range stored {
			if !slices.ContainsFunc(cached, func(c *discoveryv1.EndpointSlice) bool {
				return c.Name == s.Name && c.ResourceVersion == s.ResourceVersion
			}) {
				return false
			}
		}
		return true
	})
}

// put changes an object in a cache.
func (b *bench) put(t testing.TB, obj any) {
	t.Helper()
	core := b.Informers.Core().V1()
	var err error
	switch obj.(type) {
	case *corev1.Service:
		err = core.Services().Informer().GetIndexer().Update(obj)
	case *corev1.Endpoints:
		err = core.Endpoints().Informer().GetIndexer().Update(obj)
	case *discoveryv1.EndpointSlice:
		err = b.Informers.Discovery().V1().EndpointSlices().Informer().GetIndexer().Update(obj)
	default:
		t.Fatalf("no cache for a %T", obj)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// writes are the verbs of the requests that change slices.
func (b *bench) writes() (verbs []string) {
	for _, action := range b.Writes() {
		verbs = append(verbs, action.GetVerb())
	}
	return verbs
}

func testService(selector map[string]string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web"}, Spec: corev1.ServiceSpec{Selector: selector}}
}

func subset(port int32, ready, notReady []string) corev1.EndpointSubset {
	list := func(ips []string) (all []corev1.EndpointAddress) {
		for _, ip := range ips {
			all = append(all, corev1.EndpointAddress{IP: ip})
		}
		return all
	}
	s := corev1.EndpointSubset{Addresses: list(ready), NotReadyAddresses: list(notReady)}
	if port > 0 {
		s.Ports = []corev1.EndpointPort{{Name: "p", Port: port, Protocol: corev1.ProtocolTCP}}
	}
	return s
}

func testEndpoints(subsets ...corev1.EndpointSubset) *corev1.Endpoints {
	return &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web", UID: "endpoints", Labels: map[string]string{"team": "a"}},
		Subsets:    subsets,
	}
}

// oneAddress are Endpoints with an address and a port.
func oneAddress(change ...func(*corev1.Endpoints)) *corev1.Endpoints {
	e := testEndpoints(subset(80, []string{"10.0.0.1"}, nil))
	for _, c := range change {
		c(e)
	}
	return e
}

// sliceOf is the first slice that is made of Endpoints, with a name.
func sliceOf(name string, endpoints *corev1.Endpoints, change ...func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	groups, _ := desiredGroups(endpoints, 1000)
	slice := newSlice(endpoints, groups[0]).DeepCopy()
	slice.Name, slice.GenerateName, slice.UID, slice.Generation, slice.ResourceVersion = name, "", types.UID(name), 1, "1"
	for _, c := range change {
		c(slice)
	}
	return slice
}

// sliceText is "type ports: addresses", with those that are not ready in brackets.
func sliceText(addressType discoveryv1.AddressType, ports []discoveryv1.EndpointPort, endpoints []discoveryv1.Endpoint) string {
	var numbers, ips []string
	for _, p := range ports {
		numbers = append(numbers, fmt.Sprint(*p.Port))
	}
	for _, e := range endpoints {
		ip := strings.Join(e.Addresses, ",")
		if !ptr.Deref(e.Conditions.Ready, false) {
			ip = "(" + ip + ")"
		}
		ips = append(ips, ip)
	}
	slices.Sort(numbers)
	slices.Sort(ips)
	return fmt.Sprintf("%s %s: %s", addressType, strings.Join(numbers, ","), strings.Join(ips, " "))
}

func sliceTexts(all []*discoveryv1.EndpointSlice) (texts []string) {
	for _, s := range all {
		texts = append(texts, sliceText(s.AddressType, s.Ports, s.Endpoints))
	}
	slices.SortFunc(texts, cmp.Compare[string])
	return texts
}
