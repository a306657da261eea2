package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/controlplane/process"
)

const (
	// CSIDriver is the name of the driver that Options.CSI runs.
	CSIDriver = "csi.kcmd.dev"
	// CSIClass is its default class: volumes are provisioned for the first pod that needs them,
	// may grow, and are deleted with their claims.
	CSIClass = "csi"

	// managedAttach is how a kubelet says that it leaves attaching to the manager.
	managedAttach = "volumes.kubernetes.io/controller-managed-attach-detach"
)

// CSIVolume is a volume as the driver has it. The driver calls it by the name of its
// PersistentVolume.
type CSIVolume struct {
	CapacityBytes int64 `json:"capacityBytes"`
	// Nodes are those that it is attached to.
	Nodes []string `json:"nodes"`
}

// startCSI starts the driver and the programs that serve it, which wait for its socket.
func (c *ControlPlane) startCSI(ctx context.Context) error {
	kubeconfig, err := c.Kubeconfig("csi", "csi-driver", adminGroup)
	if err != nil {
		return err
	}
	socket := c.path("csi.sock")
	specs := []process.Spec{c.spec(binaries.CSIDriver, socket, c.csiVolumes())}
	for _, name := range []string{binaries.CSIProvisioner, binaries.CSIAttacher, binaries.CSIResizer} {
		specs = append(specs, c.spec(name,
			"--csi-address="+socket,
			"--kubeconfig="+kubeconfig,
			"--kube-api-qps=5000",
			"--kube-api-burst=5000",
			// A test that holds the driver up does not wait for minutes afterwards.
			"--retry-interval-start=100ms",
			"--retry-interval-max=1s",
		))
	}
	for _, spec := range specs {
		if err := c.launchConfigured(func() (process.Spec, error) { return spec, nil }); err != nil {
			return err
		}
	}
	return c.installCSI(ctx)
}

// installCSI creates what the installation of a driver creates, and what it is up to kubelets to
// create when a driver registers with them.
func (c *ControlPlane) installCSI(ctx context.Context) error {
	_, err := c.client.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: CSIDriver},
		Spec:       storagev1.CSIDriverSpec{AttachRequired: ptr.To(true), PodInfoOnMount: ptr.To(false)},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the CSIDriver: %w", err)
	}
	_, err = c.client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        CSIClass,
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner:          CSIDriver,
		ReclaimPolicy:        ptr.To(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode:    ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		AllowVolumeExpansion: ptr.To(true),
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the StorageClass: %w", err)
	}
	err = c.eachNode(ctx, func(ctx context.Context, i int) error {
		node := &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: NodeName(i)},
			Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: CSIDriver, NodeID: NodeName(i)}}},
		}
		_, err := c.client.StorageV1().CSINodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating CSINodes: %w", err)
	}
	return nil
}

func (c *ControlPlane) csiVolumes() string { return c.path("csi-volumes") }

// CSIVolumes returns the volumes that the driver has now.
func (c *ControlPlane) CSIVolumes() (map[string]CSIVolume, error) {
	files, err := filepath.Glob(filepath.Join(c.csiVolumes(), "[^.]*.json"))
	if err != nil {
		return nil, fmt.Errorf("listing the volumes of the CSI driver: %w", err)
	}
	volumes := make(map[string]CSIVolume, len(files))
	for _, file := range files {
		data, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue // it was deleted meanwhile
		}
		var v CSIVolume
		if err == nil {
			err = json.Unmarshal(data, &v)
		}
		if err != nil {
			return nil, fmt.Errorf("reading a volume of the CSI driver: %w", err)
		}
		volumes[strings.TrimSuffix(filepath.Base(file), ".json")] = v
	}
	return volumes, nil
}

// PauseCSIDriver suspends the driver: calls are sent and not answered.
func (c *ControlPlane) PauseCSIDriver() error { return c.suspend(binaries.CSIDriver) }

// ResumeCSIDriver lets a paused driver go on.
func (c *ControlPlane) ResumeCSIDriver() error { return c.resume(binaries.CSIDriver) }
