package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

// What users see of the volume binder, on one manager. Pins PVB-42.
func TestBinder(t *testing.T) {
	cluster.Behind(t, onlyBinder).Works(t)
	for name, test := range map[string]func(binding){
		"PVB-58b, PVB-69, PVB-70, PVB-71, PVB-72, PVB-49: the smallest volume that suffices is bound": bindsTheSmallest,
		"PVB-58b, PVB-98, PVB-105: volumes are selected":                                              selects,
		"PVB-59b, PVB-59c, PVB-75, PVB-98, PVB-49: reserved volumes and claims are bound":             bindsReserved,
		"PVB-59b, PVB-59d, PVB-58g, PVB-86, PVB-41: a claim whose volume does not fit stays pending":  refusesMisfits,
		"PVB-58d, PVB-54, PVB-106: a claim gets the default class later":                              getsTheDefaultClass,
		"PVB-58e, PVB-99, PVB-29: a claim is bound for its first consumer":                            bindsForTheFirstConsumer,
		"PVB-51, PVB-58e, PVB-67: a claim is provisioned for its first consumer":                      provisionsForTheFirstConsumer,
		"PVB-67, PVB-74, PVB-77, PVB-84, PVB-112: an external provisioner makes and deletes volumes":  provisionsExternally,
		"PVB-77, PVB-83, PVB-75, PVB-81: a volume is retained":                                        retains,
		"PVB-84a, PVB-6, PVB-35: a directory is deleted":                                              deletesDirectory,
		"PVB-84a, PVB-84, PVB-87: a directory that must not be deleted stays":                         keepsDirectory,
		"PVB-85, PVB-85b, PVB-85c, PVB-39: a directory is emptied":                                    func(b binding) { recycles(b, inDirectory("/data")) },
		"PVB-85, PVB-85b, PVB-85c, PVB-39: an NFS share is emptied":                                   func(b binding) { recycles(b, onShare) },
		"PVB-61, PVB-64, PVB-73: a claim that lost its volume gets it back":                           losesItsVolume,
		"PVB-63, PVB-76, PVB-107, PVB-112: a claim of the same name does not get the volume":          isRecreated,
		"PVB-5, PVB-96, PVB-97: many claims are bound to many volumes":                                bindsMany,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newBinding(t))
		})
	}
}

func sized(size string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	}
}

func bindsTheSmallest(b binding) {
	for _, size := range []string{"512Mi", "3Gi", "2Gi", "9Gi"} {
		name := map[string]string{"512Mi": "small", "3Gi": "large", "2Gi": "fits", "9Gi": "huge"}[size]
		b.volume(name, sized(size))
		b.volumeIs(name, corev1.VolumeAvailable)
	}
	b.claim("claim")
	b.bound("claim", "fits")
	v, claim := b.volumeIs("fits", corev1.VolumeBound), getClaim(b.T, b.namespace, "claim")
	const byController, completed = "pv.kubernetes.io/bound-by-controller", "pv.kubernetes.io/bind-completed"
	if v.Annotations[byController] != "yes" || claim.Annotations[byController] != "yes" || claim.Annotations[completed] != "yes" {
		b.Errorf("the annotations are %v and %v", v.Annotations, claim.Annotations)
	}
	if v.Status.LastPhaseTransitionTime == nil || v.Spec.ClaimRef.Kind != "PersistentVolumeClaim" || v.Spec.ClaimRef.ResourceVersion == "" {
		b.Errorf("the volume is %+v %+v", v.Spec.ClaimRef, v.Status)
	}
	b.volumeIs("large", corev1.VolumeAvailable)
}

func selects(b binding) {
	labelled := func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"disk": "fast"} }
	b.volume("plain")
	b.volume("labelled", labelled, sized("5Gi"))
	b.volume("block", labelled, func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) })
	b.volume("shared", func(v *corev1.PersistentVolume) {
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany}
	})
	b.claim("by-label", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "disk", Operator: metav1.LabelSelectorOpIn, Values: []string{"fast", "faster"}}}}
	})
	b.bound("by-label", "labelled")
	b.claim("by-mode", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) })
	b.bound("by-mode", "block")
	b.claim("by-access", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	})
	b.bound("by-access", "shared")
	b.claim("any")
	b.bound("any", "plain")
}

func bindsReserved(b binding) {
	b.volume("free")
	b.volume("reserved", reservedFor(b.namespace, "claim", ""), func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "another" })
	b.volumeIs("free", corev1.VolumeAvailable)
	b.volumeIs("reserved", corev1.VolumeAvailable)
	for i := range 5 { // that do not get it
		b.claim(fmt.Sprint("other-", i), func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr.To("another") })
	}
	b.claim("claim")
	b.bound("claim", "reserved")
	b.claim("names", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName = b.of("free")
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"no": "such"}}
	})
	b.bound("names", "free")
	b.claim("early", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = b.of("late") })
	b.volume("late")
	b.bound("early", "late")
	v := b.volumeIs("reserved", corev1.VolumeBound)
	if _, ok := v.Annotations["pv.kubernetes.io/bound-by-controller"]; ok {
		b.Errorf("the annotations are %v", v.Annotations)
	}
}

func refusesMisfits(b binding) {
	b.volume("volume")
	small := b.claim("small", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName = b.of("volume")
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	})
	b.event(b.namespace, small.UID, fmt.Sprintf("Warning VolumeMismatch Cannot bind to requested volume %q: requested PV is too small", b.of("volume")))
	b.claim("claim")
	b.bound("claim", "volume")
	late := b.claim("late", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = b.of("volume") })
	b.event(b.namespace, late.UID, fmt.Sprintf("Warning FailedBinding volume %q already bound to a different claim.", b.of("volume")))
	none := b.claim("none", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr.To("") })
	b.event(b.namespace, none.UID, "Normal FailedBinding no persistent volumes available for this claim and no storage class is set")
	b.claimIs("small", corev1.ClaimPending)
	b.claimIs("late", corev1.ClaimPending)
}

// A claim without a class that exists before the default class.
func getsTheDefaultClass(b binding) {
	claim := b.claim("claim", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil })
	b.claim("never", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr.To("") })
	b.event(b.namespace, claim.UID, "Normal FailedBinding no persistent volumes available for this claim and no storage class is set")
	b.volume("volume")
	b.class(driver, func(c *storagev1.StorageClass) { c.Annotations = map[string]string{defaultClass: "true"} })
	b.bound("claim", "volume")
	if got := ptr.Deref(getClaim(b.T, b.namespace, "claim").Spec.StorageClassName, ""); got != b.namespace {
		b.Errorf("the class is %q", got)
	}
	if got := *getClaim(b.T, b.namespace, "never").Spec.StorageClassName; got != "" {
		b.Errorf("the class of the other is %q", got)
	}
}

func forFirstConsumer(c *storagev1.StorageClass) {
	c.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
}

// consumer creates a pod that uses a claim, and that the scheduler has to bind.
func (b binding) consumer(claim string, edits ...func(*corev1.Pod)) {
	b.Helper()
	createPod(b.T, b.namespace, "user", append(edits, using(claim), func(p *corev1.Pod) { p.Spec.NodeName = "" })...)
}

func bindsForTheFirstConsumer(b binding) {
	b.class("kubernetes.io/no-provisioner", forFirstConsumer)
	b.volume("volume")
	b.volumeIs("volume", corev1.VolumeAvailable)
	claim := b.claim("claim")
	b.event(b.namespace, claim.UID, "Normal WaitForFirstConsumer waiting for first consumer to be created before binding")
	createPod(b.T, b.namespace, "waits", using("claim"), unscheduled)
	b.event(b.namespace, claim.UID, "Normal WaitForPodScheduled waiting for pod waits to be scheduled")
	b.claimIs("claim", corev1.ClaimPending)
	b.consumer("claim")
	b.bound("claim", "volume")
}

// provisions is an external provisioner that makes a volume for a claim once it is asked.
func (b binding) provisions(claim *corev1.PersistentVolumeClaim, volume string, policy corev1.PersistentVolumeReclaimPolicy) {
	b.Helper()
	await.That(b, "the provisioner is asked", func(ctx context.Context) error {
		live, err := admin.CoreV1().PersistentVolumeClaims(b.namespace).Get(ctx, claim.Name, metav1.GetOptions{})
		if err == nil && (live.Annotations[provisioner] != driver || live.Annotations["volume.beta.kubernetes.io/storage-provisioner"] != driver) {
			err = fmt.Errorf("the annotations are %v", live.Annotations)
		}
		return err
	})
	b.volume(volume, reclaimedBy(policy), reservedFor(b.namespace, claim.Name, claim.UID), func(v *corev1.PersistentVolume) {
		v.Annotations = map[string]string{provisionedBy: driver}
		v.Finalizers = []string{"external-provisioner.volume.kubernetes.io/finalizer"}
	})
}

func provisionsForTheFirstConsumer(b binding) {
	b.class(driver, forFirstConsumer)
	claim := b.claim("claim")
	b.event(b.namespace, claim.UID, "Normal WaitForFirstConsumer waiting for first consumer to be created before binding")
	if live := getClaim(b.T, b.namespace, "claim"); live.Annotations[provisioner] != "" {
		b.Errorf("the provisioner was asked before there was a consumer: %v", live.Annotations)
	}
	b.consumer("claim")
	b.provisions(claim, "volume", corev1.PersistentVolumeReclaimDelete)
	if live := getClaim(b.T, b.namespace, "claim"); live.Annotations[selectedNode] == "" {
		b.Errorf("no node was selected: %v", live.Annotations)
	}
	b.bound("claim", "volume")
}

func provisionsExternally(b binding) {
	b.class(driver)
	claim := b.claim("claim")
	b.event(b.namespace, claim.UID, "Normal ExternalProvisioning Waiting for a volume to be created either by the external provisioner '"+driver+"' or manually by the system administrator. "+
		"If volume creation is delayed, please verify that the provisioner is running and correctly registered.")
	b.provisions(claim, "volume", corev1.PersistentVolumeReclaimDelete)
	b.bound("claim", "volume")
	b.drop("claim")
	v := b.volumeIs("volume", corev1.VolumeReleased)
	if len(v.Finalizers) != 2 || v.DeletionTimestamp != nil { // that of the provisioner survives
		b.Errorf("the finalizers are %q, deleted at %v", v.Finalizers, v.DeletionTimestamp)
	}
}

func retains(b binding) {
	b.volume("volume")
	b.claim("claim")
	b.bound("claim", "volume")
	b.drop("claim")
	b.volumeIs("volume", corev1.VolumeReleased)
	b.claim("next")
	b.examined("later")
	b.claimIs("next", corev1.ClaimPending)
	b.patchVolume("volume", map[string]any{"spec": map[string]any{"claimRef": nil}}) // by an administrator
	b.bound("next", "volume")
}

// directory makes a directory with a file in it.
func (b binding) directory(root string) string {
	b.Helper()
	path := filepath.Join(root, "data")
	must.Succeed(b, os.MkdirAll(path, 0o750))
	must.Succeed(b, os.WriteFile(filepath.Join(path, "file"), []byte("content"), 0o600))
	return path
}

func deletesDirectory(b binding) {
	path := b.directory(must.Get(os.MkdirTemp("/tmp", "binder"))(b))
	b.volume("volume", inDirectory(path), reclaimedBy(corev1.PersistentVolumeReclaimDelete))
	b.claim("claim")
	b.bound("claim", "volume")
	b.drop("claim")
	awaitGone(b.T, volumes().client, b.of("volume"))
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		b.Errorf("the directory: %v", err)
	}
	must.Succeed(b, os.RemoveAll(filepath.Dir(path)))
}

func keepsDirectory(b binding) {
	b.volume("volume", inDirectory("/does/not/exist"), reclaimedBy(corev1.PersistentVolumeReclaimDelete))
	b.claim("claim")
	b.bound("claim", "volume")
	b.drop("claim")
	const message = "host_path deleter only supports /tmp/.+ but received provided /does/not/exist"
	v := b.volumeIs("volume", corev1.VolumeFailed)
	if v.Status.Message != message {
		b.Errorf("the message is %q", v.Status.Message)
	}
	b.event(metav1.NamespaceDefault, v.UID, "Warning VolumeFailedDelete "+message)
}

// A pod empties a volume, twice. kwok runs the pod.
func recycles(b binding, source func(*corev1.PersistentVolume)) {
	b.volume("volume", source, reclaimedBy(corev1.PersistentVolumeReclaimRecycle))
	var former types.UID
	for _, claim := range []string{"first", "second"} {
		b.claim(claim)
		b.bound(claim, "volume")
		b.drop(claim)
		pod := b.recyclerPod("volume", former)
		if of, want := pod.Spec.Volumes[0].VolumeSource, b.volumeIs("volume", corev1.VolumeReleased).Spec; (of.HostPath == nil) != (want.HostPath == nil) || (of.NFS == nil) != (want.NFS == nil) {
			b.Errorf("the pod has %+v", of)
		}
		b.succeed(pod)
		v := b.volumeIs("volume", corev1.VolumeAvailable)
		if v.Spec.ClaimRef != nil {
			b.Errorf("the volume is of %v", v.Spec.ClaimRef)
		}
		b.event(metav1.NamespaceDefault, v.UID, "Normal VolumeRecycled Volume recycled")
		b.awaitRecyclerGone(pod)
		former = pod.UID
	}
}

func losesItsVolume(b binding) {
	v := b.volume("volume")
	claim := b.claim("claim")
	b.bound("claim", "volume")
	volumes().delete(b.T, v.Name)
	end(b.T, volumes().client, v.Name)
	b.claimIs("claim", corev1.ClaimLost)
	b.event(b.namespace, claim.UID, "Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	if status := getClaim(b.T, b.namespace, "claim").Status; status.AccessModes != nil || status.Capacity != nil {
		b.Errorf("the status is %+v", status)
	}
	b.volume("volume")
	b.bound("claim", "volume")
}

func isRecreated(b binding) {
	b.volume("volume")
	first := b.claim("claim")
	b.bound("claim", "volume")
	b.drop("claim")
	second := b.claim("claim")
	b.volumeIs("volume", corev1.VolumeReleased)
	b.examined("later")
	b.claimIs("claim", corev1.ClaimPending)
	if v := b.volumeIs("volume", corev1.VolumeReleased); v.Spec.ClaimRef.UID != first.UID || first.UID == second.UID {
		b.Errorf("the volume is of %v", v.Spec.ClaimRef)
	}
}

func bindsMany(b binding) {
	const n = 20
	for i := range n {
		b.volume(fmt.Sprint("volume-", i))
		b.claim(fmt.Sprint("claim-", i))
	}
	await.That(b, "all claims are bound", func(ctx context.Context) error {
		all, err := admin.CoreV1().PersistentVolumeClaims(b.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		taken := map[string]bool{}
		for _, claim := range all.Items {
			if claim.Status.Phase != corev1.ClaimBound {
				return fmt.Errorf("claim %s is %s", claim.Name, claim.Status.Phase)
			}
			if taken[claim.Spec.VolumeName] {
				return await.Final(errors.New("two claims name volume " + claim.Spec.VolumeName))
			}
			taken[claim.Spec.VolumeName] = true
		}
		return nil
	})
}
