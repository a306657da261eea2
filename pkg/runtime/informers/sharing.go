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
	byName, byImage *relatives[corev1.Pod]
}

func newPodSharing() *podSharing {
	return &podSharing{sharing.Of[corev1.Pod](), newRelatives[corev1.Pod](), newRelatives[corev1.Pod]()}
}

// shrink is ShrinkPod followed by sharing.
func (s *podSharing) shrink(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || Shrunk(pod) {
		return obj, nil // a tombstone, or in the cache already
	}
	if _, err := ShrinkPod(pod); err != nil {
		return nil, err
	}
	if relative := s.meet(pod); relative != nil {
		s.share(pod, relative)
	}
	pod.Spec.NodeName = canonical(pod.Spec.NodeName)
	pod.Status.HostIP = canonical(pod.Status.HostIP)
	if ips := pod.Status.PodIPs; len(ips) > 0 && ips[0].IP == pod.Status.PodIP {
		ips[0].IP = pod.Status.PodIP
	}
	return pod, nil
}

// meet returns the relative of a pod, nil if there is none, and remembers the pod for those that come
// after it.
func (s *podSharing) meet(pod *corev1.Pod) *corev1.Pod {
	var relative *corev1.Pod
	if pod.GenerateName != "" {
		relative = s.byName.meet(family{pod.Namespace, pod.GenerateName}, pod)
	}
	if len(pod.Spec.Containers) > 0 {
		if other := s.byImage.meet(family{pod.Namespace, pod.Spec.Containers[0].Image}, pod); relative == nil {
			relative = other
		}
	}
	return relative
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
		if sibling := siblings.meet(of, object); sibling != nil {
			share(object, sibling)
		}
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

// meet returns the last object of a family, nil if there is none, and remembers this one.
func (r *relatives[T]) meet(of family, object *T) *T {
	self := weak.Make(object)
	r.mu.Lock()
	defer r.mu.Unlock()
	previous, known := r.newest[of]
	r.newest[of] = self
	if known {
		return previous.Value()
	}
	if len(r.newest) >= r.sweepAt {
		maps.DeleteFunc(r.newest, func(_ family, p weak.Pointer[T]) bool { return p.Value() == nil })
		r.sweepAt = max(firstSweep, 2*len(r.newest))
	}
	return nil
}

// canonical returns the one copy of a string that many pods have, such as the name of a node.
func canonical[T ~string](s T) T {
	if s == "" {
		return s
	}
	return T(unique.Make(string(s)).Value())
}
