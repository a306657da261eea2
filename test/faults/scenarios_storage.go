package faults

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

var (
	volumes        = corev1.SchemeGroupVersion.WithResource("persistentvolumes")
	claims         = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	storageClasses = storagev1.SchemeGroupVersion.WithResource("storageclasses")
	attachments    = storagev1.SchemeGroupVersion.WithResource("volumeattachments")
	modifications  = storagev1.SchemeGroupVersion.WithResource("volumeattributesclasses")
)

// csiDriver is the driver of the volumes of scenarios.
const csiDriver = "faults.example.com"

// Volume creates a volume of the driver, of a class; more are further lines of its spec.
func Volume(name, class, size, more string) Action {
	return Create(fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %s}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: %s}
  storageClassName: %s
%s`, name, size, class, more))
}

// onDriver is the source of a volume of the driver.
func onDriver(handle string) string {
	return fmt.Sprintf("  csi: {driver: %s, volumeHandle: %s}", csiDriver, handle)
}

// Claim creates a claim of a class; more are further lines of its spec.
func Claim(name, class, more string) Action {
	return Create(fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
  storageClassName: %s
%s`, name, class, more))
}

// Bind does what the binder does: the volume belongs to the claim, and both are Bound.
func Bind(volume, claim string) Action {
	return func(ctx context.Context, w *world) error {
		c, err := w.admin.CoreV1().PersistentVolumeClaims(w.namespace).Get(ctx, claim, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ref := fmt.Sprintf(`{"spec":{"claimRef":{"kind":"PersistentVolumeClaim","apiVersion":"v1","namespace":%q,"name":%q,"uid":%q}}}`, w.namespace, claim, c.UID)
		if _, err := w.admin.CoreV1().PersistentVolumes().Patch(ctx, volume, types.MergePatchType, []byte(ref), metav1.PatchOptions{}); err != nil {
			return err
		}
		if err := PatchStatus("persistentvolumes", volume, `{"status":{"phase":"Bound"}}`)(ctx, w); err != nil {
			return err
		}
		return PatchStatus("persistentvolumeclaims", claim, `{"status":{"phase":"Bound","accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"}}}`)(ctx, w)
	}
}

// bound is that a claim has a volume, and both say so.
func bound(claim, volume string) []Condition {
	return []Condition{
		Has("persistentvolumeclaims", claim, "{.status.phase}", "Bound", "{.spec.volumeName}", volume),
		Has("persistentvolumes", volume, "{.status.phase}", "Bound", "{.spec.claimRef.name}", claim),
	}
}

func volumeBinder() Scenario {
	return Scenario{
		Name: "persistentvolume-binder",
		Bare: true,
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{
				&c.Controllers.PersistentVolumeBinder.Enabled,
				&c.Controllers.PersistentVolumeProtection.Enabled,
				&c.Controllers.PersistentVolumeClaimProtection.Enabled,
			}
		},
		Configure: func(c *manager.Config) {
			c.Controllers.PersistentVolumeBinder.SyncPeriod = &metav1.Duration{Duration: time.Second}
		},
		Flags: []string{"--pvclaimbinder-sync-period=1s"},
		Kinds: []schema.GroupVersionResource{volumes, claims, storageClasses},
		Steps: []Step{
			{
				"create volumes",
				[]Action{
					Volume("small", "disks", "1Gi", onDriver("small")),
					Volume("large", "disks", "5Gi", onDriver("large")),
					Volume("reserved", "disks", "1Gi", onDriver("reserved")+"\n  claimRef: {namespace: NAMESPACE, name: owner}"),
					Volume("directory", "directories", "1Gi", "  persistentVolumeReclaimPolicy: Delete\n  hostPath: {path: /tmp/NAMESPACE}"),
				},
				[]Condition{
					Has("persistentvolumes", "small", "{.status.phase}", "Available"),
					Has("persistentvolumes", "large", "{.status.phase}", "Available"),
					Has("persistentvolumes", "reserved", "{.status.phase}", "Available"),
					Has("persistentvolumes", "directory", "{.status.phase}", "Available"),
				},
			},
			{"claim the smallest", []Action{Claim("data", "disks", "")}, bound("data", "small")},
			{
				"claim what is reserved, and a directory",
				[]Action{Claim("owner", "disks", "  volumeName: reserved"), Claim("files", "directories", "")},
				append(bound("owner", "reserved"), bound("files", "directory")...),
			},
			{
				"delete claims",
				[]Action{
					Delete("persistentvolumeclaims", "data", metav1.DeletePropagationBackground),
					Delete("persistentvolumeclaims", "files", metav1.DeletePropagationBackground),
				},
				[]Condition{
					Gone("persistentvolumeclaims", "data"), Has("persistentvolumes", "small", "{.status.phase}", "Released"),
					Gone("persistentvolumeclaims", "files"), Gone("persistentvolumes", "directory"),
				},
			},
			{"claim again under the name", []Action{Claim("data", "disks", "")}, bound("data", "large")},
			{
				"delete a volume while it is bound",
				[]Action{
					Delete("persistentvolumes", "reserved", metav1.DeletePropagationBackground),
					Delete("persistentvolumes", "small", metav1.DeletePropagationBackground),
				},
				append(bound("owner", "reserved"), Gone("persistentvolumes", "small")),
			},
			{
				"have a volume provisioned by somebody else",
				[]Action{
					Create("{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: external}, provisioner: " + csiDriver + "}"),
					Claim("elsewhere", "external", ""),
				},
				[]Condition{Has("persistentvolumeclaims", "elsewhere", `{.metadata.annotations.volume\.kubernetes\.io/storage-provisioner}`, csiDriver)},
			},
		},
	}
}

// attachable is a node on which volumes are attached.
func attachable(name string) Action {
	return Create(`
apiVersion: v1
kind: Node
metadata: {name: ` + name + `, annotations: {volumes.kubernetes.io/controller-managed-attach-detach: "true"}}
status: {conditions: [{type: Ready, status: "True", reason: Played, message: by a scenario, lastHeartbeatTime: "2026-01-01T00:00:00Z"}]}
`)
}

// uses has a node report the volumes of the driver that it uses.
func uses(node string, handles ...string) Action {
	list := ""
	for i, handle := range handles {
		if i > 0 {
			list += ","
		}
		list += fmt.Sprintf("%q", "kubernetes.io/csi/"+csiDriver+"^"+handle)
	}
	return PatchStatus("nodes", node, `{"status":{"volumesInUse":[`+list+`]}}`)
}

// podClaiming is a pod on a node that uses a claim.
func podClaiming(name, node, claim string) Action {
	return podAt(name, node, "  volumes: [{name: data, persistentVolumeClaim: {claimName: "+claim+"}}]")
}

// shows is that the status of a node names a number of attached volumes.
func shows(node string, handles ...string) Condition {
	var list string
	for i, handle := range handles {
		if i > 0 {
			list += " "
		}
		list += "kubernetes.io/csi/" + csiDriver + "^" + handle
	}
	return Has("nodes", node, "{.status.volumesAttached[*].name}", list)
}

// attaches is what the external-attacher of the driver does.
func attaches(ctx context.Context, w *world) error {
	var failed error
	harness.NewAttacher(w.admin, csiDriver, func(err error) { failed = err }).Run(ctx)
	return failed
}

func attachDetach() Scenario {
	return Scenario{
		Name:        "persistentvolume-attach-detach",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.PersistentVolumeAttachDetach.Enabled} },
		// A volume that only a VolumeAttachment reports counts as mounted until its node reports.
		Beside: []func(context.Context, *world) error{attaches, Reports},
		Kinds:  []schema.GroupVersionResource{attachments, nodes, volumes, claims, pods},
		// While its node uses the volume, no other node gets it, as the script checks. Then the detach and the attach
		// may overlap: an attachment that only a VolumeAttachment reports holds nothing (ATT-30, ATT-40c).
		AtMost: map[string]int{"volumeattachments/csi-*": 3},
		Steps: []Step{
			{
				"run a pod with a volume",
				[]Action{
					attachable("node-a"), attachable("node-b"),
					Volume("data", "disks", "1Gi", onDriver("data")), Claim("data", "disks", "  volumeName: data"), Bind("data", "data"),
					Volume("other", "disks", "1Gi", onDriver("other")), Claim("other", "disks", "  volumeName: other"), Bind("other", "other"),
					podClaiming("first", "node-a", "data"),
				},
				[]Condition{shows("node-a", "data"), Count("volumeattachments", "", 1)},
			},
			{
				"move it while its node uses the volume",
				[]Action{
					uses("node-a", "data"),
					Delete("pods", "first", metav1.DeletePropagationBackground),
					podClaiming("second", "node-b", "data"), podClaiming("third", "node-b", "other"),
				},
				[]Condition{shows("node-b", "other"), Count("volumeattachments", "", 2)},
			},
			{
				"release it",
				[]Action{Check(Count("volumeattachments", "", 2)), uses("node-b", "other"), uses("node-a")},
				[]Condition{shows("node-a"), attached("node-b", 2)},
			},
			{
				"end it",
				[]Action{Delete("pods", "second", metav1.DeletePropagationBackground)},
				[]Condition{shows("node-b", "other"), Count("volumeattachments", "", 1)},
			},
		},
	}
}

// attached is that a node has a number of volumes attached, and that its status names them.
func attached(node string, want int) Condition {
	return func(ctx context.Context, w *world) error {
		list, err := w.admin.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var are int
		for i := range list.Items {
			if va := &list.Items[i]; va.Spec.NodeName == node && va.Status.Attached && va.DeletionTimestamp == nil {
				are++
			}
		}
		n, err := w.admin.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if told := len(n.Status.VolumesAttached); are != want || told != want {
			return fmt.Errorf("%d volumes are attached to %s, whose status names %d, want %d", are, node, told, want)
		}
		return nil
	}
}

func volumeExpander() Scenario {
	grow := Repeat(Patch("persistentvolumeclaims", "data", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`))
	again := Repeat(Patch("persistentvolumeclaims", "data", `{"spec":{"resources":{"requests":{"storage":"3Gi"}}}}`))
	pending := func(size string) []Condition {
		return []Condition{
			Has("persistentvolumeclaims", "data", "{.status.allocatedResourceStatuses.storage}", "NodeResizePending", "{.status.allocatedResources.storage}", size),
			Has("persistentvolumes", "data", "{.spec.capacity.storage}", size),
		}
	}
	expanded := func(size string) Action {
		return PatchStatus("persistentvolumeclaims", "data", `{"status":{"capacity":{"storage":"`+size+`"},"conditions":null,"allocatedResourceStatuses":null}}`)
	}
	return Scenario{
		Name:        "persistentvolume-expander",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.PersistentVolumeExpander.Enabled} },
		Kinds:       []schema.GroupVersionResource{volumes, claims, storageClasses},
		Steps: []Step{
			{
				"grow a claim",
				[]Action{
					Create("{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: growing}, provisioner: " + csiDriver + ", allowVolumeExpansion: true}"),
					Volume("data", "growing", "1Gi", "  flexVolume: {driver: example.com/flex}"), Claim("data", "growing", "  volumeName: data"), Bind("data", "data"),
					Volume("cloud", "growing", "1Gi", "  awsElasticBlockStore: {volumeID: vol-1}"), Claim("cloud", "growing", "  volumeName: cloud"), Bind("cloud", "cloud"),
					grow, Repeat(Patch("persistentvolumeclaims", "cloud", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)),
				},
				append(pending("2Gi"), Has("persistentvolumeclaims", "cloud", `{.metadata.annotations.volume\.kubernetes\.io/storage-resizer}`, "ebs.csi.aws.com")),
			},
			{
				"have its node expand the file system",
				[]Action{expanded("2Gi")},
				[]Condition{Has("persistentvolumes", "data", `{.metadata.annotations.volume\.alpha\.kubernetes\.io/pre-resize-capacity}`, "")},
			},
			{"grow it again", []Action{again}, pending("3Gi")},
			{
				"have its node expand the file system again",
				[]Action{expanded("3Gi")},
				[]Condition{Has("persistentvolumes", "data", `{.metadata.annotations.volume\.alpha\.kubernetes\.io/pre-resize-capacity}`, "")},
			},
		},
	}
}

func volumeProtection() Scenario {
	return Scenario{
		Name:        "persistentvolume-protection",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.PersistentVolumeProtection.Enabled} },
		Kinds:       []schema.GroupVersionResource{volumes},
		Steps: []Step{
			{
				"create volumes",
				[]Action{
					Volume("data", "disks", "1Gi", onDriver("data")), PatchStatus("persistentvolumes", "data", `{"status":{"phase":"Bound"}}`),
					Volume("free", "disks", "1Gi", onDriver("free")), PatchStatus("persistentvolumes", "free", `{"status":{"phase":"Available"}}`),
				},
				[]Condition{isProtected("persistentvolumes", "data"), isProtected("persistentvolumes", "free")},
			},
			{
				"take the finalizer off",
				[]Action{Patch("persistentvolumes", "data", harness.NoFinalizers)},
				[]Condition{isProtected("persistentvolumes", "data")},
			},
			{
				"delete them",
				[]Action{
					Delete("persistentvolumes", "data", metav1.DeletePropagationBackground),
					Delete("persistentvolumes", "free", metav1.DeletePropagationBackground),
				},
				[]Condition{Gone("persistentvolumes", "free")},
			},
			{
				"create one again under the name",
				[]Action{
					Check(isProtected("persistentvolumes", "data")),
					Volume("free", "disks", "1Gi", onDriver("free")), PatchStatus("persistentvolumes", "free", `{"status":{"phase":"Bound"}}`),
					Delete("persistentvolumes", "free", metav1.DeletePropagationBackground),
				},
				[]Condition{isProtected("persistentvolumes", "free")},
			},
			{
				"release one",
				[]Action{PatchStatus("persistentvolumes", "data", `{"status":{"phase":"Released"}}`)},
				[]Condition{Gone("persistentvolumes", "data"), isProtected("persistentvolumes", "free")},
			},
		},
	}
}

// isProtected is that an object has one finalizer.
func isProtected(resource, name string) Condition {
	finalizer := map[string]string{"persistentvolumes": "kubernetes.io/pv-protection", "volumeattributesclasses": "kubernetes.io/vac-protection"}[resource]
	return Has(resource, name, "{.metadata.finalizers[*]}", finalizer)
}

func classProtection() Scenario {
	class := func(name string) Action {
		return Create(`{apiVersion: storage.k8s.io/v1, kind: VolumeAttributesClass, metadata: {name: ` + name + `}, driverName: ` + csiDriver + `, parameters: {iops: "1"}}`)
	}
	const resource = "volumeattributesclasses"
	return Scenario{
		Name: "volumeattributesclass-protection",
		Bare: true,
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.VolumeAttributesClassProtection.Enabled}
		},
		Kinds: []schema.GroupVersionResource{modifications, volumes, claims},
		// What refers to a class is read from caches only (VAC-20): while that of claims or of volumes is behind, a
		// class that is used may go, and nothing else is to be expected.
		Reads: []string{"volumeattributesclasses.storage.k8s.io"},
		Steps: []Step{
			{
				"create classes",
				[]Action{class("fast"), class("slow"), Claim("data", "disks", "  volumeAttributesClassName: fast")},
				[]Condition{isProtected(resource, "fast"), isProtected(resource, "slow")},
			},
			{"take the finalizer off", []Action{Patch(resource, "fast", harness.NoFinalizers)}, []Condition{isProtected(resource, "fast")}},
			{
				"delete them",
				[]Action{Delete(resource, "fast", metav1.DeletePropagationBackground), Delete(resource, "slow", metav1.DeletePropagationBackground)},
				[]Condition{Gone(resource, "slow"), isProtected(resource, "fast")},
			},
			{
				"create one again under the name, and use it",
				[]Action{
					Check(isProtected(resource, "fast")), class("slow"),
					Volume("disk", "disks", "1Gi", onDriver("disk")+"\n  volumeAttributesClassName: slow"),
				},
				[]Condition{Seen("persistentvolumes", "disk")}, // else the class may go (VAC-20)
			},
			{"delete it", []Action{Delete(resource, "slow", metav1.DeletePropagationBackground)}, []Condition{isProtected(resource, "slow")}},
			{
				"delete the claim",
				[]Action{Patch("persistentvolumeclaims", "data", harness.NoFinalizers), Delete("persistentvolumeclaims", "data", metav1.DeletePropagationBackground)},
				[]Condition{Gone(resource, "fast"), isProtected(resource, "slow")},
			},
		},
	}
}
