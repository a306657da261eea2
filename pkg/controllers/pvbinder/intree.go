package pvbinder

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/reference"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/volumes/operations"
)

const (
	// createTries is the number of attempts to create a volume, and to delete its storage if that failed.
	createTries = 5
	createPause = 10 * time.Second
)

// provisionInTree has a plugin make a volume for a claim.
func (c *binderController) provisionInTree(
	stopping, working context.Context, claim *corev1.PersistentVolumeClaim, plugin provisioner,
	class *storagev1.StorageClass,
) error {
	if claim.Spec.DataSource != nil {
		return c.failedToProvision(claim, fmt.Errorf(
			"plugin %q is not a CSI plugin. Only CSI plugin can provision a claim with a datasource", plugin.Name()))
	}
	if naming := withProvisioner(claim, class.Provisioner); naming != nil {
		var err error
		if claim, err = c.updateClaim(working, naming); err != nil {
			return fmt.Errorf("naming the provisioner of claim %s: %w", keyOf(claim), err)
		}
	}
	_, err := c.Client.CoreV1().PersistentVolumes().Get(working, volumeNameFor(claim), metav1.GetOptions{})
	if !controller.Absent(err) {
		return err // nil if it has been made
	}
	node, err := c.mayProvision(plugin, claim, class)
	if err != nil {
		return c.failedToProvision(claim, err)
	}
	began := c.Clock.Now()
	made, err := plugin.Provision(working, provisionRequest{claim, class, node})
	c.observePlugin(plugin, "volume_provision", began, err)
	if err != nil {
		c.deselectNode(working, claim)
		return c.failedToProvision(claim, fmt.Errorf("Failed to provision volume with StorageClass %q: %w", class.Name, err))
	}
	ref, err := reference.GetReference(scheme.Scheme, claim)
	if err != nil {
		return fmt.Errorf("referring to claim %s: %w", keyOf(claim), err)
	}
	c.createVolume(stopping, working, plugin, claim, volumeFor(claim, ref, class, plugin.Name(), made))
	return nil
}

// failedToProvision records an error, whose message becomes that of the event.
func (c *binderController) failedToProvision(claim *corev1.PersistentVolumeClaim, err error) error {
	c.recordAll(provisioningFailed(claim, err.Error()))
	return fmt.Errorf("provisioning a volume for claim %s: %w", keyOf(claim), err)
}

// mayProvision returns the node for which a plugin makes a volume, nil if that does not matter, or why it
// cannot make one.
func (c *binderController) mayProvision(
	plugin provisioner, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass,
) (*corev1.Node, error) {
	if len(class.MountOptions) > 0 {
		return nil, fmt.Errorf(
			"Mount options are not supported by the provisioner but StorageClass %q has mount options %v",
			class.Name, class.MountOptions)
	}
	if err := plugin.Enabled(); err != nil {
		return nil, fmt.Errorf("Failed to create provisioner: %w", err)
	}
	if name, ok := claim.Annotations[volume.AnnSelectedNode]; ok {
		node, err := c.nodes.Get(name)
		if err != nil {
			return nil, fmt.Errorf("Failed to get target node: %w", err)
		}
		return node, nil
	}
	return nil, nil
}

// deselectNode lets the scheduler choose another node for a claim.
func (c *binderController) deselectNode(ctx context.Context, claim *corev1.PersistentVolumeClaim) {
	if _, ok := claim.Annotations[volume.AnnSelectedNode]; !ok {
		return
	}
	claim = claim.DeepCopy()
	delete(claim.Annotations, volume.AnnSelectedNode)
	if _, err := c.updateClaim(ctx, claim); err != nil {
		klog.FromContext(ctx).Error(err, "Removing the selected node of a claim failed", "claim", klog.KObj(claim))
	}
}

// createVolume creates the object of a volume whose storage has been made. If that fails, or the instance
// is to stop before it succeeds, the storage is deleted: another attempt makes a new one.
func (c *binderController) createVolume(
	stopping, working context.Context, plugin provisioner, claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume,
) {
	err := c.retry(stopping, func() error {
		_, err := c.Client.CoreV1().PersistentVolumes().Create(working, v, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	if err == nil {
		c.recordAll(provisioned(claim, v.Name, plugin.Name()))
		return
	}
	c.recordAll(provisioningFailed(claim,
		fmt.Sprintf("Error creating provisioned PV object for claim %s: %v. Deleting the volume.", keyOf(claim), err)))
	if err = c.retry(stopping, func() error { return c.undo(working, plugin, v) }); err != nil {
		c.recordAll(cleanupFailed(claim, err))
	}
}

// undo deletes the storage of a volume that could not be created. A create that seemed to fail may have been
// executed: the storage then belongs to the volume.
func (c *binderController) undo(ctx context.Context, plugin provisioner, v *corev1.PersistentVolume) error {
	of, ok := plugin.(deleter)
	if !ok {
		return errNotDeletable
	}
	_, err := c.Client.CoreV1().PersistentVolumes().Get(ctx, v.Name, metav1.GetOptions{})
	if controller.Absent(err) {
		return of.Delete(ctx, v)
	}
	return err
}

// retry calls f until it succeeds, with a pause after each failure. After a stop it is called once only.
func (c *binderController) retry(stopping context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if err == nil {
			return nil
		}
		timer := c.Clock.NewTimer(createPause)
		select {
		case <-timer.C():
		case <-stopping.Done():
			timer.Stop()
			return err
		}
		if try == createTries {
			return err
		}
	}
}

// observePlugin records how long a plugin took.
func (c *binderController) observePlugin(of plugin, operation string, began time.Time, err error) {
	c.pluginMetrics.plugin.Observe(operations.Operation{Plugin: of.Name(), Name: operation}, c.Clock.Since(began), err)
}
