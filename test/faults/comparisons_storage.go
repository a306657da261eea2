package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/manager"
)

func storageComparisons() []Scenario {
	return []Scenario{
		volumeMatching(), volumePointers(), volumeLosses(),
		volumeProvisioning(), volumeProvisioningOff(), provisionedHostPaths(), defaultClasses(),
		volumeReclaiming(), volumeRecycling(),
		volumeSources(), volumeMoves(), volumeAttachFailures(),
		volumeExpansion(), storageProtection(), ephemeralVolumes(), volumeLabels(),
	}
}

const (
	volumeResource = "persistentvolumes"
	claimResource  = "persistentvolumeclaims"
)

// small is a PersistentVolume for one node, of one gibibyte.
const small = "accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, "

// asks is a claim for one gibibyte, on one node.
const asks = "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, "

// volumeText is a PersistentVolume of metadata and a spec in the flow style of YAML.
func volumeText(name, metadata, spec string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: PersistentVolume, metadata: {name: %s, %s}, spec: {%s}}", name, metadata, strings.TrimSuffix(spec, ", "))
}

// driven is a PersistentVolume of the driver, whose handle is its name.
func driven(name, metadata, spec string) string {
	return volumeText(name, metadata, fmt.Sprintf("%s, csi: {driver: %s, volumeHandle: %s}", strings.TrimSuffix(spec, ", "), csiDriver, name))
}

// claimText is a claim of metadata and a spec in the flow style of YAML.
func claimText(name, metadata, spec string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s, %s}, spec: {%s}}", name, metadata, strings.TrimSuffix(spec, ", "))
}

// classText is a StorageClass.
func classText(name, provisioner, more string) string {
	return fmt.Sprintf("{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: %s}, provisioner: %s, %s}", name, provisioner, more)
}

// CreateAll creates the objects of some texts.
func CreateAll(texts ...string) Action { return Create(documents(texts...)) }

// doEach does something for some names.
func doEach(do func(name string) Action, names ...string) Action {
	return func(ctx context.Context, w *world) error {
		for _, name := range names {
			if err := do(name)(ctx, w); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}
}

// deletes deletes objects of a resource.
func deletes(resource string, names ...string) Action {
	return doEach(func(name string) Action { return Delete(resource, name, metav1.DeletePropagationBackground) }, names...)
}

// phases is that objects of a resource are in a phase.
func phases(resource, phase string, names ...string) Condition {
	return Condition(doEach(func(name string) Action {
		return Action(Has(resource, name, "{.status.phase}", phase))
	}, names...))
}

// allGone is that there are no objects of some names.
func allGone(resource string, names ...string) Condition {
	return Condition(doEach(func(name string) Action { return Action(Gone(resource, name)) }, names...))
}

// Told is that an event about an object, which exists, has a reason, and a message that contains a text.
func Told(resource, name, reason, part string) Condition {
	return func(ctx context.Context, w *world) error {
		client, err := w.of(resource)
		if err != nil {
			return err
		}
		o, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		namespace := o.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		about := fields.Set{"involvedObject.uid": string(o.GetUID()), "reason": reason}
		events, err := w.admin.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: about.String()})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return strings.Contains(e.Message, part) }) {
			return fmt.Errorf("no event %s about %s/%s contains %q", reason, resource, name, part)
		}
		return nil
	}
}

// ToldAll is that events about some objects have a reason, and messages that contain a text.
func ToldAll(resource, reason, part string, names ...string) Condition {
	return Condition(doEach(func(name string) Action { return Action(Told(resource, name, reason, part)) }, names...))
}

// Reserve has a volume belong to a claim that exists: its claimRef has the UID.
func Reserve(volume, claim string) Action {
	return func(ctx context.Context, w *world) error {
		c, err := w.admin.CoreV1().PersistentVolumeClaims(w.namespace).Get(ctx, claim, metav1.GetOptions{})
		if err != nil {
			return err
		}
		patch := fmt.Sprintf(`{"spec":{"claimRef":{"kind":"PersistentVolumeClaim","apiVersion":"v1","namespace":%q,"name":%q,"uid":%q}}}`, w.namespace, claim, c.UID)
		_, err = w.admin.CoreV1().PersistentVolumes().Patch(ctx, volume, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
}

// binderPeriod is the one between two passes over all volumes and claims, which upstream's manager has as a flag.
const binderPeriod = 3 * time.Second

var binderFlags = []string{"--pvclaimbinder-sync-period=" + binderPeriod.String()}

func withBinder(c *manager.Config) []**bool {
	return []**bool{
		&c.Controllers.PersistentVolumeBinder.Enabled,
		&c.Controllers.PersistentVolumeProtection.Enabled,
		&c.Controllers.PersistentVolumeClaimProtection.Enabled,
	}
}

func binderSettings(c *manager.Config) {
	c.Controllers.PersistentVolumeBinder.SyncPeriod = &metav1.Duration{Duration: binderPeriod}
}
