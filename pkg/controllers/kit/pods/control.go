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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// Owner is an object that owns pods.
type Owner interface {
	runtime.Object
	metav1.Object
}

// Control creates, deletes and patches pods for owners.
type Control struct {
	Client kubernetes.Interface
	Events record.EventRecorder
}

// Create creates a pod from the template in the namespace of the owner, controlled by
// ref. The error of the API is returned unwrapped.
func (c Control) Create(ctx context.Context, owner Owner, template *corev1.PodTemplateSpec, ref *metav1.OwnerReference) (*corev1.Pod, error) {
	return c.CreateNamed(ctx, owner, template, ref, NamePrefix(owner.GetName()))
}

// CreateNamed is Create with what the name of the pod is generated from.
func (c Control) CreateNamed(ctx context.Context, owner Owner, template *corev1.PodTemplateSpec, ref *metav1.OwnerReference, prefix string) (*corev1.Pod, error) {
	if err := validateRef(ref); err != nil {
		return nil, err
	}
	if len(template.Labels) == 0 {
		return nil, errors.New("unable to create pods, no labels")
	}
	pod := FromTemplate(template, owner, *ref)
	pod.GenerateName = prefix
	created, err := c.Client.CoreV1().Pods(owner.GetNamespace()).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		if ctx.Err() == nil && !NamespaceTerminating(err) {
			c.Events.Eventf(owner, corev1.EventTypeWarning, ReasonFailedCreate, "Error creating: %v", err)
		}
		return nil, err
	}
	klog.FromContext(ctx).V(4).Info("Created pod", "owner", klog.KObj(owner), "pod", klog.KObj(created))
	c.Events.Eventf(owner, corev1.EventTypeNormal, ReasonSuccessfulCreate, "Created pod: %v", created.Name)
	return created, nil
}

// Delete deletes a pod with its own grace period. That the pod is gone already is
// returned as the error of the API; every other error is wrapped.
func (c Control) Delete(ctx context.Context, owner Owner, namespace, name string) error {
	err := c.Client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	switch {
	case err == nil:
		klog.FromContext(ctx).V(4).Info("Deleted pod", "owner", klog.KObj(owner), "pod", klog.KRef(namespace, name))
		c.Events.Eventf(owner, corev1.EventTypeNormal, ReasonSuccessfulDelete, "Deleted pod: %v", name)
		return nil
	case apierrors.IsNotFound(err):
		return err
	case ctx.Err() == nil:
		c.Events.Eventf(owner, corev1.EventTypeWarning, ReasonFailedDelete, "Error deleting: %v", err)
	}
	return fmt.Errorf("unable to delete pods: %w", err)
}

// Patch sends a strategic merge patch for a pod and returns the pod as patched.
func (c Control) Patch(ctx context.Context, namespace, name string, patch []byte) (*corev1.Pod, error) {
	return c.Client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
}

// NamespaceTerminating reports that a create failed because the namespace is being
// deleted: it will not succeed, and nobody needs to be told.
func NamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
