package faults

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// inTree are provisioners that were part of Kubernetes, by short names for them, and the CSI drivers that do their work.
var inTree = []struct{ short, plugin, driver string }{
	{"aws", "kubernetes.io/aws-ebs", "ebs.csi.aws.com"},
	{"gce", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io"},
	{"cinder", "kubernetes.io/cinder", "cinder.csi.openstack.org"},
	{"azure-disk", "kubernetes.io/azure-disk", "disk.csi.azure.com"},
	{"azure-file", "kubernetes.io/azure-file", "file.csi.azure.com"},
	{"vsphere", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"},
	{"portworx", "kubernetes.io/portworx-volume", "pxd.portworx.com"},
}

// Provision creates a volume for a claim, as an external provisioner does: its claimRef has the UID of the claim.
func Provision(claim, name, metadata, spec string) Action {
	return func(ctx context.Context, w *world) error {
		c, err := w.admin.CoreV1().PersistentVolumeClaims(w.namespace).Get(ctx, claim, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ref := fmt.Sprintf("%s, claimRef: {kind: PersistentVolumeClaim, apiVersion: v1, namespace: NAMESPACE, name: %s, uid: %s}", spec, claim, c.UID)
		return Create(driven(name, metadata, ref))(ctx, w)
	}
}

const (
	provisionerKey     = `volume.kubernetes.io/storage-provisioner`
	betaProvisionerKey = `volume.beta.kubernetes.io/storage-provisioner`
	migratedKey        = `pv.kubernetes.io/migrated-to`
	provisionedKey     = `pv.kubernetes.io/provisioned-by`
	selectedKey        = `volume.kubernetes.io/selected-node`
)

// annotated is metadata of annotations: keys and values in turns.
func annotated(keysAndValues ...string) string {
	var all []string
	for i := 0; i < len(keysAndValues); i += 2 {
		all = append(all, fmt.Sprintf("%s: %q", keysAndValues[i], keysAndValues[i+1]))
	}
	return "annotations: {" + strings.Join(all, ", ") + "}"
}

// unscheduled is a pod without a node that uses a volume.
func unscheduled(name, volume string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: web, image: "web:1"}], volumes: [{name: data, %s}]}}`, name, volume)
}

// usesClaim is a volume of a pod that is a claim.
func usesClaim(name string) string { return "persistentVolumeClaim: {claimName: " + name + "}" }

// volumeProvisioning is about claims that wait for external provisioners, for pods, or for classes.
func volumeProvisioning() Scenario {
	of := func(class string) string { return asks + "storageClassName: " + class }
	const waits = "volumeBindingMode: WaitForFirstConsumer"
	inBothKeys := func(provisioner string) []string {
		return []string{provisionerKey, provisioner, betaProvisionerKey, provisioner}
	}
	first := []string{
		classText("external", csiDriver, "reclaimPolicy: Delete"), classText("waiting", csiDriver, waits),
		classText("nothing", "kubernetes.io/no-provisioner", waits), classText("nothing-now", "kubernetes.io/no-provisioner", ""),
		classText("rbd", "kubernetes.io/rbd", ""), classText("nfs", "kubernetes.io/nfs", ""), classText("directory", "kubernetes.io/host-path", ""),
		classText("bad-options", "kubernetes.io/host-path", "mountOptions: [ro]"),
		claimText("external", "", of("external")), claimText("external-block", "", of("external")+", volumeMode: Block"),
		claimText("external-slow", "", of("external")+", volumeAttributesClassName: slow"),
		claimText("external-stale", annotated(migratedKey, "old.example.com"), of("external")),
		claimText("external-known", annotated(provisionerKey, csiDriver), of("external")),
		claimText("external-moved", annotated(inBothKeys("other.example.com")...), of("external")),
		claimText("external-legacy", annotated("volume.beta.kubernetes.io/storage-class", "external"), asks),
		claimText("external-source", "", of("external")+", dataSource: {kind: PersistentVolumeClaim, name: external}"),
		claimText("external-selector", "", of("external")+", selector: {matchLabels: {no: such}}"),
		claimText("nothing", "", of("nothing")), claimText("nothing-now", "", of("nothing-now")),
		claimText("nothing-selected", annotated(selectedKey, "node-a"), of("nothing")),
		claimText("rbd", "", of("rbd")), claimText("nfs", "", of("nfs")), claimText("directory", "", of("directory")),
		claimText("bad-options", "", of("bad-options")),
		claimText("directory-source", "", of("directory")+", dataSource: {kind: PersistentVolumeClaim, name: external}"),
		claimText("waiting", "", of("waiting")), claimText("waiting-pod", "", of("waiting")), claimText("waiting-ended", "", of("waiting")),
		claimText("owner-data", "", of("waiting")), claimText("waiting-selected", annotated(selectedKey, "node-a"), of("waiting")),
		claimText("waiting-empty", annotated(selectedKey, ""), of("waiting")), claimText("waiting-scheduled", "", of("waiting")),
		claimText("missing", "", of("missing")),
		claimText("stray", annotated(migratedKey, "old.example.com"), of("missing")),
		claimText("stale", annotated(provisionerKey, csiDriver, migratedKey, "old.example.com"), of("missing")),
		claimText("beta", annotated(betaProvisionerKey, "kubernetes.io/cinder"), of("missing")),
		unscheduled("waits", usesClaim("waiting-pod")), unscheduled("ended", usesClaim("waiting-ended")),
		unscheduled("owner", "ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}"),
	}
	var migrated, migratedWait []string
	for _, one := range inTree {
		first = append(first,
			classText(one.short, one.plugin, ""), classText(one.short+"-waits", one.plugin, waits),
			claimText(one.short, "", of(one.short)), claimText(one.short+"-waits", "", of(one.short+"-waits")),
			claimText(one.short+"-old", annotated(inBothKeys(one.plugin)...), of("missing")),
		)
		migrated, migratedWait = append(migrated, one.short), append(migratedWait, one.short+"-waits")
	}
	const byUs = provisionedKey + ": " + csiDriver
	provisioned := []string{"external", "external-block", "external-slow", "waiting-selected", "aws"}
	return Scenario{
		Name:        "volume-provisioning",
		Bare:        true,
		Controllers: withBinder,
		Configure:   binderSettings,
		Flags:       binderFlags,
		Kinds:       []schema.GroupVersionResource{volumes, claims, storageClasses, pods},
		Steps: []Step{
			{
				"claim volumes of classes",
				[]Action{
					Create(unscheduled("ended", usesClaim("waiting-ended"))), PatchStatus("pods", "ended", `{"status":{"phase":"Succeeded"}}`),
					podClaiming("runs", "node-a", "waiting-scheduled"),
					CreateAll(textsWithout(first, unscheduled("ended", usesClaim("waiting-ended")))...),
				},
				[]Condition{
					ToldAll(claimResource, "ExternalProvisioning", csiDriver, "external", "external-block", "external-slow", "external-stale", "external-known",
						"external-moved", "external-legacy", "external-source", "external-selector", "waiting-selected", "waiting-empty"),
					ToldAll(claimResource, "ExternalProvisioning", "", migrated...),
					ToldAll(claimResource, "WaitForFirstConsumer", "", append(migratedWait, "waiting", "nothing", "waiting-ended", "waiting-scheduled")...),
					ToldAll(claimResource, "WaitForPodScheduled", "", "waiting-pod", "owner-data"),
					ToldAll(claimResource, "ProvisioningFailed", "", "nothing-now", "nothing-selected", "rbd", "nfs", "directory", "bad-options", "directory-source",
						"missing", "stray", "stale", "beta", "aws-old", "azure-file-old"),
				},
			},
			{
				"provision volumes, and select nodes",
				[]Action{
					Provision("external", "external", "annotations: {"+byUs+"}, finalizers: [external-provisioner.volume.kubernetes.io/finalizer]",
						small+"storageClassName: external, persistentVolumeReclaimPolicy: Delete"),
					Provision("external-block", "external-block", "annotations: {"+byUs+"}", small+"storageClassName: external, volumeMode: Block, persistentVolumeReclaimPolicy: Delete"),
					Provision("external-slow", "external-slow", "annotations: {"+byUs+"}", small+"storageClassName: external, volumeAttributesClassName: slow"),
					Provision("external-legacy", "external-tiny", "annotations: {"+byUs+"}", "accessModes: [ReadWriteOnce], capacity: {storage: 1Mi}, storageClassName: external"),
					Provision("external-known", "external-wrong-mode", "annotations: {"+byUs+"}", small+"storageClassName: external, volumeMode: Block"),
					Provision("waiting-selected", "waiting-selected", "annotations: {"+byUs+"}", small+"storageClassName: waiting"),
					Provision("aws", "aws", annotated(provisionedKey, "ebs.csi.aws.com"), "accessModes: [ReadWriteOnce, ReadOnlyMany], capacity: {storage: 3Gi}, storageClassName: aws"),
					Patch(claimResource, "waiting", `{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"node-a"}}}`),
					Patch(claimResource, "gce-waits", `{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"node-a"}}}`),
					Create(classText("missing", csiDriver, "")),
					PatchStatus("pods", "waits", `{"status":{"phase":"Failed"}}`),
				},
				[]Condition{
					phases(claimResource, "Bound", provisioned...), phases(volumeResource, "Bound", provisioned...),
					ToldAll(claimResource, "ExternalProvisioning", csiDriver, "waiting", "missing", "stray", "stale", "beta", "aws-old", "cinder-old"),
					Told(claimResource, "gce-waits", "ExternalProvisioning", "pd.csi.storage.gke.io"),
					Told(claimResource, "waiting-pod", "WaitForFirstConsumer", ""),
					Told(volumeResource, "external-wrong-mode", "VolumeMismatch", ""), Told(claimResource, "external-known", "VolumeMismatch", ""),
				},
			},
			{
				"delete claims, and change policies and classes",
				[]Action{
					Patch(volumeResource, "external-block", `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`),
					deletes(claimResource, "external", "external-block", "waiting-selected", "waiting", "aws"),
					Repeat(Check(allGone(claimResource, "external", "external-block", "waiting-selected", "waiting", "aws"))),
					Delete("storageclasses", "rbd", metav1.DeletePropagationBackground), Delete("storageclasses", "waiting", metav1.DeletePropagationBackground),
				},
				[]Condition{
					phases(volumeResource, "Released", "external", "external-block", "waiting-selected", "aws"),
					Told(claimResource, "rbd", "ProvisioningFailed", "not found"), Told(claimResource, "waiting-pod", "ProvisioningFailed", "not found"),
				},
			},
			{
				"delete volumes as the provisioner does",
				[]Action{deletes(volumeResource, "external", "aws"), Patch(volumeResource, "external", `{"metadata":{"finalizers":null}}`)},
				[]Condition{allGone(volumeResource, "external", "aws")},
			},
		},
	}
}

// textsWithout returns texts but for one.
func textsWithout(texts []string, one string) []string {
	var rest []string
	for _, text := range texts {
		if text != one {
			rest = append(rest, text)
		}
	}
	return rest
}

// volumeProvisioningOff is about claims of classes when no volume is provisioned.
func volumeProvisioningOff() Scenario {
	return Scenario{
		Name:        "volume-provisioning-off",
		Bare:        true,
		Controllers: withBinder,
		Configure: func(c *manager.Config) {
			binderSettings(c)
			off := false
			c.Controllers.PersistentVolumeBinder.DynamicProvisioning = &off
		},
		Flags: append([]string{"--enable-dynamic-provisioning=false"}, binderFlags...),
		Kinds: []schema.GroupVersionResource{volumes, claims, storageClasses},
		Steps: []Step{
			{
				"claim volumes",
				[]Action{CreateAll(
					classText("external", csiDriver, ""), classText("waiting", csiDriver, "volumeBindingMode: WaitForFirstConsumer"), classText("directory", "kubernetes.io/host-path", ""),
					claimText("external", "", asks+"storageClassName: external"), claimText("waiting", "", asks+"storageClassName: waiting"),
					claimText("selected", annotated(selectedKey, "node-a"), asks+"storageClassName: waiting"), claimText("directory", "", asks+"storageClassName: directory"),
					claimText("missing", "", asks+"storageClassName: missing"), claimText("none", "", asks),
					claimText("old", annotated(provisionerKey, "kubernetes.io/cinder"), asks+"storageClassName: external"),
				)},
				[]Condition{
					Told(claimResource, "waiting", "WaitForFirstConsumer", ""), Told(claimResource, "none", "FailedBinding", ""),
					Has(claimResource, "old", `{.metadata.annotations.pv\.kubernetes\.io/migrated-to}`, "cinder.csi.openstack.org"),
				},
			},
			{"bring one", []Action{Provision("external", "external", "", small+"storageClassName: external")}, bound("external", "external")},
		},
	}
}

// provisionedHostPaths is about directories that the manager makes itself.
func provisionedHostPaths() Scenario {
	of := func(class string) string { return asks + "storageClassName: " + class }
	const plugin = "kubernetes.io/host-path"
	return Scenario{
		Name:        "volume-directories",
		Bare:        true,
		Controllers: withBinder,
		Configure: func(c *manager.Config) {
			binderSettings(c)
			on := true
			c.Controllers.PersistentVolumeBinder.HostPathProvisioning = &on
		},
		Flags: append([]string{"--enable-hostpath-provisioner=true"}, binderFlags...),
		Kinds: []schema.GroupVersionResource{volumes, claims, storageClasses, nodes},
		Steps: []Step{
			{
				"claim directories",
				[]Action{
					attachable("node-a"),
					CreateAll(
						classText("directory", plugin, ""), classText("retained", plugin, "reclaimPolicy: Retain"),
						classText("options", plugin, "mountOptions: [ro, noatime]"), classText("parameters", plugin, "parameters: {any: thing}"),
						classText("waiting", plugin, "volumeBindingMode: WaitForFirstConsumer"), classText("default", plugin, ""),
						claimText("directory", "labels: {app: web}", of("directory")),
						claimText("many", "", "accessModes: [ReadWriteMany, ReadWriteOnce], resources: {requests: {storage: 1500Mi}}, storageClassName: directory"),
						claimText("retained", "", of("retained")), claimText("options", "", of("options")), claimText("parameters", "", of("parameters")),
						claimText("block", "", of("directory")+", volumeMode: Block"),
						claimText("source", "", of("directory")+", dataSource: {kind: PersistentVolumeClaim, name: directory}"),
						claimText("selector", "", of("directory")+", selector: {matchLabels: {no: such}}"),
						claimText("attributes", "", of("directory")+", volumeAttributesClassName: slow"),
						claimText("waits", "", of("waiting")),
						claimText("selected", annotated(selectedKey, "node-a"), of("waiting")),
						claimText("astray", annotated(selectedKey, "node-z"), of("waiting")),
					),
				},
				[]Condition{
					phases(claimResource, "Bound", "directory", "many", "retained", "parameters", "selector", "selected"),
					ToldAll(claimResource, "ProvisioningSucceeded", "", "directory", "many", "retained", "parameters", "selector", "selected"),
					ToldAll(claimResource, "ProvisioningFailed", "", "options", "block", "source", "astray"),
					Told(claimResource, "waits", "WaitForFirstConsumer", ""),
				},
			},
			{
				"delete claims, and select a node",
				[]Action{
					deletes(claimResource, "directory", "retained"),
					Patch(claimResource, "waits", `{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"node-a"}}}`),
				},
				[]Condition{
					allGone(claimResource, "directory", "retained"), phases(claimResource, "Bound", "waits"),
					Values(volumeResource, "", "{.status.phase}", "Bound Bound Bound Bound Bound Pending Released"),
				},
			},
		},
	}
}

// defaultClasses is about claims without a class, and classes that become the default one.
func defaultClasses() Scenario {
	const isDefault = `annotations: {storageclass.kubernetes.io/is-default-class: "true"}`
	class := func(name, metadata string) string {
		return fmt.Sprintf("{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: %s, %s}, provisioner: %s}", name, metadata, csiDriver)
	}
	hasClass := func(claim, class string) Condition {
		return Has(claimResource, claim, "{.spec.storageClassName}", class)
	}
	return Scenario{
		Name:        "volume-default-classes",
		Bare:        true,
		Controllers: withBinder,
		Configure:   binderSettings,
		Flags:       binderFlags,
		Kinds:       []schema.GroupVersionResource{volumes, claims, storageClasses},
		Steps: []Step{
			{
				"claim volumes without a class",
				[]Action{CreateAll(
					driven("unclassed", "", small), class("plain", ""), class("untrue", `annotations: {storageclass.kubernetes.io/is-default-class: "True"}`),
				), Repeat(Check(phases(volumeResource, "Available", "unclassed"))), CreateAll(
					claimText("none", "", "accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}"),
					claimText("chosen", "", asks+"storageClassName: plain"),
					claimText("empty", "", `accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}, storageClassName: ""`),
					claimText("legacy", annotated("volume.beta.kubernetes.io/storage-class", ""), "accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}"),
					claimText("fits", "", asks),
					claimText("named", "", asks+"volumeName: later"),
				)},
				[]Condition{
					ToldAll(claimResource, "FailedBinding", "", "none", "empty", "legacy"),
					All(bound("fits", "unclassed")...), Told(claimResource, "chosen", "ExternalProvisioning", ""),
				},
			},
			{
				"make a class the default one",
				[]Action{Create(class("z-first", isDefault))},
				[]Condition{hasClass("none", "z-first"), Told(claimResource, "none", "ExternalProvisioning", "")},
			},
			{
				"make others the default ones",
				[]Action{
					Patch("storageclasses", "z-first", `{"metadata":{"annotations":null}}`), Rest(time.Second), // admission may not know yet
					CreateAll(
						claimText("second", "", "accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}"),
						claimText("second-waits", "", "accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}"),
					),
					Repeat(Check(Told(claimResource, "second", "FailedBinding", ""))), Repeat(Check(Told(claimResource, "second-waits", "FailedBinding", ""))),
					Create(class("a-older", "")), Rest(1100 * time.Millisecond), Create(class("b-newer", "")),
					Patch("storageclasses", "b-newer", `{"metadata":{"annotations":{"storageclass.beta.kubernetes.io/is-default-class":"true"}}}`),
				},
				[]Condition{hasClass("second", "b-newer"), hasClass("second-waits", "b-newer"), Told(claimResource, "second", "ExternalProvisioning", "")},
			},
			{
				"have a volume that one names come later",
				[]Action{
					Patch("storageclasses", "a-older", `{"metadata":{"annotations":{"storageclass.kubernetes.io/is-default-class":"true"}}}`),
					Create(driven("later", "", small)),
				},
				[]Condition{All(bound("named", "later")...), Has(claimResource, "empty", "{.spec.storageClassName}", "")},
			},
		},
	}
}
