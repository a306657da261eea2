package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// gone is the claimRef of a volume whose claim has gone.
func gone(claim string) string {
	return ", claimRef: {kind: PersistentVolumeClaim, apiVersion: v1, namespace: NAMESPACE, name: " + claim + ", uid: 11111111-1111-1111-1111-111111111111}"
}

// volumeReclaiming is about volumes whose claims are gone, and about what belongs to who provisioned them.
func volumeReclaiming() Scenario {
	const keep, remove = "persistentVolumeReclaimPolicy: Retain", "persistentVolumeReclaimPolicy: Delete"
	by := func(provisioner string) string { return annotated(provisionedKey, provisioner) }
	in := func(path string) string { return ", hostPath: {path: " + path + "}" }
	const ours, theirs, users = "kubernetes.io/pv-controller", "external-provisioner.volume.kubernetes.io/finalizer", "example.com/keeps"
	const all = ", finalizers: [" + ours + ", " + users + ", " + theirs + "]"
	return Scenario{
		Name:        "volume-reclaiming",
		Bare:        true,
		Controllers: withBinder,
		Configure:   binderSettings,
		Flags:       binderFlags,
		Kinds:       []schema.GroupVersionResource{volumes, claims},
		Steps: []Step{
			{
				"create volumes of claims that are gone, and volumes that were provisioned",
				[]Action{CreateAll(
					driven("retained", "", small+keep+gone("a")),
					volumeText("directory", "", small+remove+in("/tmp/NAMESPACE/directory")+gone("a")),
					volumeText("directory-far", "", small+remove+in("/srv/NAMESPACE")+gone("a")),
					volumeText("directory-inner", "", small+remove+in("/var/tmp/NAMESPACE")+gone("a")),
					volumeText("directory-by", by("kubernetes.io/host-path"), small+remove+in("/tmp/NAMESPACE/by")+gone("a")),
					volumeText("directory-kept", by("kubernetes.io/host-path"), small+keep+in("/tmp/NAMESPACE/kept")+gone("a")),
					driven("no-directory", by("kubernetes.io/host-path"), small+remove+gone("a")),
					volumeText("nfs", "", small+remove+", nfs: {server: nfs, path: /a}"+gone("a")),
					volumeText("nfs-by", by("kubernetes.io/nfs"), small+remove+", nfs: {server: nfs, path: /a}"+gone("a")),
					volumeText("local", "", small+remove+", local: {path: /mnt}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: x, operator: Exists}]}]}}"+gone("a")),
					volumeText("iscsi", "", small+remove+", iscsi: {targetPortal: 'a:3260', iqn: 'iqn.2026-01.com.example:a', lun: 0}"+gone("a")),
					volumeText("aws-static", "", small+remove+", awsElasticBlockStore: {volumeID: vol-1}"+gone("a")),
					volumeText("aws-by", by("kubernetes.io/aws-ebs"), small+remove+", awsElasticBlockStore: {volumeID: vol-2}"+gone("a")),
					volumeText("aws-moved", annotated(migratedKey, "ebs.csi.aws.com"), small+remove+", awsElasticBlockStore: {volumeID: vol-3}"+gone("a")),
					driven("csi", "", small+remove+gone("a")), driven("csi-by", by(csiDriver), small+remove+gone("a")),
					driven("csi-by-rbd", by("kubernetes.io/rbd"), small+remove+gone("a")),
					driven("csi-by-none", by(""), small+remove+gone("a")),
					driven("unrecycled", "", small+"persistentVolumeReclaimPolicy: Recycle"+gone("a")),
					driven("failed", "", small+remove+gone("a")),
					driven("f-external", by(csiDriver)+all, small+remove), driven("f-none", "labels: {a: b}"+all, small+remove),
					driven("f-aws", by("kubernetes.io/aws-ebs")+all, small+remove), driven("f-rbd", by("kubernetes.io/rbd")+", finalizers: ["+users+"]", small+remove),
					driven("f-rbd-all", by("kubernetes.io/rbd")+all, small+remove),
					driven("f-rbd-kept", by("kubernetes.io/rbd")+all, small+keep), driven("f-rbd-recycled", by("kubernetes.io/rbd")+all, small+"persistentVolumeReclaimPolicy: Recycle"),
					driven("m-stale", annotated(provisionedKey, csiDriver, migratedKey, "old.example.com"), small+keep),
					driven("m-stray", annotated(migratedKey, "old.example.com"), small+keep),
					driven("m-wrong", annotated(provisionedKey, "kubernetes.io/cinder", migratedKey, "old.example.com"), small+keep),
					driven("m-gce", by("kubernetes.io/gce-pd"), small+keep), driven("m-azure-disk", by("kubernetes.io/azure-disk"), small+keep),
					driven("m-azure-file", by("kubernetes.io/azure-file"), small+keep), driven("m-vsphere", by("kubernetes.io/vsphere-volume"), small+keep),
					driven("m-portworx", by("kubernetes.io/portworx-volume"), small+keep), driven("m-rbd", by("kubernetes.io/rbd"), small+keep),
					driven("m-csi", by("ebs.csi.aws.com"), small+keep),
				)},
				[]Condition{
					phases(volumeResource, "Released", "retained", "directory-kept", "aws-by", "aws-moved", "csi", "csi-by"),
					phases(volumeResource, "Failed", "directory-far", "no-directory", "nfs", "nfs-by", "local", "iscsi", "aws-static", "csi-by-rbd", "unrecycled"),
					allGone(volumeResource, "directory", "directory-inner", "directory-by"),
					ToldAll(volumeResource, "VolumeFailedDelete", "", "directory-far", "no-directory", "nfs", "nfs-by", "local", "iscsi", "aws-static", "csi-by-rbd"),
					Told(volumeResource, "unrecycled", "VolumeFailedRecycle", ""),
					phases(volumeResource, "Available", "f-external", "f-none", "f-aws", "f-rbd", "f-rbd-all", "f-rbd-kept", "f-rbd-recycled",
						"m-stale", "m-stray", "m-wrong", "m-gce", "m-azure-disk", "m-azure-file", "m-vsphere", "m-portworx", "m-rbd", "m-csi"),
				},
			},
			{
				"change policies, and free volumes",
				[]Action{
					Patch(volumeResource, "directory-kept", `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`),
					Patch(volumeResource, "nfs", `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`),
					Patch(volumeResource, "f-rbd", `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`),
					Patch(volumeResource, "f-rbd-kept", `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`),
					Patch(volumeResource, "iscsi", `{"spec":{"claimRef":null}}`),
					Patch(volumeResource, "local", `{"spec":{"claimRef":{"uid":null}}}`),
					PatchStatus(volumeResource, "failed", `{"status":{"phase":"Failed","message":"by hand"}}`),
					PatchStatus(volumeResource, "nfs-by", `{"status":{"phase":"Available","message":""}}`),
					deletes(volumeResource, "csi-by-rbd", "f-rbd-all", "retained", "f-external"),
				},
				[]Condition{
					allGone(volumeResource, "directory-kept", "retained"), phases(volumeResource, "Available", "iscsi", "local"),
					phases(volumeResource, "Failed", "nfs", "nfs-by"),
					Has(volumeResource, "f-rbd-kept", "{.metadata.finalizers[-1:]}", ours),
				},
			},
		},
	}
}

// Copy puts the spec of an object of another namespace into a ConfigMap, which has the name of the object.
func Copy(namespace, resource, name string) Action {
	return func(ctx context.Context, w *world) error {
		client, err := (&world{client: w.client, mapper: w.mapper, namespace: namespace}).of(resource)
		if err != nil {
			return err
		}
		o, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		spec, err := json.Marshal(o.Object["spec"])
		if err != nil {
			return fmt.Errorf("encoding %s/%s: %w", resource, name, err)
		}
		_, err = w.admin.CoreV1().ConfigMaps(w.namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"spec": string(spec)},
		}, metav1.CreateOptions{})
		return err
	}
}

// volumeRecycling is about pods that empty volumes, whose kubelets the script plays.
func volumeRecycling() Scenario {
	const place = metav1.NamespaceDefault
	const recycle = "persistentVolumeReclaimPolicy: Recycle"
	names := []string{"ok", "nfs", "fails", "silent", "loses", "used"}
	pod := func(name string) string { return "recycler-for-" + name }
	ends := func(name, status string) Action {
		return Repeat(In(place, PatchStatus("pods", pod(name), `{"status":`+status+`}`)))
	}
	const succeeded = `{"phase":"Succeeded"}`
	var before []Action
	for _, name := range names {
		before = append(before, In(place, Forget("pods", pod(name))))
	}
	// Upstream's recycler mixes up what it does at the same time, so here it has one volume at a time.
	create := func(name string) Action {
		return Create(volumeText(name, "", small+recycle+", hostPath: {path: /tmp/"+name+"}"+gone(name)))
	}
	recycled := func(name string) Action {
		return Repeat(Check(All(phases(volumeResource, "Available", name), Told(volumeResource, name, "VolumeRecycled", ""))))
	}
	told := func(name string) Action {
		return Repeat(Check(Told(volumeResource, name, "VolumeFailedRecycle", "")))
	}
	event := fmt.Sprintf(`{apiVersion: v1, kind: Event, metadata: {generateName: recycler-}, involvedObject: {kind: Pod, apiVersion: v1, namespace: default, name: %s}, type: Warning, reason: Played, message: something happens, source: {component: kubelet}, firstTimestamp: %q, lastTimestamp: %q}`,
		pod("ok"), time.Now().UTC().Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339))
	return Scenario{
		Name:        "volume-recycling",
		Bare:        true,
		Controllers: withBinder,
		Configure: func(c *manager.Config) {
			binderSettings(c)
			c.Controllers.PersistentVolumeBinder.Recycler.NFS.MinimumTimeout = &metav1.Duration{Duration: 100 * time.Second}
			c.Controllers.PersistentVolumeBinder.Recycler.NFS.TimeoutIncrement = &metav1.Duration{Duration: 7 * time.Second}
		},
		Flags:  append([]string{"--pv-recycler-minimum-timeout-nfs=100", "--pv-recycler-increment-timeout-nfs=7"}, binderFlags...),
		Before: before,
		Kinds:  []schema.GroupVersionResource{volumes, claims, configMaps, pods},
		Steps: []Step{
			{
				"release volumes, and empty some",
				[]Action{
					CreateAll(
						podText("user", "node-a", usesClaim("used")),
						volumeText("ok", "", small+recycle+", hostPath: {path: /tmp/ok, type: DirectoryOrCreate}"+gone("ok")),
						volumeText("nfs", `annotations: {pv.kubernetes.io/bound-by-controller: "yes"}`, "accessModes: [ReadWriteMany], capacity: {storage: 25Gi}, "+recycle+", nfs: {server: nfs, path: /a, readOnly: true}"+gone("nfs")),
						volumeText("used", "", "accessModes: [ReadWriteOnce], capacity: {storage: 3500Mi}, "+recycle+", hostPath: {path: /tmp/used}"+gone("used")),
					),
					Repeat(Copy(place, "pods", pod("ok"))), Repeat(Copy(place, "pods", pod("nfs"))),
					In(place, Create(event)), Repeat(Check(Told(volumeResource, "ok", "RecyclerPod", "something happens"))),
					ends("ok", succeeded), ends("nfs", succeeded),
				},
				[]Condition{
					phases(volumeResource, "Available", "ok", "nfs"), ToldAll(volumeResource, "VolumeRecycled", "", "ok", "nfs"),
					Told(volumeResource, "used", "VolumeFailedRecycle", "is used by pods"), phases(volumeResource, "Released", "used"),
				},
			},
			{
				"end the user, and have some fail",
				[]Action{
					PatchStatus("pods", "user", `{"status":{"phase":"Succeeded"}}`),
					Repeat(Copy(place, "pods", pod("used"))), ends("used", succeeded), recycled("used"),
					create("fails"), ends("fails", `{"phase":"Failed","message":"the disk is full"}`), told("fails"), ends("fails", succeeded), recycled("fails"),
					create("silent"), ends("silent", `{"phase":"Failed"}`), told("silent"), ends("silent", succeeded), recycled("silent"),
					create("loses"), Repeat(In(place, Delete("pods", pod("loses"), metav1.DeletePropagationBackground))), told("loses"),
					ends("loses", succeeded), recycled("loses"),
				},
				[]Condition{phases(volumeResource, "Available", "used", "fails", "silent", "loses")},
			},
		},
	}
}

// podText is a pod on a node that uses a volume.
func podText(name, node, volume string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {nodeName: %s, terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1"}], volumes: [{name: data, %s}]}}`, name, node, volume)
}
