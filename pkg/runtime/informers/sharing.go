package informers

import (
	"maps"
	"sync"
	"unique"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/runtime/informers/sharing"
)

// Objects of one origin are alike. Decoded one by one, each brings its own copy of the same resources,
// labels, ports and tolerations, which is most of a shrunk pod and of a pod template.
//
//  1. Objects in a cache are never changed, so a part may belong to many of them.
//  2. An object is compared with one relative, the last one of its family. Parts that differ are not
//     shared.
//  3. References to relatives are weak: sharing keeps no object alive that the cache has dropped.

// podSharing shares parts of pods. The relative of a pod is the last one with the same generateName,
// else the last one with the same image.
type podSharing struct {
	share           sharing.Func[corev1.Pod]
	shareMetadata   sharing.Func[metav1.ObjectMeta]
	shareSpec       sharing.Func[corev1.PodSpec]
	shareStatus     sharing.Func[corev1.PodStatus]
	byName, byImage *relatives[corev1.Pod]
}

func newPodSharing() *podSharing {
	return &podSharing{
		share:         sharing.Of[corev1.Pod](),
		shareMetadata: sharing.Of[metav1.ObjectMeta](),
		shareSpec:     sharing.Of[corev1.PodSpec](),
		shareStatus:   sharing.Of[corev1.PodStatus](),
		byName:        newRelatives[corev1.Pod](),
		byImage:       newRelatives[corev1.Pod](),
	}
}

// shrink is ShrinkPod followed by sharing. Of a pod that was shrunk while it was decoded, only what is its
// own is shared: the rest is shared already, and others may be reading it.
func (s *podSharing) shrink(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || Shrunk(pod) && !preshrunk(pod) {
		return obj, nil // a tombstone, or in the cache already
	}
	whole := !preshrunk(pod)
	pod.ManagedFields = shrunkFields
	if whole {
		if _, err := ShrinkPod(pod); err != nil {
			return nil, err
		}
	}
	pod.Spec.NodeName = canonical(pod.Spec.NodeName)
	pod.Status.HostIP = canonical(pod.Status.HostIP)
	if ips := pod.Status.PodIPs; len(ips) > 0 && ips[0].IP == pod.Status.PodIP {
		ips[0].IP = pod.Status.PodIP
	}
	switch relative := s.relative(pod); {
	case relative == nil:
	case whole:
		deletion := pod.DeletionTimestamp
		s.share(pod, relative)           // from here on parts of it belong to others
		pod.DeletionTimestamp = deletion // k8s.io/endpointslice compares the pointers of two states of a pod
	default:
		s.shareStatus(&pod.Status, &relative.Status)
	}
	s.remember(pod)
	return pod, nil
}

// newMetadata is called with what pods will have in common, before any of them has it.
func (s *podSharing) newMetadata(m *metav1.ObjectMeta) {
	shrinkMetadata(m)
	if name, ok := sameName(m); ok {
		if relative := s.byName.last(name); relative != nil {
			s.shareMetadata(m, &relative.ObjectMeta)
		}
	}
}

// newSpec is called with what pods will have in common, before any of them has it.
func (s *podSharing) newSpec(spec *corev1.PodSpec) {
	shrinkSpec(spec)
	if image, ok := sameImage(spec); ok {
		if relative := s.byImage.last(image); relative != nil {
			s.shareSpec(spec, &relative.Spec)
		}
	}
}

// relative returns the relative of a pod, nil if there is none.
func (s *podSharing) relative(pod *corev1.Pod) *corev1.Pod {
	if name, ok := sameName(&pod.ObjectMeta); ok {
		if relative := s.byName.last(name); relative != nil {
			return relative
		}
	}
	if image, ok := sameImage(&pod.Spec); ok {
		return s.byImage.last(image)
	}
	return nil
}

// remember has a pod be the relative of those that come after it.
func (s *podSharing) remember(pod *corev1.Pod) {
	if name, ok := sameName(&pod.ObjectMeta); ok {
		s.byName.remember(name, pod)
	}
	if image, ok := sameImage(&pod.Spec); ok {
		s.byImage.remember(image, pod)
	}
}

// sameName and sameImage are the families of a pod, if it has them.
func sameName(m *metav1.ObjectMeta) (family, bool) {
	return family{m.Namespace, m.GenerateName}, m.GenerateName != ""
}

func sameImage(spec *corev1.PodSpec) (family, bool) {
	if len(spec.Containers) == 0 {
		return family{}, false
	}
	return family{name: spec.Containers[0].Image}, true
}

// shareWithSiblings returns a transform of whole objects that drops their managedFields and shares the
// parts of those which have the same controller, or none, in one namespace.
func shareWithSiblings[T any, P interface {
	*T
	metav1.Object
}]() cache.TransformFunc {
	share, siblings := sharing.Of[T](), newRelatives[T]()
	return func(obj any) (any, error) {
		object, ok := obj.(P)
		if !ok || object.GetManagedFields() == nil {
			return obj, nil // a tombstone, or in the cache already
		}
		object.SetManagedFields(nil)
		of := family{namespace: object.GetNamespace()}
		if controller := metav1.GetControllerOfNoCopy(object); controller != nil {
			of.name = string(controller.UID)
		}
		if sibling := siblings.last(of); sibling != nil {
			share(object, sibling)
		}
		siblings.remember(of, object)
		return obj, nil
	}
}

// family is what objects with equal parts are expected to have in common: a namespace, and a
// generateName, an image or a controller.
type family struct{ namespace, name string }

// relatives are the newest object of each family. Families without objects are removed whenever the
// number of families has doubled.
type relatives[T any] struct {
	mu      sync.Mutex
	newest  map[family]weak.Pointer[T]
	sweepAt int
}

const firstSweep = 256

func newRelatives[T any]() *relatives[T] {
	return &relatives[T]{newest: map[family]weak.Pointer[T]{}, sweepAt: firstSweep}
}

// last returns the newest object of a family, nil if there is none.
func (r *relatives[T]) last(of family) *T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest[of].Value()
}

// remember is called with an object that is complete: others may be compared with it from now on.
func (r *relatives[T]) remember(of family, object *T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.newest[of]
	r.newest[of] = weak.Make(object)
	if !known && len(r.newest) >= r.sweepAt {
		maps.DeleteFunc(r.newest, func(_ family, p weak.Pointer[T]) bool { return p.Value() == nil })
		r.sweepAt = max(firstSweep, 2*len(r.newest))
	}
}

// canonical returns the one copy of a string that many pods have, such as the name of a node. After a collection of
// garbage there is a new one: what came before keeps its own.
func canonical[T ~string](s T) T {
	if s == "" {
		return s
	}
	return T(unique.Make(string(s)).Value())
}
