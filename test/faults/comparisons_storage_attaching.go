package faults

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

const attachmentResource = "volumeattachments"

// byHand is a driver whose attacher the script plays.
const byHand = "by-hand.example.com"

// attachment is the name of the VolumeAttachment of a volume on a node.
func attachment(driver, handle, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+driver+node)))
}

// attachesFor is what the external-attacher of a driver does.
func attachesFor(driver string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		var failed error
		harness.NewAttacher(w.admin, driver, func(err error) { failed = err }).Run(ctx)
		return failed
	}
}

// attachers are those of the driver of the scenarios and of the drivers that do the work of what was part of Kubernetes.
func attachers() []func(context.Context, *world) error {
	all := []func(context.Context, *world) error{attachesFor(csiDriver)}
	for _, one := range inTree {
		all = append(all, attachesFor(one.driver))
	}
	return all
}

// disk creates a volume and a claim of its name, and binds them.
func disk(name, mode, source string) Action {
	return func(ctx context.Context, w *world) error {
		const more = "storageClassName: disks, "
		for _, do := range []Action{
			Create(volumeText(name, "", "accessModes: ["+mode+"], capacity: {storage: 1Gi}, "+more+source)),
			Create(claimText(name, "", "accessModes: ["+mode+"], resources: {requests: {storage: 1Gi}}, "+more+"volumeName: "+name)),
			Bind(name, name),
		} {
			if err := do(ctx, w); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}
}

// ofDriver is the source of a volume of a driver.
func ofDriver(driver, handle string) string {
	return fmt.Sprintf("csi: {driver: %s, volumeHandle: %s}", driver, handle)
}

// beats has the kubelet of a node report something: what managers know of the node is up to date then.
func beats(node string) Action {
	return func(ctx context.Context, w *world) error {
		return PatchStatus("nodes", node, fmt.Sprintf(`{"status":{"nodeInfo":{"bootID":%q}}}`, time.Now().UTC().Format(time.RFC3339Nano)))(ctx, w)
	}
}

// isAttached is that the status of a node names volumes as attached, or that it names none of them.
func isAttached(node string, attached bool, names ...string) Condition {
	return func(ctx context.Context, w *world) error {
		n, err := w.admin.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		are := map[string]bool{}
		for _, one := range n.Status.VolumesAttached {
			are[string(one.Name)] = true
		}
		for _, name := range names {
			if are[name] != attached {
				return fmt.Errorf("that %s is attached to %s is %t", name, node, are[name])
			}
		}
		return nil
	}
}

// unique are the names that volumes of a driver have on nodes.
func unique(driver string, handles ...string) []string {
	var all []string
	for _, handle := range handles {
		all = append(all, "kubernetes.io/csi/"+driver+"^"+handle)
	}
	return all
}

func withAttachDetach(c *manager.Config) []**bool {
	return []**bool{&c.Controllers.PersistentVolumeAttachDetach.Enabled, &c.Controllers.EphemeralVolume.Enabled}
}

// verification is the period in which attachments are verified.
func verification(c *manager.Config) {
	c.Controllers.PersistentVolumeAttachDetach.ReconcilerSyncPeriod = &metav1.Duration{Duration: 2 * time.Second}
}

var attachFlags = []string{"--attach-detach-reconcile-sync-period=2s"}

var attachKinds = []schema.GroupVersionResource{attachments, nodes, volumes, claims, pods, csiDrivers}

// volumeSources is about what is attached for pods, by the kind of their volumes.
func volumeSources() Scenario {
	const zone = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/"
	migrated := map[string]string{
		"aws": "awsElasticBlockStore: {volumeID: vol-%s, fsType: ext4, partition: 1}", "gce": "gcePersistentDisk: {pdName: %s, readOnly: true}",
		"cinder": "cinder: {volumeID: %s, fsType: xfs}", "azure-disk": "azureDisk: {diskName: %[1]s, diskURI: " + zone + "%[1]s, kind: Managed, cachingMode: ReadOnly}",
		"azure-file": "azureFile: {secretName: %[1]s, shareName: %[1]s}", "vsphere": `vsphereVolume: {volumePath: "[ds] %s"}`, "portworx": "portworxVolume: {volumeID: %s}",
	}
	const target = "{targetPortal: 'a:3260', iqn: 'iqn.2026-01.com.example:%s', lun: %d}"
	setup := []Action{
		attachable("node-a"), attachable("node-b"),
		Create("{apiVersion: v1, kind: Node, metadata: {name: unmanaged}}"),
		Create("{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: unattached.example.com}, spec: {attachRequired: false}}"),
		Create("{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: " + csiDriver + "}, spec: {attachRequired: true}}"),
	}
	var run []string
	add := func(name, mode, source string) {
		setup = append(setup, disk(name, mode, source))
		run = append(run, podText(name, "node-a", usesClaim(name)))
	}
	for name, source := range migrated {
		add("disk-"+name, "ReadWriteOnce", fmt.Sprintf(source, "disk"))
		run = append(run, podText("inline-"+name, "node-a", fmt.Sprintf(source, "inline")))
	}
	add("csi", "ReadWriteOnce", ofDriver(csiDriver, "csi"))
	setup = append(setup, disk("csi-same", "ReadWriteOnce", ofDriver(csiDriver, "csi")))
	add("unattached", "ReadWriteOnce", ofDriver("unattached.example.com", "unattached"))
	add("iscsi", "ReadWriteOnce", "iscsi: "+fmt.Sprintf(target, "disk", 1))
	add("fc", "ReadWriteOnce", "fc: {targetWWNs: [w1, w2], lun: 3}")
	add("nfs", "ReadWriteMany", "nfs: {server: nfs, path: /a}")
	add("flex", "ReadWriteOnce", "flexVolume: {driver: example.com/flex}")
	add("raw", "ReadWriteOnce", "volumeMode: Block, "+ofDriver(csiDriver, "raw"))
	run = append(run,
		podText("inline-iscsi", "node-a", "iscsi: "+fmt.Sprintf(target, "inline", 0)),
		podText("inline-fc", "node-a", "fc: {wwids: [id1]}"),
		podText("inline-csi", "node-a", "csi: {driver: "+csiDriver+"}"),
		podText("inline-nfs", "node-a", "nfs: {server: nfs, path: /b}"),
		podText("inline-empty", "node-a", "emptyDir: {}"),
		podText("on-unmanaged", "unmanaged", usesClaim("other")),
		podText("on-nowhere", "nowhere", usesClaim("other")),
		podText("waits", "node-a", usesClaim("late")),
		podText("owner", "node-a", "ephemeral: {volumeClaimTemplate: {spec: {storageClassName: disks, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}"),
		podText("foreign", "node-b", "ephemeral: {volumeClaimTemplate: {spec: {storageClassName: disks, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}"),
		unscheduled("unscheduled", usesClaim("other")),
	)
	setup = append(setup,
		disk("other", "ReadWriteOnce", ofDriver(csiDriver, "other")),
		disk("foreign-data", "ReadWriteOnce", ofDriver(csiDriver, "foreign")),
		Create(claimText("late", "", asks+"storageClassName: disks")),
		CreateAll(driven("late", "", small+"storageClassName: disks"), driven("ephemeral", "", small+"storageClassName: disks")),
		CreateAll(run...),
	)
	attached := []string{"csi", "disk-aws", "disk-gce", "disk-cinder", "disk-azure-disk", "disk-azure-file", "disk-vsphere", "disk-portworx", "iscsi", "fc", "raw",
		"inline-aws", "inline-gce", "inline-cinder", "inline-azure-disk", "inline-azure-file", "inline-vsphere", "inline-portworx", "inline-iscsi", "inline-fc"}
	bindTo := func(volume, claim string) Action {
		return func(ctx context.Context, w *world) error {
			if err := Patch(claimResource, claim, `{"spec":{"volumeName":"`+volume+`"}}`)(ctx, w); err != nil {
				return err
			}
			return Bind(volume, claim)(ctx, w)
		}
	}
	return Scenario{
		Name:        "volume-sources",
		Bare:        true,
		Controllers: withAttachDetach,
		Beside:      attachers(),
		Kinds:       attachKinds,
		Steps: []Step{
			{
				"run pods", setup,
				[]Condition{
					ToldAll("pods", "SuccessfulAttachVolume", "", attached...),
					Told("pods", "foreign", "FailedBinding", ""),
				},
			},
			{
				"bind claims",
				[]Action{Create(podText("csi-same", "node-a", usesClaim("csi-same"))), bindTo("late", "late"), Repeat(bindTo("ephemeral", "owner-data"))},
				[]Condition{ToldAll("pods", "SuccessfulAttachVolume", "", "waits", "owner"), isAttached("node-a", true, unique(csiDriver, "csi", "raw", "late", "ephemeral")...)},
			},
			{
				"end pods",
				[]Action{
					PatchStatus("pods", "disk-aws", `{"status":{"phase":"Succeeded"}}`), PatchStatus("pods", "inline-gce", `{"status":{"phase":"Failed"}}`),
					deletes("pods", "iscsi", "inline-fc", "csi", "inline-cinder", "disk-azure-file", "waits", "flex", "unattached"),
				},
				[]Condition{
					isAttached("node-a", false, append(unique(csiDriver, "late"), "kubernetes.io/csi/ebs.csi.aws.com^vol-disk")...),
					isAttached("node-a", true, unique(csiDriver, "csi", "raw", "ephemeral")...), // another pod has the same disk
				},
			},
		},
	}
}

// volumeMoves is about volumes that several nodes want, and about nodes that go.
func volumeMoves() Scenario {
	on := func(name, node, claim string) string { return podText(name, node, usesClaim(claim)) }
	one, many, single := "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"
	var setup []Action
	for _, node := range []string{"node-a", "node-b", "node-c"} {
		setup = append(setup, attachable(node))
	}
	for name, mode := range map[string]string{"one": one, "many": many, "single": single, "readers": "ReadOnlyMany", "kept": one, "ended": one, "out": one, "lost": one, "mixed": "ReadWriteOnce, ReadOnlyMany", "again": one} {
		setup = append(setup, disk(name, mode, ofDriver(csiDriver, name)))
	}
	setup = append(setup, CreateAll(
		on("one-a", "node-a", "one"), on("many-a", "node-a", "many"), on("single-a", "node-a", "single"),
		on("readers-a", "node-a", "readers"), on("kept-a", "node-a", "kept"), on("ended-a", "node-a", "ended"), on("mixed-a", "node-a", "mixed"),
		on("out-c", "node-c", "out"), on("lost-b", "node-b", "lost"), on("again-a", "node-a", "again"),
	))
	const multi = "Multi-Attach error"
	return Scenario{
		Name:        "volume-moves",
		Bare:        true,
		Controllers: withAttachDetach,
		Configure:   verification,
		Flags:       attachFlags,
		Beside:      attachers(),
		Kinds:       attachKinds,
		Steps: []Step{
			{
				"run pods", setup,
				[]Condition{
					isAttached("node-a", true, unique(csiDriver, "one", "many", "single", "readers", "kept", "ended", "mixed", "again")...),
					isAttached("node-b", true, unique(csiDriver, "lost")...), isAttached("node-c", true, unique(csiDriver, "out")...),
					ToldAll("pods", "SuccessfulAttachVolume", "", "many-a", "single-a", "readers-a", "kept-a", "ended-a", "mixed-a", "out-c", "lost-b", "again-a"),
				},
			},
			{
				"want the volumes elsewhere",
				[]Action{
					uses("node-a", "kept", "one"), PatchStatus("pods", "ended-a", `{"status":{"phase":"Succeeded"}}`),
					Patch("pods", "again-a", `{"metadata":{"labels":{"changed":"yes"}}}`),
					deletes("pods", "kept-a"), Rest(time.Second),
					CreateAll(
						on("one-b", "node-b", "one"), on("one-c", "node-c", "one"), on("many-b", "node-b", "many"), on("single-b", "node-b", "single"),
						on("readers-b", "node-b", "readers"), on("kept-b", "node-b", "kept"), on("ended-b", "node-b", "ended"), on("mixed-b", "node-b", "mixed"),
					),
				},
				[]Condition{
					Told("pods", "one-b", "FailedAttachVolume", multi), Told("pods", "one-c", "FailedAttachVolume", multi), Told("pods", "single-b", "FailedAttachVolume", multi),
					Told("pods", "kept-b", "FailedAttachVolume", "exclusively attached"),
					ToldAll("pods", "SuccessfulAttachVolume", "", "many-b", "readers-b", "ended-b", "mixed-b"),
					isAttached("node-b", true, unique(csiDriver, "many", "readers", "ended", "mixed", "lost")...),
					isAttached("node-a", true, unique(csiDriver, "kept")...), isAttached("node-a", false, unique(csiDriver, "ended")...),
				},
			},
			{
				"release them, and lose nodes",
				[]Action{
					uses("node-a"), uses("node-c", "out"), deletes("pods", "one-c", "one-a", "single-a"), deletes("pods", "out-c"), Rest(time.Second),
					Check(isAttached("node-c", true, unique(csiDriver, "out")...)),
					Patch("nodes", "node-c", `{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}]}}`),
					Patch(attachmentResource, attachment(csiDriver, "again", "node-a"), `{"metadata":{"annotations":{"example.com/old":"yes"}}}`),
					Delete(attachmentResource, attachment(csiDriver, "again", "node-a"), metav1.DeletePropagationBackground),
				},
				[]Condition{
					isAttached("node-b", true, unique(csiDriver, "one", "single", "kept")...), isAttached("node-c", false, unique(csiDriver, "out")...),
					isAttached("node-a", false, unique(csiDriver, "one", "single", "kept")...),
					ToldAll("pods", "SuccessfulAttachVolume", "", "one-b", "single-b", "kept-b"),
					Has(attachmentResource, attachment(csiDriver, "again", "node-a"), "{.metadata.annotations}", "", "{.status.attached}", "true"),
				},
			},
			{
				"delete a node and its pods",
				[]Action{
					Delete("nodes", "node-b", metav1.DeletePropagationBackground), Rest(time.Second),
					deletes("pods", "lost-b", "many-b", "one-b"), CreateAll(on("lost-c", "node-c", "lost")),
				},
				[]Condition{
					isAttached("node-c", true, unique(csiDriver, "lost")...), Told("pods", "lost-c", "SuccessfulAttachVolume", ""),
					allGone(attachmentResource, attachment(csiDriver, "lost", "node-b"), attachment(csiDriver, "many", "node-b"), attachment(csiDriver, "one", "node-b")),
				},
			},
			{
				"have the node come back",
				[]Action{attachable("node-b")},
				[]Condition{isAttached("node-b", true, unique(csiDriver, "readers", "single", "kept", "ended", "mixed")...)},
			},
		},
	}
}

// volumeAttachFailures is about a driver that fails.
func volumeAttachFailures() Scenario {
	on := func(name, node string) string { return podText(name+"-"+node, node, usesClaim(name)) }
	va := func(name, node string) string { return attachment(byHand, name, node) }
	attach := func(names ...string) Action {
		return doEach(func(name string) Action {
			return Repeat(PatchStatus(attachmentResource, va(name, "node-a"), `{"status":{"attached":true,"attachError":null}}`))
		}, names...)
	}
	fail := func(name, node string) Action {
		return Repeat(PatchStatus(attachmentResource, va(name, node), `{"status":{"attached":false,"attachError":{"message":"the driver fails","errorCode":8,"time":"2026-01-01T00:00:00Z"}}}`))
	}
	keep := func(names ...string) Action {
		return doEach(func(name string) Action {
			return Repeat(Patch(attachmentResource, va(name, "node-a"), `{"metadata":{"finalizers":["example.com/attacher"]}}`))
		}, names...)
	}
	names := []string{"fails", "given-up", "stuck", "back", "goes"}
	setup := []Action{attachable("node-a"), attachable("node-b")}
	var run []string
	for _, name := range names {
		setup = append(setup, disk(name, "ReadWriteOnce", ofDriver(byHand, name)))
		run = append(run, on(name, "node-a"))
	}
	setup = append(setup, CreateAll(run...), fail("fails", "node-a"), fail("given-up", "node-a"), keep("stuck", "back", "goes"), attach("stuck", "back", "goes"))
	detachFails := func(name string) Action {
		return Repeat(PatchStatus(attachmentResource, va(name, "node-a"), `{"status":{"detachError":{"message":"the driver does not detach","time":"2026-01-01T00:00:00Z"}}}`))
	}
	leaving := func(names ...string) Action {
		return doEach(func(name string) Action {
			return Repeat(Check(func(ctx context.Context, w *world) error {
				o, err := w.admin.StorageV1().VolumeAttachments().Get(ctx, va(name, "node-a"), metav1.GetOptions{})
				if err == nil && o.DeletionTimestamp == nil {
					err = fmt.Errorf("the VolumeAttachment of %s stays", name)
				}
				return err
			}))
		}, names...)
	}
	return Scenario{
		Name:        "volume-attach-failures",
		Bare:        true,
		Controllers: withAttachDetach,
		Kinds:       attachKinds,
		Steps: []Step{
			{
				"run pods", setup,
				[]Condition{
					ToldAll("pods", "FailedAttachVolume", "the driver fails", "fails-node-a", "given-up-node-a"),
					ToldAll("pods", "SuccessfulAttachVolume", "", "stuck-node-a", "back-node-a", "goes-node-a"),
					isAttached("node-a", true, unique(byHand, "stuck", "back", "goes")...),
				},
			},
			{
				"have the driver attach, give up, and not detach",
				[]Action{
					attach("fails"), deletes("pods", "given-up-node-a", "stuck-node-a", "back-node-a", "goes-node-a"), Rest(time.Second), beats("node-a"),
					leaving("stuck", "back", "goes"), detachFails("stuck"), detachFails("back"),
					CreateAll(on("back", "node-a"), on("stuck", "node-b")),
				},
				[]Condition{
					Told("pods", "fails-node-a", "SuccessfulAttachVolume", ""), isAttached("node-a", true, unique(byHand, "fails")...),
					Gone(attachmentResource, va("given-up", "node-a")), isAttached("node-a", false, unique(byHand, "stuck", "goes")...),
					Told("pods", "back-node-a", "FailedAttachVolume", "being deleted"),
					Has(attachmentResource, va("stuck", "node-b"), "{.spec.nodeName}", "node-b"),
				},
			},
			{
				"have it detach and attach",
				[]Action{
					doEach(func(name string) Action { return Patch(attachmentResource, va(name, "node-a"), harness.NoFinalizers) }, "stuck", "back", "goes"),
					PatchStatus(attachmentResource, va("stuck", "node-b"), `{"status":{"attached":true}}`),
					Repeat(Check(Has(attachmentResource, va("back", "node-a"), "{.metadata.finalizers}", ""))), attach("back"),
				},
				[]Condition{
					Gone(attachmentResource, va("goes", "node-a")), Gone(attachmentResource, va("stuck", "node-a")),
					ToldAll("pods", "SuccessfulAttachVolume", "", "back-node-a", "stuck-node-b"),
					isAttached("node-a", true, unique(byHand, "back", "fails")...), isAttached("node-b", true, unique(byHand, "stuck")...),
				},
			},
		},
	}
}
