package pvbinder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
)

const hostPathName = "kubernetes.io/host-path"

// hostPath makes, deletes and empties directories on one machine. It is for tests on a single node:
// directories are made and deleted on the machine of the controller, wherever pods use them.
type hostPath struct {
	pods recyclerPods
	// root is where directories are made, provisions whether they are.
	root       string
	provisions bool
}

// Name implements plugin.
func (hostPath) Name() string { return hostPathName }

// Supports implements plugin.
func (hostPath) Supports(v *corev1.PersistentVolume) bool { return v.Spec.HostPath != nil }

// Enabled implements provisioner.
func (p hostPath) Enabled() error {
	if !p.provisions {
		return fmt.Errorf("provisioning in volume plugin %q is disabled", hostPathName)
	}
	return nil
}

// Provision implements provisioner.
func (p hostPath) Provision(_ context.Context, request provisionRequest) (*provisionedStorage, error) {
	if volumeModeOf(request.Claim.Spec.VolumeMode) == corev1.PersistentVolumeBlock {
		return nil, fmt.Errorf("%s does not support block volume provisioning", hostPathName)
	}
	path := filepath.Join(p.root, uuid.NewString())
	if err := os.MkdirAll(path, 0o750); err != nil {
		return nil, fmt.Errorf("creating the directory of a volume: %w", err)
	}
	if err := shareWithContainers(path); err != nil {
		return nil, errors.Join(fmt.Errorf("labelling %s: %w", path, err), os.RemoveAll(path))
	}
	return &provisionedStorage{
		Source:      corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}},
		Annotations: map[string]string{"kubernetes.io/createdby": "hostpath-dynamic-provisioner"},
	}, nil
}

// deletable are the paths that may be deleted. The expression is not anchored, as in upstream.
var deletable = regexp.MustCompile("/tmp/.+")

// Delete implements deleter.
func (hostPath) Delete(_ context.Context, v *corev1.PersistentVolume) error {
	if v.Spec.HostPath == nil {
		return fmt.Errorf("failed to create deleter for volume %q: spec.PersistentVolumeSource.HostPath is nil", v.Name)
	}
	if path := v.Spec.HostPath.Path; !deletable.MatchString(path) {
		return fmt.Errorf("host_path deleter only supports /tmp/.+ but received provided %s", path)
	}
	return os.RemoveAll(v.Spec.HostPath.Path)
}

// RecyclerPod implements recycler.
func (p hostPath) RecyclerPod(v *corev1.PersistentVolume) *corev1.Pod {
	return p.pods.podFor(v, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: v.Spec.HostPath.Path}})
}

const nfsName = "kubernetes.io/nfs"

// nfs empties NFS shares.
type nfs struct{ pods recyclerPods }

// Name implements plugin.
func (nfs) Name() string { return nfsName }

// Supports implements plugin.
func (nfs) Supports(v *corev1.PersistentVolume) bool { return v.Spec.NFS != nil }

// RecyclerPod implements recycler.
func (p nfs) RecyclerPod(v *corev1.PersistentVolume) *corev1.Pod {
	share := &corev1.NFSVolumeSource{Server: v.Spec.NFS.Server, Path: v.Spec.NFS.Path}
	return p.pods.podFor(v, corev1.VolumeSource{NFS: share})
}

// gibibytes returns how many there are in the capacity of a volume, rounded down.
func gibibytes(v *corev1.PersistentVolume) int64 {
	capacity := v.Spec.Capacity[corev1.ResourceStorage]
	return capacity.Value() / gibibyte
}
