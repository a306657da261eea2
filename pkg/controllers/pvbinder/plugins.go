package pvbinder

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"
)

// plugin is a kind of storage on which this controller works itself. The interfaces that it implements
// show what it can do.
type plugin interface {
	// Name is the name of the plugin in classes and annotations.
	Name() string
	// Supports reports whether a volume is of this kind.
	Supports(v *corev1.PersistentVolume) bool
}

// provisioner is a plugin that makes volumes.
type provisioner interface {
	plugin
	// Enabled returns an error if the plugin is configured not to make volumes.
	Enabled() error
	// Provision makes the storage for a claim and returns its source.
	Provision(ctx context.Context, request provisionRequest) (*provisionedStorage, error)
}

// provisionRequest is what storage is made for.
type provisionRequest struct {
	Claim *corev1.PersistentVolumeClaim
	Class *storagev1.StorageClass
	// Node is where it has to be usable, nil if that does not matter.
	Node *corev1.Node
}

// provisionedStorage is what a plugin made.
type provisionedStorage struct {
	Source      corev1.PersistentVolumeSource
	Annotations map[string]string
}

// deleter is a plugin that deletes the storage of volumes.
type deleter interface {
	plugin
	// Delete deletes the storage of a volume. It succeeds if there is none. If the storage is in use, it
	// returns a DeletedVolumeInUseError: the volume does not count as failed then.
	Delete(ctx context.Context, v *corev1.PersistentVolume) error
}

// recycler is a plugin whose volumes are emptied by a pod.
type recycler interface {
	plugin
	// RecyclerPod returns the pod that empties a volume.
	RecyclerPod(v *corev1.PersistentVolume) *corev1.Pod
}

// plugins are all the kinds of storage on which the controller works itself.
type plugins []plugin

func (p plugins) named(name string) plugin {
	for _, candidate := range p {
		if candidate.Name() == name {
			return candidate
		}
	}
	return nil
}

// forVolume returns the plugin of the kind of a volume, nil if there is none.
func (p plugins) forVolume(v *corev1.PersistentVolume) plugin {
	for _, candidate := range p {
		if candidate.Supports(v) {
			return candidate
		}
	}
	return nil
}

// provisionerFor returns the plugin that makes the volumes of a class, or else the name of the external
// provisioner that does.
func (p plugins) provisionerFor(class *storagev1.StorageClass) (internal provisioner, external string, err error) {
	if driver := migratedTo(class.Provisioner); driver != "" {
		return nil, driver, nil
	}
	found := p.named(class.Provisioner)
	if internal, ok := found.(provisioner); ok {
		return internal, "", nil
	}
	switch {
	case !strings.HasPrefix(class.Provisioner, inTreePrefix):
		return nil, class.Provisioner, nil
	case found == nil:
		return nil, "", noPluginNamed(class.Provisioner)
	default:
		return nil, "", errors.New("no provisionable volume plugin matched")
	}
}

// deleterFor returns the plugin that deletes the storage of a volume, nil if an external provisioner does.
func (p plugins) deleterFor(v *corev1.PersistentVolume) (deleter, error) {
	if name := v.Annotations[volume.AnnDynamicallyProvisioned]; name != "" {
		found := p.named(name)
		if internal, ok := found.(deleter); ok {
			return internal, nil
		}
		switch {
		case !strings.HasPrefix(name, inTreePrefix):
			return nil, nil
		case found == nil:
			return nil, noPluginNamed(name)
		default:
			return nil, errNotDeletable
		}
	}
	if _, ok := v.Annotations[volume.AnnMigratedTo]; ok || v.Spec.CSI != nil {
		return nil, nil
	}
	found := p.forVolume(v)
	if internal, ok := found.(deleter); ok {
		return internal, nil
	}
	reason := errNotDeletable
	if found == nil {
		reason = errors.New("no volume plugin matched")
	}
	return nil, fmt.Errorf("error getting deleter volume plugin for volume %q: %w", v.Name, reason)
}

var errNotDeletable = errors.New("no deletable volume plugin matched")

func noPluginNamed(name string) error { return fmt.Errorf("no volume plugin matched name: %s", name) }

// recyclerFor returns the plugin whose pods empty a volume, nil if there is none.
func (p plugins) recyclerFor(v *corev1.PersistentVolume) recycler {
	found, _ := p.forVolume(v).(recycler)
	return found
}
