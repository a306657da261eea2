package ttl

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (c *ttlController) reconcile(ctx context.Context, name string) error {
	node, found, err := reconcile.Found(c.nodes.Get(name))
	if !found {
		return err
	}
	seconds, _ := c.size.seconds()
	if shows(node, seconds) {
		return nil
	}
	if _, err := shown(node); err != nil {
		klog.FromContext(ctx).Info("Replacing an annotation that is not a number", "node", name, "err", err)
	}
	_, err = c.Client.CoreV1().Nodes().Patch(controller.OnlyMetadata(ctx), name, types.StrategicMergePatchType, patchTo(seconds), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("patching node %s: %w", name, err)
	}
	klog.FromContext(ctx).V(2).Info("Changed the TTL of a node", "node", name, "seconds", seconds)
	return nil
}
