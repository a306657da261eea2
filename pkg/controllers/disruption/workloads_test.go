package disruption

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var errMissing = apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, "x")

func scaleTo(uid types.UID, replicas int32) *autoscalingv1.Scale {
	return &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
}

// Pins PDB-15 and PDB-15a.
func TestReplicasBehind(t *testing.T) {
	deployment := &appsv1.Deployment{ObjectMeta: owner("deploy"), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](7)}}
	cached := []runtime.Object{
		deployment,
		&corev1.ReplicationController{ObjectMeta: owner("rc"), Spec: corev1.ReplicationControllerSpec{Replicas: ptr.To[int32](2)}},
		replicaSet("old", 1, ownersOf("apps/v1", "Deployment", "deploy")...),
		replicaSet("new", 7, ownersOf("apps/v1", "Deployment", "deploy")...),
		replicaSet("legacy", 1, ownersOf("extensions/v1beta1", "Deployment", "deploy")...),
		replicaSet("rs", 3),
		replicaSet("custom-owned", 4, ownersOf("test.kcmd.dev/v1", "Widget", "w")...),
		replicaSet("deployment-unknown", 1, ownersOf("apps/v1", "Deployment", "unknown")...),
		replicaSet("deployment-of-others", 1, ownersOf("other.io/v1", "Deployment", "deploy")...),
		replicaSet("unreadable", 1, ownersOf("a/b/c", "Deployment", "deploy")...),
		replicaSet("unreadable-widget", 1, ownersOf("a/b/c", "Widget", "w")...),
		replicaSet("third-1", 1_431_655_766), replicaSet("third-2", 1_431_655_766), replicaSet("third-3", 1_431_655_766),
		&appsv1.StatefulSet{ObjectMeta: owner("set"), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](5)}},
	}
	for _, tc := range []struct {
		name      string
		owners    []func(*corev1.Pod)
		want      int32
		unmanaged int
		fails     string
	}{
		{name: "no pods"},
		{name: "a bare pod", owners: []func(*corev1.Pod){func(*corev1.Pod) {}}, unmanaged: 1},
		{name: "a ReplicationController", owners: []func(*corev1.Pod){ownedBy("v1", "ReplicationController", "rc")}, want: 2},
		{name: "a ReplicaSet", owners: []func(*corev1.Pod){ownedBy("apps/v1", "ReplicaSet", "rs")}, want: 3},
		{name: "a ReplicaSet, by an old name", owners: []func(*corev1.Pod){ownedBy("extensions/v1beta1", "ReplicaSet", "rs")}, want: 3},
		{name: "a ReplicaSet of something else", owners: []func(*corev1.Pod){ownedBy("apps/v1", "ReplicaSet", "custom-owned")}, want: 4},
		{name: "a StatefulSet", owners: []func(*corev1.Pod){ownedBy("apps/v1", "StatefulSet", "set")}, want: 5},
		{name: "a Deployment", owners: []func(*corev1.Pod){ownedBy("apps/v1", "ReplicaSet", "new")}, want: 7},
		{name: "a Deployment, by an old name", owners: []func(*corev1.Pod){ownedBy("apps/v1", "ReplicaSet", "legacy")}, want: 7},
		{
			name: "a Deployment that rolls out is counted once", want: 7,
			owners: []func(*corev1.Pod){ownedBy("apps/v1", "ReplicaSet", "new"), ownedBy("apps/v1", "ReplicaSet", "old"), ownedBy("apps/v1", "ReplicaSet", "new")},
		},
		{
			name: "several and a bare pod", want: 10, unmanaged: 1,
			owners: []func(*corev1.Pod){
				ownedBy("v1", "ReplicationController", "rc"), ownedBy("apps/v1", "ReplicaSet", "rs"), ownedBy("apps/v1", "StatefulSet", "set"),
				ownedBy("apps/v1", "StatefulSet", "set"), func(*corev1.Pod) {},
			},
		},
		{
			name: "PDB-44: two of more than 32 bits together", want: math.MaxInt32,
			owners: []func(*corev1.Pod){ownedBy("apps/v1", "ReplicaSet", "third-1"), ownedBy("apps/v1", "ReplicaSet", "third-2")},
		},
		{
			name: "PDB-44: three of more than 32 bits together", want: math.MaxInt32,
			owners: []func(*corev1.Pod){
				ownedBy("apps/v1", "ReplicaSet", "third-1"), ownedBy("apps/v1", "ReplicaSet", "third-2"), ownedBy("apps/v1", "ReplicaSet", "third-3"),
			},
		},
		{name: "live: a ReplicaSet that is not cached", owners: []func(*corev1.Pod){ownedBy("apps/v1", "ReplicaSet", "fresh")}, want: 100},
		{name: "live: a ReplicaSet whose Deployment is not cached", owners: []func(*corev1.Pod){ownedBy("apps/v1", "ReplicaSet", "deployment-unknown")}, want: 100},
		{name: "live: a ReplicaSet whose Deployment is not one", owners: []func(*corev1.Pod){ownedBy("apps/v1", "ReplicaSet", "deployment-of-others")}, want: 100},
		{name: "live: a StatefulSet that is not one", owners: []func(*corev1.Pod){ownedBy("extensions/v1beta1", "StatefulSet", "set")}, fails: `no matches for kind "StatefulSet" in version "extensions/v1beta1"`},
		{name: "live: a custom resource", owners: []func(*corev1.Pod){ownedBy("test.kcmd.dev/v1", "Widget", "w")}, want: 100},
		{name: "live: a namesake", owners: []func(*corev1.Pod){ownedBy("test.kcmd.dev/v1", "Widget", "recreated")}, fails: `found no controllers for pod "pod-0"`},
		{name: "live: gone", owners: []func(*corev1.Pod){ownedBy("test.kcmd.dev/v1", "Widget", "gone")}, fails: `found no controllers for pod "pod-0"`},
		{name: "live: no scale", owners: []func(*corev1.Pod){ownedBy("batch/v1", "Job", "gone")}, fails: "jobs.batch does not implement the scale subresource"},
		{name: "live: broken", owners: []func(*corev1.Pod){ownedBy("test.kcmd.dev/v1", "Widget", "broken")}, fails: "broken"},
		{name: "an unknown kind", owners: []func(*corev1.Pod){ownedBy("test.kcmd.dev/v1", "Gadget", "g")}, fails: `no matches for kind "Gadget" in version "test.kcmd.dev/v1"`},
		{name: "an unreadable version", owners: []func(*corev1.Pod){ownedBy("a/b/c", "ReplicaSet", "rs")}, fails: "unexpected GroupVersion string: a/b/c"},
		{name: "P4: the unreadable version of a Deployment", owners: []func(*corev1.Pod){ownedBy("apps/v1", "ReplicaSet", "unreadable")}, fails: "unexpected GroupVersion string: a/b/c"},
		{name: "P4: the unreadable version of another kind", owners: []func(*corev1.Pod){ownedBy("apps/v1", "ReplicaSet", "unreadable-widget")}, fails: "unexpected GroupVersion string: a/b/c"},
		{
			name: "the first pod by name is told of", fails: `found no controllers for pod "pod-1"`,
			owners: []func(*corev1.Pod){ownedBy("apps/v1", "ReplicaSet", "rs"), ownedBy("test.kcmd.dev/v1", "Widget", "gone"), ownedBy("batch/v1", "Job", "gone")},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, cached...)
			b.serveWidgets(t)
			var selected []*corev1.Pod
			for n, edit := range tc.owners {
				selected = append([]*corev1.Pod{pod(fmt.Sprintf("pod-%d", n), edit)}, selected...)
			}
			got, err := b.c.workloads.replicasBehind(b.Context(), "n", selected)
			if tc.fails != "" {
				if err == nil || err.Error() != tc.fails {
					t.Fatalf("got %v, want %s", err, tc.fails)
				}
				return
			}
			if err != nil || got.replicas != tc.want || len(got.unmanaged) != tc.unmanaged {
				t.Errorf("got %+v, %v, want %d replicas, %d unmanaged", got, err, tc.want, tc.unmanaged)
			}
		})
	}
}

// serveWidgets makes an API server with a custom resource that scales to 100, and with
// Jobs, which have no scale.
func (b *bench) serveWidgets(t *testing.T) {
	t.Helper()
	widgets := schema.GroupVersion{Group: "test.kcmd.dev", Version: "v1"}
	b.serveResources(t, widgets,
		metav1.APIResource{Name: "widgets", Kind: "Widget"},
		metav1.APIResource{Name: "widgets/scale", Kind: "Scale", Group: "autoscaling", Version: "v1"})
	b.serveResources(t, batchv1.SchemeGroupVersion, metav1.APIResource{Name: "jobs", Kind: "Job"}, metav1.APIResource{Name: "jobs/status", Kind: "Job"})
	b.c.workloads.scales.mapper = mapperWith(widgets.WithKind("Widget"))
	b.serveScale(func(name string) (runtime.Object, error) {
		switch name {
		case "gone":
			return nil, errMissing
		case "recreated":
			return scaleTo("another", 100), nil
		case "broken":
			return nil, errors.New("broken")
		}
		return scaleTo(types.UID(name), 100), nil
	})
}

// Pins PDB-15a.
func TestHasScale(t *testing.T) {
	widgets := schema.GroupVersionResource{Group: "test.kcmd.dev", Version: "v1", Resource: "widgets"}
	understood := newScaleReader(nil, nil, nil, nil).versions
	for _, tc := range []struct {
		resource metav1.APIResource
		want     bool
	}{
		{metav1.APIResource{Name: "widgets/scale", Kind: "Scale", Group: "autoscaling", Version: "v1"}, true},
		{metav1.APIResource{Name: "widgets/scale", Kind: "Scale", Group: "extensions", Version: "v1beta1"}, true},
		{metav1.APIResource{Name: "widgets/scale", Kind: "Scale", Group: "autoscaling", Version: "v9"}, false},
		{metav1.APIResource{Name: "widgets/scale", Kind: "Size", Group: "autoscaling", Version: "v1"}, false},
		{metav1.APIResource{Name: "gadgets/scale", Kind: "Scale", Group: "autoscaling", Version: "v1"}, false},
		{metav1.APIResource{Name: "widgets", Kind: "Scale", Group: "autoscaling", Version: "v1"}, false},
	} {
		if got := hasScale([]metav1.APIResource{{Name: "other"}, tc.resource}, widgets, understood); got != tc.want {
			t.Errorf("%v: got %v", tc.resource, got)
		}
	}
}

// Pins PDB-42.
func TestScalesAreRememberedForASecond(t *testing.T) {
	b := newBench(t)
	b.serveWidgets(t)
	for _, name := range []string{"w", "gone", "recreated"} {
		b.scales.ClearActions()
		find := func(wantRequests int, until time.Time) {
			t.Helper()
			sum, err := b.c.workloads.replicasBehind(b.Context(), "n", []*corev1.Pod{pod("a", ownedBy("test.kcmd.dev/v1", "Widget", name))})
			if (err == nil) != (name == "w") {
				t.Errorf("%s: got %+v, %v", name, sum, err)
			}
			if got := len(b.scales.Actions()); got != wantRequests {
				t.Errorf("%s: %d requests, want %d", name, got, wantRequests)
			}
			if !sum.until.Equal(until) {
				t.Errorf("%s: the answer holds until %v, want %v", name, sum.until, until)
			}
		}
		asked := b.Clock.Now()
		find(1, time.Time{})
		b.Clock.Step(scaleTTL - 1)
		find(1, asked.Add(scaleTTL))
		b.Clock.Step(1)
		find(2, time.Time{})
		if got := len(b.c.workloads.scales.remembered); got != 1 {
			t.Errorf("%d answers are remembered, want one", got)
		}
		b.Clock.Step(time.Minute)
	}
}

// Pins PDB-42.
func TestTheFirstAnswerThatExpiresIsAskedForAgain(t *testing.T) {
	b := newBench(t)
	b.serveWidgets(t)
	until := func(widgets ...string) time.Time {
		var all []*corev1.Pod
		for i, widget := range widgets {
			all = append(all, pod(string(rune('a'+i)), ownedBy("test.kcmd.dev/v1", "Widget", widget)))
		}
		sum, err := b.c.workloads.replicasBehind(b.Context(), "n", all)
		if err != nil {
			t.Fatal(err)
		}
		return sum.until
	}
	asked := b.Clock.Now()
	until("first")
	b.Clock.Step(scaleTTL / 2)
	until("second")
	for _, widgets := range [][]string{{"first", "second"}, {"second", "first"}} {
		if got := until(widgets...); !got.Equal(asked.Add(scaleTTL)) {
			t.Errorf("%q: the answers hold until %v, want %v", widgets, got, asked.Add(scaleTTL))
		}
	}
}

func TestErrorsAreNotRemembered(t *testing.T) {
	b := newBench(t)
	b.serveWidgets(t)
	b.serveScale(func(string) (runtime.Object, error) {
		return nil, apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, "get", schema.GroupResource{}, "w", "", 0, true)
	})
	for range 2 {
		sum, err := b.c.workloads.replicasBehind(b.Context(), "n", []*corev1.Pod{pod("a", ownedBy("test.kcmd.dev/v1", "Widget", "w"))})
		if err == nil || !sum.until.IsZero() {
			t.Errorf("got %+v, %v", sum, err)
		}
	}
	if got := len(b.scales.Actions()); got != 2 {
		t.Errorf("%d requests, want 2", got)
	}
}
