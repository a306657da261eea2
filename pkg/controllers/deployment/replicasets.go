package deployment

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// replicaSets are the ReplicaSets of a Deployment. The objects belong to the cache and are
// replaced, never modified.
type replicaSets struct {
	// current runs the template of the Deployment; nil if none does.
	current *appsv1.ReplicaSet
	// old are all others, oldest first.
	old []*appsv1.ReplicaSet
}

// split finds the ReplicaSet with the template of the Deployment. If several have it,
// the oldest is chosen, so that the choice never changes (kubernetes/kubernetes#40415).
func split(d *appsv1.Deployment, all []*appsv1.ReplicaSet) replicaSets {
	sorted := slices.SortedFunc(slices.Values(all), byCreation)
	var sets replicaSets
	for _, rs := range sorted {
		if sets.current == nil && sameTemplate(&rs.Spec.Template, &d.Spec.Template) {
			sets.current = rs
			continue
		}
		sets.old = append(sets.old, rs)
	}
	return sets
}

// sameTemplate compares templates, ignoring the label that the controller adds.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	// Most revisions differ in an image, which is much faster to compare.
	if !slices.EqualFunc(a.Spec.Containers, b.Spec.Containers, sameImage) {
		return false
	}
	if !sameLabels(a.Labels, b.Labels) {
		return false
	}
	x, y := a.ObjectMeta, b.ObjectMeta
	x.Labels, y.Labels = nil, nil
	return equality.Semantic.DeepEqual(&x, &y) && equality.Semantic.DeepEqual(&a.Spec, &b.Spec)
}

func sameImage(a, b corev1.Container) bool { return a.Image == b.Image }

// sameLabels compares labels, ignoring that of the hash.
func sameLabels(a, b map[string]string) bool {
	return labelsIn(a, b) && labelsIn(b, a)
}

func labelsIn(a, b map[string]string) bool {
	for key, value := range a {
		if other, ok := b[key]; key != appsv1.DefaultDeploymentUniqueLabelKey && (!ok || other != value) {
			return false
		}
	}
	return true
}

// all returns the ReplicaSets, the new one last.
func (s replicaSets) all() []*appsv1.ReplicaSet {
	if s.current == nil {
		return s.old
	}
	return append(slices.Clip(s.old), s.current)
}

// replace replaces a ReplicaSet by the state that a write returned.
func (s *replicaSets) replace(rs *appsv1.ReplicaSet) {
	if s.current != nil && s.current.UID == rs.UID {
		s.current = rs
		return
	}
	old := slices.Clone(s.old)
	for i := range old {
		if old[i].UID == rs.UID {
			old[i] = rs
		}
	}
	s.old = old
}

// active returns the ReplicaSets that should have pods.
func active(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	var with []*appsv1.ReplicaSet
	for _, rs := range sets {
		if sizeOf(rs) > 0 {
			with = append(with, rs)
		}
	}
	return with
}

// total returns the number of pods that ReplicaSets should have together. The sum may overflow
// an int32.
func total(sets []*appsv1.ReplicaSet) int64 {
	var sum int64
	for _, rs := range sets {
		sum += int64(sizeOf(rs))
	}
	return sum
}

// byCreation orders ReplicaSets from old to new, then by name.
func byCreation(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// bySizeNewer orders ReplicaSets from large to small, then from new to old.
func bySizeNewer(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(cmp.Compare(sizeOf(b), sizeOf(a)), byCreation(b, a))
}

// bySizeOlder orders ReplicaSets from large to small, then from old to new.
func bySizeOlder(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(cmp.Compare(sizeOf(b), sizeOf(a)), byCreation(a, b))
}

// byRevision orders ReplicaSets by revision, then by creation.
func byRevision(a, b *appsv1.ReplicaSet) int {
	x, okX := revisionOf(a)
	y, okY := revisionOf(b)
	if okX && okY && x != y {
		return cmp.Compare(x, y)
	}
	return byCreation(a, b)
}
