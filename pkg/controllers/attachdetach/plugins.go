package attachdetach

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	storagelisters "k8s.io/client-go/listers/storage/v1"

	"kcmd.dev/pkg/controllers/kit/volumes"
)

// Plugins whose volumes are attached, besides the drivers of FlexVolumes.
const (
	csiPlugin   = "kubernetes.io/csi"
	iscsiPlugin = "kubernetes.io/iscsi"
	fcPlugin    = "kubernetes.io/fc"
)

// identified is a volume and the parts of the name that the kubelet and this controller give it. The zero value
// stands for a volume of which only the name is known.
type identified struct {
	volumes.Spec
	plugin string
	id     string // unique among the volumes of the plugin
	label  string // of metrics
}

func (i identified) name() corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(i.plugin + "/" + i.id)
}

// allowsMultiple reports whether a volume may be attached to several nodes at a time.
func (i identified) allowsMultiple() bool {
	if i.PV == nil {
		return i.Volume == nil || i.Volume.AzureDisk == nil && i.Volume.Cinder == nil
	}
	for _, mode := range i.PV.Spec.AccessModes {
		if mode == corev1.ReadWriteMany || mode == corev1.ReadOnlyMany {
			return true
		}
	}
	return len(i.PV.Spec.AccessModes) == 0
}

// keyFor is the key of operations with the volume on a node.
func (i identified) keyFor(node string) string {
	if i.allowsMultiple() {
		return node
	}
	return ""
}

// plugins finds out which volumes are attached, and by which plugin.
type plugins struct {
	drivers storagelisters.CSIDriverLister
	flex    *flexDrivers
}

// find returns the plugin of a volume and the label for it, false if the volume is of none of them.
func (p plugins) find(ctx context.Context, spec volumes.Spec) (plugin, label string, ok bool) {
	source := sourceOf(spec)
	switch {
	case spec.CSI() != nil:
		return csiPlugin, csiPlugin + ":" + spec.CSI().Driver, true
	case spec.Volume != nil && spec.Volume.CSI != nil:
		return csiPlugin, csiPlugin + ":" + spec.Volume.CSI.Driver, true
	case source.iscsi:
		return iscsiPlugin, iscsiPlugin, true
	case source.fc:
		return fcPlugin, fcPlugin, true
	case source.flex != nil && p.flex.find(ctx, source.flex.driver) != nil:
		return source.flex.driver, source.flex.driver, true
	}
	return "", "", false
}

// errSkipped is why a volume is not processed now. It may be later.
var errSkipped = errors.New("the volume cannot be identified")

// identify returns the name of a volume. ok is false if the volume is not one that is attached.
func (p plugins) identify(ctx context.Context, spec volumes.Spec) (what identified, ok bool, err error) {
	plugin, label, found := p.find(ctx, spec)
	if !found {
		return identified{}, false, nil
	}
	what = identified{Spec: spec, plugin: plugin, label: label}
	switch plugin {
	case csiPlugin:
		if spec.CSI() == nil {
			return identified{}, false, nil // defined in the pod
		}
		if required, err := p.attachRequired(spec.CSI().Driver); !required {
			return identified{}, false, err
		}
	case iscsiPlugin, fcPlugin:
	default:
		if attaches, err := p.flex.identify(ctx, spec, sourceOf(spec).flex); !attaches || err != nil {
			return identified{}, false, err
		}
		what.id = spec.Name()
		return what, true, nil
	}
	name, err := volumes.UniqueName(spec)
	if err != nil {
		return identified{}, false, errSkipped
	}
	what.id = strings.TrimPrefix(name, plugin+"/")
	return what, true, nil
}

// attachRequired reports whether the volumes of a CSI driver are attached: unless its CSIDriver says
// otherwise, or cannot be read.
func (p plugins) attachRequired(driver string) (bool, error) {
	object, err := p.drivers.Get(driver)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading CSIDriver %s: %w", driver, err)
	}
	return object.Spec.AttachRequired == nil || *object.Spec.AttachRequired, nil
}

// source is the definition of a volume that is not one of CSI.
type source struct {
	iscsi, fc bool
	flex      *flexVolume
}

func sourceOf(spec volumes.Spec) source {
	var s source
	switch {
	case spec.PV != nil:
		of := spec.PV.Spec
		s.iscsi, s.fc = of.ISCSI != nil, of.FC != nil
		if of.FlexVolume != nil {
			s.flex = &flexVolume{of.FlexVolume.Driver, of.FlexVolume.FSType, of.FlexVolume.ReadOnly, of.FlexVolume.Options}
		}
	case spec.Volume != nil:
		of := spec.Volume
		s.iscsi, s.fc = of.ISCSI != nil, of.FC != nil
		if of.FlexVolume != nil {
			s.flex = &flexVolume{of.FlexVolume.Driver, of.FlexVolume.FSType, of.FlexVolume.ReadOnly, of.FlexVolume.Options}
		}
	}
	return s
}

// split returns the plugin and the id in the name of a volume.
func split(name corev1.UniqueVolumeName) (plugin, id string, ok bool) {
	parts := strings.SplitN(string(name), "/", 3)
	if len(parts) != 3 || parts[2] == "" {
		return "", "", false
	}
	return parts[0] + "/" + parts[1], parts[2], true
}

// splitCSI returns the driver and the handle in the id of a CSI volume.
func splitCSI(id string) (driver, handle string, ok bool) {
	driver, handle, ok = strings.Cut(id, "^")
	return driver, handle, ok && driver != "" && handle != ""
}

// vaNameOf is the name of the VolumeAttachment of a place, empty if its volume is not one of CSI.
func vaNameOf(at place) string {
	plugin, id, ok := split(at.volume)
	if !ok || plugin != csiPlugin {
		return ""
	}
	driver, handle, ok := splitCSI(id)
	if !ok {
		return ""
	}
	sum := sha256.Sum256([]byte(handle + driver + at.node))
	return "csi-" + hex.EncodeToString(sum[:])
}

// pluginOf returns the plugin that a volume is detached by: that of its spec, or else the one its name
// begins with. It is empty if there is none. The volume of a CSI driver is detached even if the driver no
// longer has its volumes attached.
func (p plugins) pluginOf(at place, known identified) string {
	if known.plugin != "" {
		return known.plugin
	}
	plugin, _, ok := split(at.volume)
	switch {
	case !ok:
		return ""
	case plugin == csiPlugin, plugin == iscsiPlugin, plugin == fcPlugin:
		return plugin
	}
	if _, _, ok := p.flex.installed(plugin); ok {
		return plugin
	}
	return ""
}
