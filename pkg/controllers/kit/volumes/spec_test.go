package volumes_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/volumes"
)

// TestResolve covers what counts as the volume of a pod. Pins ATT-35 and SEL-16.
func TestResolve(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "pod-uid"}}
	byClaim := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim", ReadOnly: true}}
	ephemeral := corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}
	ebs := &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}
	own := func(uid types.UID) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) {
			c.Name = "pod-data"
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: uid, Controller: ptr.To(true)}}
		}
	}
	tests := map[string]struct {
		source corev1.VolumeSource
		claim  func(*corev1.PersistentVolumeClaim)
		volume func(*corev1.PersistentVolume)
		want   string
	}{
		"bound":                       {source: byClaim, want: "pv read-only"},
		"claim of another name":       {source: byClaim, claim: func(c *corev1.PersistentVolumeClaim) { c.Name = "other" }},
		"claim that is pending":       {source: byClaim, claim: func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending }},
		"claim without volume":        {source: byClaim, claim: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "" }},
		"volume that is missing":      {source: byClaim, volume: func(v *corev1.PersistentVolume) { v.Name = "other" }},
		"volume of another claim":     {source: byClaim, volume: func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "other" }},
		"volume of nobody":            {source: byClaim, volume: func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil }},
		"ephemeral":                   {source: ephemeral, claim: own("pod-uid"), want: "pv"},
		"ephemeral of another pod":    {source: ephemeral, claim: own("other")},
		"defined in the pod":          {source: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}, want: "data inline"},
		"in-tree":                     {source: byClaim, volume: inTree(ebs), want: "pv read-only migrated ebs.csi.aws.com vol-1"},
		"in-tree in the pod":          {source: corev1.VolumeSource{AWSElasticBlockStore: ebs}, want: "ebs.csi.aws.com-vol-1 migrated inline ebs.csi.aws.com vol-1"},
		"in-tree that makes no sense": {source: byClaim, volume: inTree(&corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://a/b/c/d"})},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim", UID: "claim-uid"},
				Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
				Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
			}
			pv := &corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: "pv"},
				Spec:       corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{UID: "claim-uid"}},
			}
			if tt.claim != nil {
				tt.claim(claim)
			}
			if tt.volume != nil {
				tt.volume(pv)
			}
			r := volumes.Resolver{
				Claims:  corelisters.NewPersistentVolumeClaimLister(indexer(t, claim)),
				Volumes: corelisters.NewPersistentVolumeLister(indexer(t, pv)),
			}
			spec, err := r.Resolve(klog.Background(), pod, &corev1.Volume{Name: "data", VolumeSource: tt.source})
			if got := describe(spec); got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// The library panics on it. Pins ATT-107.
func TestAVSphereVolumeOfAPodMayHaveAStoragePolicy(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"}}
	source := corev1.VsphereVirtualDiskVolumeSource{VolumePath: "[ds] disk", FSType: "xfs", StoragePolicyName: "gold"}
	volume := &corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{VsphereVolume: source.DeepCopy()}}
	spec, err := volumes.Resolver{}.Resolve(klog.Background(), pod, volume)
	const want = "csi.vsphere.vmware.com-[ds] disk migrated inline csi.vsphere.vmware.com [ds] disk"
	if got := describe(spec); got != want || err != nil {
		t.Fatalf("%q, %v; want %q", got, err, want)
	}
	if csi := spec.CSI(); csi.FSType != "xfs" || csi.VolumeAttributes["storagepolicyname"] != "gold" {
		t.Errorf("translated to %+v", csi)
	}
	if *volume.VsphereVolume != source {
		t.Errorf("the volume of the pod is %+v now", volume.VsphereVolume)
	}
}

// TestDriver covers volumes whose type has moved to a CSI driver. Pins ATT-4.
func TestDriver(t *testing.T) {
	moved := map[string]corev1.PersistentVolumeSource{
		"ebs.csi.aws.com":          {AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}},
		"pd.csi.storage.gke.io":    {GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{}},
		"cinder.csi.openstack.org": {Cinder: &corev1.CinderPersistentVolumeSource{}},
		"disk.csi.azure.com":       {AzureDisk: &corev1.AzureDiskVolumeSource{}},
		"file.csi.azure.com":       {AzureFile: &corev1.AzureFilePersistentVolumeSource{}},
		"csi.vsphere.vmware.com":   {VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{}},
		"pxd.portworx.com":         {PortworxVolume: &corev1.PortworxVolumeSource{}},
		"example.com":              {CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com"}},
		"":                         {NFS: &corev1.NFSVolumeSource{}},
	}
	for want, source := range moved {
		if got := volumes.Driver(&corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source}}); got != want {
			t.Errorf("driver %q, want %q", got, want)
		}
	}
	inline := corev1.Volume{VolumeSource: corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{}}}
	if got := volumes.InlineDriver(&inline); got != "cinder.csi.openstack.org" {
		t.Errorf("driver of an inline volume: %q", got)
	}
	if got := volumes.InlineDriver(&corev1.Volume{VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "example.com"}}}); got != "" {
		t.Errorf("driver of an inline CSI volume: %q", got)
	}
}

func inTree(source *corev1.AWSElasticBlockStoreVolumeSource) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { v.Spec.AWSElasticBlockStore = source }
}

func indexer(t *testing.T, object any) cache.Indexer {
	t.Helper()
	objects := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := objects.Add(object); err != nil {
		t.Fatal(err)
	}
	return objects
}

// describe prints a Spec on a line.
func describe(s volumes.Spec) string {
	text := s.Name()
	if s.ReadOnly {
		text += " read-only"
	}
	if s.Migrated {
		text += " migrated"
	}
	if s.Inline {
		text += " inline"
	}
	if csi := s.CSI(); csi != nil {
		text += " " + csi.Driver + " " + csi.VolumeHandle
	}
	return text
}
