package index

import (
	"fmt"
	"math/rand"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

func TestAnchorIsTheSharedPairWithTheLongestValue(t *testing.T) {
	for name, tc := range map[string]struct {
		selector map[string]string
		want     string
		ok       bool
	}{
		"nil":                 {nil, "", false},
		"empty":               {map[string]string{}, "", false},
		"one pair":            {map[string]string{"app": "web"}, "app", true},
		"empty value":         {map[string]string{"app": ""}, "app", true},
		"longest value":       {map[string]string{"app": "web", "statefulset.kubernetes.io/pod-name": "web-0"}, "statefulset.kubernetes.io/pod-name", true},
		"tie by key":          {map[string]string{"tier": "one", "app": "two"}, "app", true},
		"stamped label":       {map[string]string{"app": "x", "pod-template-hash": "5d4f8c7b9"}, "app", true},
		"only stamped labels": {map[string]string{"pod-template-hash": "5d4f8c7b9", "job-name": "j"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := anchor(tc.selector)
			if got != tc.want || ok != tc.ok {
				t.Errorf("anchor = %q, %v, want %q, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestIndexesFindWhatAScanWouldFind(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	services, pods := newStore(servicesBySelector, serviceKeys), newStore(podsByLabel, podKeys)
	var allServices []*corev1.Service
	var allPods []*corev1.Pod
	for i := range 300 {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: randomNamespace(random), Name: strconv.Itoa(i)}}
		service.Spec.Selector = randomLabels(random, 3)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: randomNamespace(random), Name: strconv.Itoa(i), Labels: randomLabels(random, 5)}}
		allServices, allPods = append(allServices, service), append(allPods, pod)
		add(t, services, service)
		add(t, pods, pod)
	}
	matches := sameAsScan(t, allPods, allServices, func(pod *corev1.Pod, service *corev1.Service) bool { return selects(service, pod) },
		func(pod *corev1.Pod) ([]*corev1.Service, error) {
			return Services{services}.Selecting(pod.Namespace, pod.Labels)
		})
	sameAsScan(t, allServices, allPods, selects, func(service *corev1.Service) ([]*corev1.Pod, error) {
		return SelectedPods{pods}.By(service.Namespace, service.Spec.Selector)
	})
	if matches < 100 {
		t.Errorf("only %d pairs matched: the test compares nothing", matches)
	}
}

// sameAsScan compares what is found for each object with what a scan of all candidates finds,
// and returns how many that is in all.
func sameAsScan[T, C metav1.Object](t *testing.T, objects []T, candidates []C, match func(T, C) bool, find func(T) ([]C, error)) (matches int) {
	t.Helper()
	for _, object := range objects {
		var want []string
		for _, candidate := range candidates {
			if match(object, candidate) {
				want = append(want, candidate.GetName())
			}
		}
		got, err := find(object)
		compare(t, want, names(got), err)
		matches += len(want)
	}
	return matches
}

func TestEndpointSlicesAreFiledUnderTheServiceOfTheirLabel(t *testing.T) {
	store := newStore(endpointSlicesByService, endpointSliceKeys)
	for name, service := range map[string]string{"a": "web", "b": "web", "c": "other", "d": ""} {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: service}
		add(t, store, slice)
	}
	elsewhere := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "m", Name: "e"}}
	elsewhere.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
	add(t, store, elsewhere)
	got, err := EndpointSlices{store}.Of("n", "web")
	compare(t, []string{"a", "b"}, names(got), err)
	got, err = EndpointSlices{store}.Of("n", "")
	compare(t, nil, names(got), err)
}

// BenchmarkServicesSelecting must not grow with the number of Services in the namespace.
func BenchmarkServicesSelecting(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		services := newStore(servicesBySelector, serviceKeys)
		for i := range size {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: strconv.Itoa(i)}}
			service.Spec.Selector = map[string]string{"app": fmt.Sprintf("app-%d", i), "tier": "web"}
			add(b, services, service)
		}
		pod := labels.Set{"app": "app-42", "tier": "web", "pod-template-hash": "5d4f8c7b9"}
		b.Run(fmt.Sprintf("services=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				found, err := Services{services}.Selecting("n", pod)
				if err != nil || len(found) != 1 {
					b.Fatalf("found %d, %v", len(found), err)
				}
			}
		})
	}
}

func newStore(name string, keys cache.IndexFunc) cache.Indexer {
	return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
		name: keys, cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
	})
}

func add(t testing.TB, store cache.Indexer, obj any) {
	t.Helper()
	if err := store.Add(obj); err != nil {
		t.Fatal(err)
	}
}

func selects(service *corev1.Service, pod *corev1.Pod) bool {
	return service.Namespace == pod.Namespace && service.Spec.Selector != nil &&
		labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels))
}

func randomNamespace(random *rand.Rand) string { return []string{"n", "m"}[random.Intn(2)] }

// randomLabels returns nil, nothing, or up to most pairs, some with stamped keys.
func randomLabels(random *rand.Rand, most int) map[string]string {
	if random.Intn(10) == 0 {
		return nil
	}
	keys := []string{"app", "tier", "app.kubernetes.io/name", "pod-template-hash", "job-name"}
	set := map[string]string{}
	for range random.Intn(most + 1) {
		set[keys[random.Intn(len(keys))]] = []string{"", "a", "bb"}[random.Intn(3)]
	}
	return set
}

func names[T metav1.Object](objects []T) []string {
	var all []string
	for _, object := range objects {
		all = append(all, object.GetName())
	}
	return all
}

func compare(t *testing.T, want, got []string, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("found %v, want %v", got, want)
	}
}
