package garbagecollector

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// reportInvalid tells that an object refers to an owner in another namespace.
func (c *collector) reportInvalid(ctx context.Context, ref invalidReference) {
	dependent := ref.dependent
	klog.FromContext(ctx).V(2).Info("Owner reference into another namespace", "object", dependent, "owner", ref.owner)
	c.events.Eventf(&corev1.ObjectReference{
		APIVersion: dependent.apiVersion,
		Kind:       dependent.kind,
		Namespace:  dependent.namespace,
		Name:       dependent.name,
		UID:        dependent.uid,
	}, corev1.EventTypeWarning, "OwnerRefInvalidNamespace",
		"ownerRef %s does not exist in namespace %q", ref.owner, dependent.namespace)
}
