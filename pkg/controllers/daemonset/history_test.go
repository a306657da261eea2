package daemonset

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// newRevision is a revision of the set agent whose hash is its name.
func newRevision(name string, number int64, payload string, changes ...func(*appsv1.ControllerRevision)) *appsv1.ControllerRevision {
	r := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(name),
			CreationTimestamp: metav1.NewTime(start),
			Labels:            map[string]string{"app": "agent", appsv1.DefaultDaemonSetUniqueLabelKey: name},
			OwnerReferences:   []metav1.OwnerReference{*metav1.NewControllerRef(newSet(), daemonSetKind)},
		},
		Data:     runtime.RawExtension{Raw: []byte(payload)},
		Revision: number,
	}
	for _, change := range changes {
		change(r)
	}
	return r
}

func revisionNames(all []*appsv1.ControllerRevision) []string {
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	return names
}

// Pins DS-35.
func TestSplit(t *testing.T) {
	later := func(r *appsv1.ControllerRevision) { r.CreationTimestamp = metav1.NewTime(start.Add(time.Second)) }
	matching, old := split([]*appsv1.ControllerRevision{
		newRevision("c", 3, "a"), newRevision("tie", 4, "a", later), newRevision("z", 4, "a"),
		newRevision("spaces", 9, "a "), newRevision("b", 2, "b"), newRevision("a", 1, "c"),
	}, []byte("a"))
	if got := revisionNames(matching); !slices.Equal(got, []string{"c", "z", "tie"}) {
		t.Errorf("matching are %v", got)
	}
	if got := revisionNames(old); !slices.Equal(got, []string{"a", "b", "spaces"}) {
		t.Errorf("old are %v", got)
	}
}

// Pins DS-37.
func TestSurplus(t *testing.T) {
	four := []*appsv1.ControllerRevision{newRevision("a", 1, ""), newRevision("b", 2, ""), newRevision("c", 3, ""), newRevision("d", 4, "")}
	finished := func(p *corev1.Pod) { phase(corev1.PodFailed)(p); deleting(p) }
	for _, test := range []struct {
		name  string
		limit *int32
		pods  []*corev1.Pod
		want  []string
	}{
		{"within the limit", ptr.To[int32](4), nil, nil},
		{"the oldest go", ptr.To[int32](2), nil, []string{"a", "b"}},
		{"those with pods stay", ptr.To[int32](2), []*corev1.Pod{newPod("p", "n", hash("a"))}, []string{"b", "c"}},
		{"DS-46: those with finished pods that are being deleted stay", ptr.To[int32](2), []*corev1.Pod{newPod("p", "n", hash("b"), finished)}, []string{"a", "c"}},
		{"those with pods stay even if they are too many", ptr.To[int32](0), []*corev1.Pod{newPod("p", "n", hash("b")), newPod("q", "n", hash("d"))}, []string{"a", "c"}},
		{"none are kept", ptr.To[int32](0), nil, []string{"a", "b", "c", "d"}},
		{"DS-62: no limit is the default", nil, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			ds := newSet(func(ds *appsv1.DaemonSet) { ds.Spec.RevisionHistoryLimit = test.limit })
			if got := revisionNames(revisions{old: four}.surplus(ds, test.pods)); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	var many []*appsv1.ControllerRevision
	for i := range 12 {
		many = append(many, newRevision(string(rune('a'+i)), int64(i), ""))
	}
	ds := newSet(func(ds *appsv1.DaemonSet) { ds.Spec.RevisionHistoryLimit = nil })
	if got := revisionNames(revisions{old: many}.surplus(ds, nil)); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("by default %v go", got)
	}
}
