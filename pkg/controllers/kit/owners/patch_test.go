package owners

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Pins WL-23 and WL-24.
func TestPatchBodies(t *testing.T) {
	ref := *metav1.NewControllerRef(object("rs", "o"), ownerKind)
	for _, test := range []struct {
		name string
		make func() ([]byte, error)
		want string
	}{
		{
			"adopt", func() ([]byte, error) { return AdoptPatch("p", ref) },
			`{"metadata":{"uid":"p","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"rs","uid":"o","controller":true,"blockOwnerDeletion":true}]}}`,
		},
		{
			"adopt with finalizers", func() ([]byte, error) { return AdoptPatch("p", ref, "f") },
			`{"metadata":{"uid":"p","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"rs","uid":"o","controller":true,"blockOwnerDeletion":true}],"finalizers":["f"]}}`,
		},
		{
			"release", func() ([]byte, error) { return releasePatch("p", "o") },
			`{"metadata":{"uid":"p","ownerReferences":[{"$patch":"delete","uid":"o"}]}}`,
		},
		{
			"release with finalizers", func() ([]byte, error) { return releasePatch("p", "o", "f") },
			`{"metadata":{"uid":"p","ownerReferences":[{"$patch":"delete","uid":"o"}],"$deleteFromPrimitiveList/finalizers":["f"]}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.make()
			if err != nil || string(got) != test.want {
				t.Errorf("got %s, %v\nwant %s", got, err, test.want)
			}
		})
	}
}

// Pins WL-23 and WL-24.
func TestPatchesLeaveOtherOwnersAndFinalizersAlone(t *testing.T) {
	pod := object("p", "p")
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "X", Name: "x", UID: "x"}}
	pod.Finalizers = []string{"keep"}

	adoption, err := AdoptPatch("p", *metav1.NewControllerRef(object("rs", "o"), ownerKind), "f")
	if err != nil {
		t.Fatal(err)
	}
	adopted := apply(t, pod, adoption)
	if got := refUIDs(adopted); !slices.Equal(got, []types.UID{"o", "x"}) {
		t.Errorf("owners after adoption: %v", got)
	}
	if got := sorted(adopted.Finalizers); !slices.Equal(got, []string{"f", "keep"}) {
		t.Errorf("finalizers after adoption: %v", got)
	}

	giveUp, err := releasePatch("p", "o", "f")
	if err != nil {
		t.Fatal(err)
	}
	released := apply(t, adopted, giveUp)
	if got := refUIDs(released); !slices.Equal(got, []types.UID{"x"}) {
		t.Errorf("owners after release: %v", got)
	}
	if !slices.Equal(released.Finalizers, []string{"keep"}) {
		t.Errorf("finalizers after release: %v", released.Finalizers)
	}
}

func apply(t *testing.T, pod *corev1.Pod, patch []byte) *corev1.Pod {
	t.Helper()
	original, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := strategicpatch.StrategicMergePatch(original, patch, corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(merged, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func refUIDs(pod *corev1.Pod) []types.UID {
	var uids []types.UID
	for _, ref := range pod.OwnerReferences {
		uids = append(uids, ref.UID)
	}
	slices.Sort(uids)
	return uids
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}
