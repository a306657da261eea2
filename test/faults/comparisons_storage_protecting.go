package faults

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

// volumeExpansion is about claims that grow, by the kind of their volumes.
func volumeExpansion() Scenario {
	source := map[string]string{
		"csi": ofDriver(csiDriver, "csi"), "nfs": "nfs: {server: nfs, path: /a}", "directory": "hostPath: {path: /tmp/a}",
		"iscsi": "iscsi: {targetPortal: 'a:3260', iqn: 'iqn.2026-01.com.example:a', lun: 0}", "fc": "fc: {targetWWNs: [w1], lun: 3}",
		"local": "local: {path: /mnt}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: x, operator: Exists}]}]}}",
		"aws":   "awsElasticBlockStore: {volumeID: vol-1}", "gce": "gcePersistentDisk: {pdName: a}", "cinder": "cinder: {volumeID: a}",
		"azure-disk": "azureDisk: {diskName: a, diskURI: /subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/a, kind: Managed}",
		"azure-file": "azureFile: {secretName: a, shareName: a, secretNamespace: default}", "vsphere": `vsphereVolume: {volumePath: "[ds] a"}`, "portworx": "portworxVolume: {volumeID: a}",
		"flex": "flexVolume: {driver: example.com/flex}", "flex-raw": "volumeMode: Block, flexVolume: {driver: example.com/flex}",
		"flex-shrinks": "flexVolume: {driver: example.com/flex}", "flex-infeasible": "flexVolume: {driver: example.com/flex}",
		"flex-waits": "flexVolume: {driver: example.com/flex}", "flex-conditions": "flexVolume: {driver: example.com/flex}",
		"csi-before": ofDriver(csiDriver, "csi-before"), "stolen": ofDriver(csiDriver, "stolen"), "aws-known": "awsElasticBlockStore: {volumeID: vol-2}",
	}
	pair := func(name, source string) Action {
		mode := ""
		if name == "flex-raw" {
			mode = ", volumeMode: Block"
		}
		return func(ctx context.Context, w *world) error {
			for _, do := range []Action{
				Create(volumeText(name, "", small+"storageClassName: growing, "+source)),
				Create(claimText(name, "", asks+"storageClassName: growing, volumeName: "+name+mode)), Bind(name, name),
			} {
				if err := do(ctx, w); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			return nil
		}
	}
	first := []Action{Create(classText("growing", csiDriver, "allowVolumeExpansion: true"))}
	var grow []string
	for name, text := range source {
		first = append(first, pair(name, text))
		grow = append(grow, name)
	}
	request := func(size string) func(string) Action {
		return func(name string) Action {
			return Repeat(Patch(claimResource, name, `{"spec":{"resources":{"requests":{"storage":"`+size+`"}}}}`))
		}
	}
	first = append(first,
		Patch(volumeResource, "stolen", `{"spec":{"claimRef":{"uid":"11111111-1111-1111-1111-111111111111"}}}`),
		Patch(volumeResource, "csi-before", `{"metadata":{"annotations":{"volume.alpha.kubernetes.io/pre-resize-capacity":"1Gi"}}}`),
		Patch(claimResource, "aws-known", `{"metadata":{"annotations":{"volume.kubernetes.io/storage-resizer":"ebs.csi.aws.com"}}}`),
		PatchStatus(claimResource, "flex-conditions", `{"status":{"conditions":[{"type":"Other","status":"True"},{"type":"ControllerResizeError","status":"True","message":"by hand"},{"type":"Resizing","status":"True","reason":"Played","message":"by hand"}]}}`),
		PatchStatus(claimResource, "flex-infeasible", `{"status":{"allocatedResources":{"storage":"1500Mi"},"allocatedResourceStatuses":{"storage":"NodeResizeInfeasible"}}}`),
		PatchStatus(claimResource, "flex-shrinks", `{"status":{"allocatedResources":{"storage":"3Gi"},"allocatedResourceStatuses":{"storage":"ControllerResizeInProgress"}}}`),
		PatchStatus(claimResource, "flex-waits", `{"status":{"allocatedResources":{"storage":"2Gi"},"allocatedResourceStatuses":{"storage":"NodeResizeInProgress"}}}`),
		doEach(request("2Gi"), grow...),
	)
	external := []string{"csi", "nfs", "directory", "iscsi", "fc", "local", "csi-before"}
	nodes := []string{"flex", "flex-shrinks", "flex-infeasible", "flex-waits", "flex-conditions"}
	pending := doEach(func(name string) Action {
		return Action(Has(claimResource, name, "{.status.allocatedResourceStatuses.storage}", "NodeResizePending"))
	}, nodes...)
	var migrated []Condition
	for _, one := range inTree {
		migrated = append(migrated, Has(claimResource, one.short, `{.metadata.annotations.volume\.kubernetes\.io/storage-resizer}`, one.driver),
			Told(claimResource, one.short, "ExternalExpanding", one.plugin))
	}
	expanded := func(name, size string) Action {
		return PatchStatus(claimResource, name, `{"status":{"capacity":{"storage":"`+size+`"},"conditions":null,"allocatedResourceStatuses":null}}`)
	}
	return Scenario{
		Name:        "volume-expansion",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.PersistentVolumeExpander.Enabled} },
		Kinds:       []schema.GroupVersionResource{volumes, claims, storageClasses},
		Steps: []Step{
			{
				"grow claims", first,
				append(migrated, ToldAll(claimResource, "ExternalExpanding", "waiting for an external controller", external...), Condition(pending),
					Told(claimResource, "flex-raw", "VolumeResizeSuccessful", ""), Told(claimResource, "aws-known", "ExternalExpanding", "")),
			},
			{
				"finish some, and grow some again",
				[]Action{
					expanded("flex", "2Gi"), expanded("csi", "2Gi"), expanded("aws", "2Gi"),
					PatchStatus(claimResource, "flex-infeasible", `{"status":{"allocatedResourceStatuses":{"storage":"NodeResizeInfeasible"}}}`),
					request("4Gi")("flex-infeasible"), request("5Gi")("flex-conditions"), request("3Gi")("csi"), request("3Gi")("flex-raw"),
				},
				[]Condition{
					Has(volumeResource, "flex", `{.metadata.annotations}`, ""),
					Has(claimResource, "flex-infeasible", "{.status.allocatedResourceStatuses.storage}", "NodeResizePending"),
					Has(volumeResource, "flex-raw", "{.spec.capacity.storage}", "3Gi"),
				},
			},
		},
	}
}

// storageProtection is about finalizers of volumes, of claims and of classes, by what uses them.
func storageProtection() Scenario {
	class := func(name, metadata string) string {
		return fmt.Sprintf(`{apiVersion: storage.k8s.io/v1, kind: VolumeAttributesClass, metadata: {name: %s, %s}, driverName: %s, parameters: {iops: "1"}}`, name, metadata, csiDriver)
	}
	const classResource = "volumeattributesclasses"
	others := `{"metadata":{"finalizers":["example.com/first","example.com/second"]}}`
	unused := []string{"unused", "unscheduled", "finalized"}
	used := []string{"used", "succeeded", "failed", "going", "twice", "nowhere"}
	first := []Action{
		CreateAll(
			class("spec", ""), class("current", ""), class("target", ""), class("volume", ""), class("unused", ""), class("finalized", "finalizers: [example.com/first]"), class("moves", ""),
			driven("bound", "finalizers: [example.com/first]", small), driven("available", "", small), driven("released", "", small), driven("failed", "", small),
			driven("with-class", "", small+"volumeAttributesClassName: volume"), driven("other", "", small),
		),
	}
	for _, name := range append(append([]string{"kept"}, unused...), used...) {
		first = append(first, Create(claimText(name, "", asks+"storageClassName: disks")))
	}
	first = append(first,
		Create(claimText("spec", "", asks+"storageClassName: disks, volumeAttributesClassName: spec")),
		Create(claimText("status", "", asks+"storageClassName: disks")),
		Create(claimText("moves", "", asks+"storageClassName: disks, volumeAttributesClassName: moves")),
		PatchStatus(claimResource, "status", `{"status":{"currentVolumeAttributesClassName":"current","modifyVolumeStatus":{"targetVolumeAttributesClassName":"target","status":"InProgress"}}}`),
		PatchStatus(volumeResource, "bound", `{"status":{"phase":"Bound"}}`), PatchStatus(volumeResource, "released", `{"status":{"phase":"Released"}}`),
		PatchStatus(volumeResource, "failed", `{"status":{"phase":"Failed"}}`), PatchStatus(volumeResource, "other", `{"status":{"phase":"Bound"}}`),
		Patch(claimResource, "kept", others), Patch(claimResource, "finalized", others), Patch(volumeResource, "other", others), Patch(classResource, "moves", others),
		CreateAll(
			podText("used", "node-a", usesClaim("used")), podText("succeeded", "node-a", usesClaim("succeeded")), podText("failed", "node-a", usesClaim("failed")),
			`{apiVersion: v1, kind: Pod, metadata: {name: going, finalizers: [example.com/keeps]}, spec: {nodeName: node-a, containers: [{name: web, image: "web:1"}], volumes: [{name: data, persistentVolumeClaim: {claimName: going}}]}}`,
			podText("twice-1", "node-a", usesClaim("twice")), podText("twice-2", "node-b", usesClaim("twice")), podText("nowhere", "no-such-node", usesClaim("nowhere")),
			unscheduled("unscheduled", usesClaim("unscheduled")),
			podText("owner", "node-a", "ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, storageClassName: disks}}}"),
		),
		SetPhase("succeeded", "Succeeded"), SetPhase("failed", "Failed"),
	)
	const finalizers = "{.metadata.finalizers[*]}"
	return Scenario{
		Name: "volume-protection",
		Bare: true,
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{
				&c.Controllers.PersistentVolumeProtection.Enabled, &c.Controllers.PersistentVolumeClaimProtection.Enabled,
				&c.Controllers.VolumeAttributesClassProtection.Enabled, &c.Controllers.EphemeralVolume.Enabled,
			}
		},
		Kinds: []schema.GroupVersionResource{volumes, claims, modifications, pods},
		Steps: []Step{
			{
				"create all", first,
				[]Condition{
					Has(claimResource, "kept", finalizers, "example.com/first example.com/second kubernetes.io/pvc-protection"),
					Has(claimResource, "finalized", finalizers, "example.com/first example.com/second kubernetes.io/pvc-protection"),
					Has(volumeResource, "other", finalizers, "example.com/first example.com/second kubernetes.io/pv-protection"),
					Has(classResource, "moves", finalizers, "example.com/first example.com/second kubernetes.io/vac-protection"),
					Has(claimResource, "owner-data", "{.metadata.ownerReferences[*].name}", "owner"),
				},
			},
			{
				"delete all",
				[]Action{
					deletes(claimResource, append(append([]string{"owner-data"}, unused...), used...)...), deletes("pods", "going"),
					deletes(volumeResource, "bound", "available", "released", "failed", "other"),
					deletes(classResource, "spec", "current", "target", "volume", "unused", "finalized", "moves"),
				},
				[]Condition{
					allGone(claimResource, "unused", "unscheduled"), allGone(volumeResource, "available", "released", "failed"), Gone(classResource, "unused"),
					Has(claimResource, "finalized", finalizers, "example.com/first example.com/second"),
					Has(classResource, "finalized", finalizers, "example.com/first"),
				},
			},
			{
				"end and delete users",
				[]Action{
					deletes("pods", "used", "succeeded", "failed", "twice-1"), SetPhase("owner", "Succeeded"),
					Patch("pods", "going", harness.NoFinalizers), Delete("pods", "nowhere", metav1.DeletePropagationBackground),
					PatchStatus(claimResource, "status", `{"status":{"currentVolumeAttributesClassName":"other","modifyVolumeStatus":null}}`),
					Patch(claimResource, "moves", harness.NoFinalizers), deletes(claimResource, "moves"),
					deletes(volumeResource, "with-class"), PatchStatus(volumeResource, "bound", `{"status":{"phase":"Released"}}`),
				},
				[]Condition{
					allGone(claimResource, "used", "succeeded", "failed", "nowhere"), allGone(classResource, "current", "target", "volume"),
					Has(volumeResource, "bound", finalizers, "example.com/first"), Gone(volumeResource, "with-class"),
					Has(classResource, "moves", finalizers, "example.com/first example.com/second"),
				},
			},
			{
				"delete the last users",
				[]Action{deletes("pods", "twice-2", "owner")},
				[]Condition{allGone(claimResource, "twice")},
			},
		},
	}
}

// ephemeralVolumes is about claims of pods, whose names others may have taken.
func ephemeralVolumes() Scenario {
	const spec = "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"
	volume := func(name, template string) string {
		return "{name: " + name + ", ephemeral: {volumeClaimTemplate: {" + template + "}}}"
	}
	pod := func(name string, volumes string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1"}], volumes: [%s]}}`, name, volumes)
	}
	const rich = `metadata: {labels: {app: web, tier: gold}, annotations: {example.com/a: "b"}}, spec: {accessModes: [ReadWriteMany, ReadOnlyMany], volumeMode: Block, storageClassName: disks, volumeAttributesClassName: fast, selector: {matchLabels: {a: b}}, resources: {requests: {storage: 3Gi}, limits: {storage: 4Gi}}, dataSourceRef: {kind: PersistentVolumeClaim, name: origin}}`
	quota := corev1.SchemeGroupVersion.WithResource("resourcequotas")
	return Scenario{
		Name: "volume-ephemeral",
		Bare: true,
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.EphemeralVolume.Enabled, &c.Controllers.PersistentVolumeClaimProtection.Enabled}
		},
		Kinds: []schema.GroupVersionResource{pods, claims, quota},
		Chance: map[string]string{
			// Upstream may not see a claim yet that it has created.
			`^(missing|too much): event of ephemeral_volume about v1 Pod \S+: Warning FailedBinding: .* already exists$`: "EPHV-28",
		},
		Steps: []Step{
			{
				"create pods",
				[]Action{CreateAll(
					claimText("conflict-data", "", asks), claimText("second-b", "", asks), claimText("named", "", asks),
					`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: owned-data, ownerReferences: [{apiVersion: v1, kind: Pod, name: owned, uid: 11111111-1111-1111-1111-111111111111, controller: true}]}, spec: {`+asks+`}}`,
					pod("simple", volume("data", spec)), pod("rich", volume("data", rich)), pod("several", volume("a", spec)+", {name: none, emptyDir: {}}, "+volume("b", spec)),
					pod("conflict", volume("data", spec)), pod("second", volume("a", spec)+", "+volume("b", spec)+", "+volume("c", spec)), pod("owned", volume("data", spec)),
					pod("other", "{name: data, persistentVolumeClaim: {claimName: named}}"), pod("both", "{name: data, persistentVolumeClaim: {claimName: simple-data}}, "+volume("own", spec)),
				)},
				[]Condition{
					ToldAll("pods", "FailedBinding", "", "conflict", "second", "owned"),
					OwnedBy("simple", claimResource, "simple-data"), OwnedBy("rich", claimResource, "rich-data"), OwnedBy("several", claimResource, "several-a"),
					OwnedBy("several", claimResource, "several-b"), OwnedBy("second", claimResource, "second-a"), OwnedBy("both", claimResource, "both-own"),
				},
			},
			{
				"take away what is in the way, and claims",
				[]Action{
					PatchStatus("pods", "several", `{"status":{"phase":"Succeeded"}}`),
					deletes(claimResource, "conflict-data", "second-b", "owned-data", "several-a", "named"),
				},
				[]Condition{
					OwnedBy("conflict", claimResource, "conflict-data"), OwnedBy("second", claimResource, "second-b"), OwnedBy("second", claimResource, "second-c"),
					OwnedBy("owned", claimResource, "owned-data"), OwnedBy("several", claimResource, "several-a"), Gone(claimResource, "named"),
				},
			},
			{
				"forbid more claims",
				[]Action{
					Create("{apiVersion: v1, kind: ResourceQuota, metadata: {name: claims}, spec: {hard: {persistentvolumeclaims: 1}}}"),
					PatchStatus("resourcequotas", "claims", `{"status":{"hard":{"persistentvolumeclaims":"1"},"used":{"persistentvolumeclaims":"1"}}}`),
					Rest(2 * time.Second), // admission reads quotas from a cache
					Create(pod("refused", volume("data", spec))),
				},
				[]Condition{Told("pods", "refused", "FailedBinding", "exceeded quota")},
			},
		},
	}
}

// volumeLabels is about pods whose SELinux options do not go together.
func volumeLabels() Scenario {
	pod := func(name, security, container, volume string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {nodeName: node-a, terminationGracePeriodSeconds: 0, securityContext: {%s},
  containers: [{name: web, image: "web:1", securityContext: {%s}, volumeMounts: [{name: data, mountPath: /data}]}], volumes: [{name: data, %s}]}}`, name, security, container, volume)
	}
	level := func(level string) string { return fmt.Sprintf("seLinuxOptions: {level: %q}", level) }
	const full = `seLinuxOptions: {user: system_u, role: system_r, type: container_t, level: "s0:c1,c2"}`
	const recursive = "seLinuxChangePolicy: Recursive"
	twice := fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: twice}, spec: {nodeName: node-a, terminationGracePeriodSeconds: 0,
  containers: [{name: a, image: "web:1", securityContext: {%s}, volumeMounts: [{name: data, mountPath: /data}]}, {name: b, image: "web:1", securityContext: {%s}, volumeMounts: [{name: data, mountPath: /data}, {name: empty, mountPath: /empty}]}],
  volumes: [{name: data, persistentVolumeClaim: {claimName: twice}}, {name: empty, emptyDir: {}}]}}`, level("s0:c1,c2"), level("s0:c3,c4"))
	first := []Action{
		Create("{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: " + csiDriver + "}, spec: {seLinuxMount: true}}"),
		Create("{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: ebs.csi.aws.com}, spec: {seLinuxMount: true}}"),
		Create("{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: plain.example.com}, spec: {}}"),
	}
	for name, source := range map[string]string{
		"levels": "", "policies": "", "types": "", "empty": "", "alike": "", "both-recursive": "", "containers": "", "twice": "",
		"plain": ofDriver("plain.example.com", "plain"), "aws": "awsElasticBlockStore: {volumeID: vol-1}", "fc": "fc: {targetWWNs: [w1, w2], lun: 3}", "nfs": "nfs: {server: nfs, path: /a}",
	} {
		if source == "" {
			source = ofDriver(csiDriver, name)
		}
		first = append(first, disk(name, "ReadWriteOnce", source))
	}
	const iscsi = "iscsi: {targetPortal: 'a:3260', iqn: 'iqn.2026-01.com.example:a', lun: 0}"
	pair := func(volume, one, other, containers string) []string {
		return []string{pod(volume+"-1", one, containers, usesClaim(volume)), pod(volume+"-2", other, "", usesClaim(volume))}
	}
	var texts []string
	for _, both := range [][]string{
		pair("levels", level("s0:c1,c2"), level("s0:c3,c4"), ""), pair("policies", level("s0:c1,c2")+", "+recursive, level("s0:c1,c2"), ""),
		pair("types", full, "seLinuxOptions: {type: spc_t, level: 's0:c1,c2'}", ""), pair("empty", "", full, ""), pair("alike", full, level("s0:c1,c2"), ""),
		pair("both-recursive", full+", "+recursive, level("s0:c7")+", "+recursive, ""), pair("containers", full, level("s0:c1,c2"), level("s0:c9")),
		pair("plain", level("s0:c1,c2"), level("s0:c3,c4"), ""), pair("aws", level("s0:c1,c2"), level("s0:c3,c4"), ""), pair("fc", level("s0:c1,c2"), level("s0:c3,c4"), ""),
		pair("nfs", level("s0:c1,c2"), level("s0:c3,c4"), ""),
		{pod("iscsi-1", level("s0:c1,c2"), "", iscsi), pod("iscsi-2", level("s0:c3,c4"), "", iscsi)},
		{twice, pod("inline", level("s0:c1,c2"), "", "csi: {driver: "+csiDriver+"}")},
	} {
		texts = append(texts, both...)
	}
	const label, policy = "SELinuxLabelConflict", "SELinuxChangePolicyConflict"
	conflicts := func(names ...string) Condition {
		var all []string
		for _, name := range names {
			all = append(all, name+"-1", name+"-2")
		}
		return ToldAll("pods", label, "", all...)
	}
	return Scenario{
		Name:        "volume-labels",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.SELinuxWarning.Enabled} },
		Kinds:       []schema.GroupVersionResource{pods, claims, volumes, csiDrivers},
		Differs: map[string]string{
			// Upstream compares a pod that has its new values with one that has not.
			`^(missing|too much): event of selinux_warning about v1 Pod plain-[12]: Normal (SELinuxChangePolicyConflict|SELinuxLabelConflict: .*SELinuxLabel "")`: "SEL-50",
		},
		Steps: []Step{
			{
				"run pods", append(first, CreateAll(texts...)),
				[]Condition{
					conflicts("levels", "types", "empty", "containers", "aws", "fc", "iscsi"), ToldAll("pods", policy, "", "policies-1", "policies-2", "empty-1", "empty-2"),
					Told("pods", "twice", "MultipleSELinuxLabels", ""),
				},
			},
			{
				"have a driver mount with labels, and run a third pod",
				[]Action{
					Patch("csidrivers", "plain.example.com", `{"spec":{"seLinuxMount":true}}`),
					CreateAll(pod("levels-3", level("s0:c5"), "", usesClaim("levels")), pod("alike-3", "", "", usesClaim("alike"))),
				},
				[]Condition{
					conflicts("plain"), Told("pods", "levels-1", label, "levels-3"), Told("pods", "levels-2", label, "levels-3"), Told("pods", "levels-3", label, "levels-1"),
					Told("pods", "levels-3", label, "levels-2"), ToldAll("pods", policy, "alike-3", "alike-1", "alike-2"), Told("pods", "alike-3", label, ""),
				},
			},
		},
	}
}
