package endpoints

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kcmd.dev/pkg/controllers/kit/controllertest"
)

var defaults = config{concurrentSyncs: 5}

// bench is a controller on a fake API server, with its caches filled.
type bench struct {
	*controllertest.Env
	c *endpointsController
}

func newBench(t testing.TB, config config, objects ...runtime.Object) *bench {
	t.Helper()
	env := controllertest.New(t, objects...)
	env.StampWrites("endpoints")
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
	b.c.memory = inherited(b.c.predecessor())
	return b
}

func (b *bench) reconcile(t testing.TB) {
	t.Helper()
	if err := b.c.reconcile(b.Context(), "n/web"); err != nil {
		t.Fatalf("reconcile: %v", err)
	}
}

// stored returns the Endpoints that the API server holds, nil if none.
func (b *bench) stored(t testing.TB) *corev1.Endpoints {
	t.Helper()
	object, err := b.Fake.Tracker().Get(corev1.SchemeGroupVersion.WithResource("endpoints"), "n", "web")
	if err != nil {
		return nil
	}
	return object.(*corev1.Endpoints)
}

// observed waits until the cache shows the stored Endpoints as they are.
func (b *bench) observed(t testing.TB) {
	t.Helper()
	version := b.stored(t).ResourceVersion
	controllertest.Eventually(t, "the cache shows what is stored", func() bool {
		cached, err := b.c.endpoints.Endpoints("n").Get("web")
		return err == nil && cached.ResourceVersion == version
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
	case *corev1.Pod:
		err = core.Pods().Informer().GetIndexer().Update(obj)
	case *corev1.Endpoints:
		err = core.Endpoints().Informer().GetIndexer().Update(obj)
	default:
		t.Fatalf("no cache for a %T", obj)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// writes are the verbs of the requests that change Endpoints.
func (b *bench) writes() (verbs []string) {
	for _, action := range b.Writes() {
		verbs = append(verbs, action.GetVerb())
	}
	return verbs
}

var created = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func testService(change ...func(*corev1.Service)) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "web", UID: "service", ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(created),
			Labels:            map[string]string{"team": "a"},
		},
		Spec: corev1.ServiceSpec{
			Selector:   map[string]string{"app": "web"},
			ClusterIP:  "10.0.0.1",
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:      []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	for _, c := range change {
		c(service)
	}
	return service
}

func testPod(i int, change ...func(*corev1.Pod)) *corev1.Pod {
	ip := fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: fmt.Sprintf("web-%d", i), UID: types.UID(fmt.Sprintf("pod-%d", i)),
			ResourceVersion: "1", Labels: map[string]string{"app": "web"},
		},
		Spec: corev1.PodSpec{NodeName: "node-a"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			PodIP:      ip,
			PodIPs:     []corev1.PodIP{{IP: ip}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func notReady(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

// testEndpoints are what the controller makes of the Service and these pods.
func testEndpoints(pods []*corev1.Pod, change ...func(*corev1.Endpoints)) *corev1.Endpoints {
	endpoints := newContents(testService(), pods).applied(nil, created)
	endpoints.ResourceVersion, endpoints.UID = "1", "endpoints"
	endpoints = endpoints.DeepCopy()
	for _, c := range change {
		c(endpoints)
	}
	return endpoints
}

// addresses shows subsets as "ready not-ready" lists of pods with the ports they have.
func addresses(subsets []corev1.EndpointSubset) (lines []string) {
	names := func(list []corev1.EndpointAddress) (all []string) {
		for _, a := range list {
			all = append(all, a.TargetRef.Name)
		}
		return all
	}
	for _, s := range subsets {
		var ports []string
		for _, p := range s.Ports {
			ports = append(ports, fmt.Sprintf("%s:%d/%s", p.Name, p.Port, p.Protocol))
		}
		lines = append(lines, fmt.Sprint(ports, " ", names(s.Addresses), " ", names(s.NotReadyAddresses)))
	}
	return lines
}
