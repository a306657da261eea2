package simulation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func newPod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": name}}}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func owned(names ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for i, name := range names {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{
				APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID("of-" + name), Controller: ptr.To(i == 0),
			})
		}
	}
}

// causesOf returns the reason of an error, and the fields that it names.
func causesOf(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	named := []string{string(status.Status().Reason)}
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			named = append(named, cause.Field)
		}
	}
	return named
}

func TestPatches(t *testing.T) {
	const strategic, merge = types.StrategicMergePatchType, types.MergePatchType
	of := func(name string) []string { return []string{"of-" + name} }
	for _, test := range []struct {
		name   string
		pod    *corev1.Pod
		kind   types.PatchType
		patch  string
		want   []string // of the error
		owners []string
	}{
		{"right UID", newPod("p"), strategic, `{"metadata":{"uid":"u1"}}`, nil, nil},
		{"other UID", newPod("p"), strategic, `{"metadata":{"uid":"u9"}}`, []string{"Invalid", "metadata.uid"}, nil},
		{"merge patch", newPod("p"), merge, `{"metadata":{"uid":"u1","labels":{"a":"b"}}}`, nil, nil},
		{"merge patch, other UID", newPod("p"), merge, `{"metadata":{"uid":"u9"}}`, []string{"Invalid", "metadata.uid"}, nil},
		{
			"other version, of another object", newPod("p"), strategic, `{"metadata":{"uid":"u9","resourceVersion":"1"}}`,
			[]string{"Conflict"}, nil,
		},
		{
			"released", newPod("p", owned("a", "b")), strategic,
			`{"metadata":{"uid":"u1","ownerReferences":[{"$patch":"delete","uid":"of-a"}]}}`, nil, of("b"),
		},
		{
			"released, is of another", newPod("p", owned("b")), strategic,
			`{"metadata":{"uid":"u1","ownerReferences":[{"$patch":"delete","uid":"of-a"}]}}`, nil, of("b"),
		},
		{
			"released, has no owners", newPod("p"), strategic,
			`{"metadata":{"uid":"u1","ownerReferences":[{"$patch":"delete","uid":"of-a"}]}}`, nil, nil,
		},
		{
			"owner without a name", newPod("p"), strategic, `{"metadata":{"ownerReferences":[{"uid":"of-a"}]}}`,
			[]string{
				"Invalid", "metadata.ownerReferences.apiVersion", "metadata.ownerReferences.kind", "metadata.ownerReferences.name",
			}, nil,
		},
		{
			"second controller", newPod("p", owned("b")), strategic,
			`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"of-a","controller":true}]}}`,
			[]string{"Invalid", "metadata.ownerReferences"}, of("b"),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := New(t, 1)
			w.Create(test.pod)
			_, err := w.Client.CoreV1().Pods("ns").Patch(t.Context(), "p", test.kind, []byte(test.patch), metav1.PatchOptions{})
			if got := causesOf(err); (err == nil) != (test.want == nil) || !slices.Equal(got, test.want) {
				t.Errorf("got %v: %v, want %v", got, err, test.want)
			}
			pod, _ := Get[*corev1.Pod](w, "ns", "p")
			var owners []string
			for _, ref := range pod.OwnerReferences {
				owners = append(owners, string(ref.UID))
			}
			if !slices.Equal(owners, test.owners) {
				t.Errorf("owners %v, want %v", owners, test.owners)
			}
		})
	}
}

func TestAnUpdateChangesAllButTheStatus(t *testing.T) {
	w := New(t, 1)
	w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}})
	configMap, _ := Get[*corev1.ConfigMap](w, "ns", "c")
	configMap = configMap.DeepCopy()
	configMap.BinaryData, configMap.Immutable = map[string][]byte{"a": nil}, ptr.To(true)
	_, err := w.Client.CoreV1().ConfigMaps("ns").Update(t.Context(), configMap, metav1.UpdateOptions{})
	must(err)
	w.Create(newPod("p"))
	pod, _ := Get[*corev1.Pod](w, "ns", "p")
	pod = pod.DeepCopy()
	pod.Spec.NodeName, pod.Status.Phase = "n", corev1.PodFailed
	_, err = w.Client.CoreV1().Pods("ns").Update(t.Context(), pod, metav1.UpdateOptions{})
	must(err)
	configMap, _ = Get[*corev1.ConfigMap](w, "ns", "c")
	pod, _ = Get[*corev1.Pod](w, "ns", "p")
	isKept := len(configMap.BinaryData) == 1 && configMap.Immutable != nil && pod.Spec.NodeName == "n"
	if !isKept || pod.Status.Phase != corev1.PodPending {
		t.Errorf("stored %+v and %+v", configMap, pod)
	}
}

func TestAMergePatchChangesOnlyWhatItNames(t *testing.T) {
	w := New(t, 1)
	w.Create(newPod("p", owned("a")))
	patch := []byte(`{"metadata":{"labels":{"hash":"h"}}}`)
	_, err := w.Client.CoreV1().Pods("ns").Patch(t.Context(), "p", types.MergePatchType, patch, metav1.PatchOptions{})
	pod, _ := Get[*corev1.Pod](w, "ns", "p")
	if err != nil || fmt.Sprint(pod.Labels) != "map[app:p hash:h]" || len(pod.OwnerReferences) != 1 {
		t.Errorf("got labels %v, owners %v, %v", pod.Labels, pod.OwnerReferences, err)
	}
}

func TestListsAreSelectedAndSorted(t *testing.T) {
	w := New(t, 1)
	for _, name := range []string{"c", "a", "d", "b"} {
		w.Create(newPod(name))
	}
	for _, test := range []struct {
		options metav1.ListOptions
		want    string
	}{
		{metav1.ListOptions{}, "a b c d"},
		{metav1.ListOptions{LabelSelector: "app in (d,b)"}, "b d"},
		{metav1.ListOptions{FieldSelector: "metadata.name=c"}, "c"},
		{metav1.ListOptions{FieldSelector: "metadata.name=c", LabelSelector: "app=a"}, ""},
	} {
		list, err := w.Client.CoreV1().Pods("ns").List(t.Context(), test.options)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, pod := range list.Items {
			names = append(names, pod.Name)
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%+v: got %q, want %q", test.options, got, test.want)
		}
	}
}

func TestASecondDeletionShortensTheGracePeriod(t *testing.T) {
	w := New(t, 1)
	w.Create(newPod("p", func(p *corev1.Pod) { p.Spec.NodeName, p.Finalizers = "n", []string{"example.com/f"} }))
	began := w.Clock.Now()
	for _, test := range []struct {
		grace *int64
		want  int64
	}{
		{nil, 30}, {nil, 30}, {ptr.To[int64](60), 30}, {ptr.To[int64](5), 5}, {nil, 5}, {ptr.To[int64](0), 0},
	} {
		pod, _ := Get[*corev1.Pod](w, "ns", "p")
		w.Delete(pod, test.grace)
		w.Clock.Step(time.Second)
		pod, _ = Get[*corev1.Pod](w, "ns", "p")
		due := began.Add(time.Duration(test.want) * time.Second)
		if *pod.DeletionGracePeriodSeconds != test.want || !pod.DeletionTimestamp.Time.Equal(due) {
			t.Errorf("period %d until %v, want %d until %v", *pod.DeletionGracePeriodSeconds, pod.DeletionTimestamp, test.want, due)
		}
	}
	pod, _ := Get[*corev1.Pod](w, "ns", "p")
	Change(w, pod, func(p *corev1.Pod) { p.Finalizers = nil })
	if _, ok := Get[*corev1.Pod](w, "ns", "p"); ok {
		t.Error("the pod stays")
	}
}

// gaps collects what the simulation could not do.
type gaps struct {
	testing.TB
	found int
}

func (g *gaps) Error(...any) { g.found++ }

func TestWhatCannotBeAnsweredFailsTheTest(t *testing.T) {
	w := New(t, 1)
	w.Create(newPod("p"))
	failed := &gaps{TB: t}
	w.t = failed
	pods, empty := w.Client.CoreV1().Pods("ns"), []byte(`{}`)
	for name, send := range map[string]func() error{
		"JSON patch": func() error {
			_, err := pods.Patch(t.Context(), "p", types.JSONPatchType, []byte(`[]`), metav1.PatchOptions{})
			return err
		},
		"patch of another subresource": func() error {
			_, err := pods.Patch(t.Context(), "p", types.MergePatchType, empty, metav1.PatchOptions{}, "resize")
			return err
		},
		"create of a subresource": func() error {
			return pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
		},
		"update of another subresource": func() error {
			_, err := pods.UpdateResize(t.Context(), "p", newPod("p"), metav1.UpdateOptions{})
			return err
		},
		"list by a field": func() error {
			_, err := pods.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.schedulerName=s"})
			return err
		},
	} {
		failed.found = 0
		if err := send(); err == nil || failed.found != 1 {
			t.Errorf("%s: %v, the test fails %d times", name, err, failed.found)
		}
	}
}
