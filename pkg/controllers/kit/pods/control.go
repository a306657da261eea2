package pods

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Owner is an object that owns pods.
type Owner interface {
	runtime.Object
	metav1.Object
}

// Control creates, deletes and patches pods for owners, and records events on these.
type Control struct{ controller.Env }

// Create creates a pod from the template in the namespace of the owner, controlled by ref, and returns its
// metadata. Errors of the API server are returned unwrapped.
func (c Control) Create(
	ctx context.Context, owner Owner, template *corev1.PodTemplateSpec, ref *metav1.OwnerReference,
) (*metav1.ObjectMeta, error) {
	return c.CreateNamed(ctx, owner, template, ref, NamePrefix(owner.GetName()))
}

// CreateNamed is like Create, with the given prefix for the generated name.
func (c Control) CreateNamed(
	ctx context.Context, owner Owner, template *corev1.PodTemplateSpec, ref *metav1.OwnerReference, prefix string,
) (*metav1.ObjectMeta, error) {
	if err := validateRef(ref); err != nil {
		return nil, unsent{err}
	}
	if len(template.Labels) == 0 {
		return nil, unsent{errors.New("unable to create pods, no labels")}
	}
	desired := FromTemplate(template, owner, *ref)
	desired.GenerateName = prefix
	pod, err := c.Client.CoreV1().Pods(owner.GetNamespace()).Create(controller.OnlyMetadata(ctx), desired,
		metav1.CreateOptions{})
	if err != nil {
		if !NamespaceTerminating(err) {
			c.RecordFailure(ctx, failedCreate(owner, err))
		}
		return nil, err
	}
	klog.FromContext(ctx).V(4).Info("Created pod", "owner", klog.KObj(owner), "pod", klog.KObj(pod))
	c.Record(createdPod(owner, pod.Name))
	return &pod.ObjectMeta, nil
}

// unsent is an error that was found before anything was sent.
type unsent struct{ error }

// Delete deletes a pod by UID, with its own grace period. The answer that there is no such pod is returned unwrapped,
// see controller.Absent; every other error is wrapped. A conflict, usually because another pod has the name, is not
// reported as a failure, but requeues the owner: the cache will show what the next attempt needs.
func (c Control) Delete(ctx context.Context, owner Owner, pod *corev1.Pod) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	err := c.Client.CoreV1().Pods(pod.Namespace).Delete(controller.OnlyMetadata(ctx), pod.Name, options)
	switch {
	case err == nil:
		klog.FromContext(ctx).V(4).Info("Deleted pod", "owner", klog.KObj(owner), "pod", klog.KObj(pod))
		c.Record(deletedPod(owner, pod.Name))
		return nil
	case controller.Absent(err):
		return err
	case apierrors.IsConflict(err):
		return reconcile.Requeue(fmt.Errorf("unable to delete pods: %w", err))
	}
	c.RecordFailure(ctx, failedDelete(owner, err))
	return fmt.Errorf("unable to delete pods: %w", err)
}

// Patch sends a strategic merge patch for a pod and returns the metadata of the patched pod.
func (c Control) Patch(ctx context.Context, namespace, name string, patch []byte) (*metav1.ObjectMeta, error) {
	pod, err := c.Client.CoreV1().Pods(namespace).
		Patch(controller.OnlyMetadata(ctx), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return nil, err
	}
	return &pod.ObjectMeta, nil
}

// NamespaceTerminating reports whether a create failed because the namespace is being deleted.
// It cannot succeed, and needs no event.
func NamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// InTerminatingNamespace asks the API server whether the namespace of the owner is being deleted: it judges the creation of
// a pod from the template, and creates none. False means that it is not, or that there was no answer.
func (c Control) InTerminatingNamespace(
	ctx context.Context, owner Owner, template *corev1.PodTemplateSpec, ref *metav1.OwnerReference,
) bool {
	desired := FromTemplate(template, owner, *ref)
	desired.GenerateName = NamePrefix(owner.GetName())
	_, err := c.Client.CoreV1().Pods(owner.GetNamespace()).Create(controller.OnlyMetadata(ctx), desired,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return NamespaceTerminating(err)
}
