package history

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// hashLabel is the label of a revision that holds the hash of its name as it was first made.
const hashLabel = "controller.kubernetes.io/hash"

// Owner is the owner of a revision.
type Owner struct {
	metav1.Object
	// Kind is written to the owner reference.
	Kind schema.GroupVersionKind
}

// New returns a revision of the owner with a payload, template and number. It has the labels of
// the template, the annotations of the owner, and no namespace.
func New(owner Owner, template *corev1.PodTemplateSpec, payload []byte, number int64, collisions int32) *appsv1.ControllerRevision {
	hash := Hash(payload, collisions)
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name:            Name(owner.GetName(), hash),
			Labels:          labels.Merge(template.Labels, labels.Set{hashLabel: hash}),
			Annotations:     maps.Clone(owner.GetAnnotations()),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.Kind)},
		},
		Data:     runtime.RawExtension{Raw: payload},
		Revision: number,
	}
}

// Sort sorts revisions by number, then by age and by name.
func Sort(revisions []*appsv1.ControllerRevision) {
	slices.SortStableFunc(revisions, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(
			cmp.Compare(a.Revision, b.Revision),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
}

// NextNumber returns the number that follows the sorted revisions, 1 if there are none.
func NextNumber(sorted []*appsv1.ControllerRevision) int64 {
	if len(sorted) == 0 {
		return 1
	}
	return sorted[len(sorted)-1].Revision + 1
}

// Holds reports whether a revision has the payload.
func Holds(revision *appsv1.ControllerRevision, payload []byte) bool {
	return revision.Data.Object == nil && bytes.Equal(revision.Data.Raw, payload)
}

// Surplus returns the oldest of the sorted revisions that are not live and exceed the
// limit. A negative limit counts as 0.
func Surplus(sorted []*appsv1.ControllerRevision, limit int, live func(name string) bool) []*appsv1.ControllerRevision {
	var unused []*appsv1.ControllerRevision
	for _, revision := range sorted {
		if !live(revision.Name) {
			unused = append(unused, revision)
		}
	}
	return unused[:max(0, len(unused)-max(0, limit))]
}
