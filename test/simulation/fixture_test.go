package simulation

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
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
