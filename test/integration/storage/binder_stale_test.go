package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"

	kcmruntime "kcmd.dev/pkg/runtime"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// ofVolume are the requests of a verb for one volume.
func ofVolume(verb, name string) faultproxy.Requests {
	return faultproxy.Requests{Resource: corev1.Resource("persistentvolumes"), Verbs: []string{verb}, Name: name}
}

// ofClaim are the requests of a verb for one claim.
func ofClaim(verb, namespace, name string) faultproxy.Requests {
	return faultproxy.Requests{Resource: corev1.Resource("persistentvolumeclaims"), Verbs: []string{verb}, Namespace: namespace, Name: name}
}

// startBinder runs a volume binder of its own for a test.
func startBinder(t *testing.T) (binding, harness.Replica) {
	t.Helper()
	r := cluster.Behind(t, onlyBinder)
	r.Works(t)
	return newBinding(t), r
}

// settled waits until the binder of a replica has nothing in its queues, and its caches show that.
// If the events of a cache were held earlier, an instance that is started meanwhile would wait for ever until
// the cache shows the last writes of its predecessor.
func (b binding) settled(r harness.Replica) {
	b.Helper()
	b.shown(r, "shown-first") // what happened before has been queued
	harness.Wait(b, r.Manager, "the queues are empty", harness.QueuesAreEmpty)
	b.shown(r, "shown-last")
}

// shown waits until the caches of a replica are at least as new as a volume and a claim, which are created for
// that, and the binder has looked at both. It does not write the claim, whose class does not exist.
func (b binding) shown(r harness.Replica, name string) {
	b.Helper()
	b.volume(name, func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = b.of(name) })
	v := b.volumeIs(name, corev1.VolumeAvailable)
	claim := b.claim(name, func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr.To(b.of("absent")) })
	b.event(b.namespace, claim.UID, fmt.Sprintf("Warning ProvisioningFailed storageclass.storage.k8s.io %q not found", b.of("absent")))
	versions := map[string]string{"persistentvolumes": v.ResourceVersion, "persistentvolumeclaims": claim.ResourceVersion}
	harness.Wait(b, r.Manager, "the caches show it", func(s *kcmruntime.Status) error {
		for _, i := range s.Informers {
			version, ok := versions[i.Resource]
			if !ok || !i.Running {
				continue
			}
			order, err := resourceversion.CompareResourceVersion(i.ResourceVersion, version)
			if err != nil {
				return err
			}
			if order < 0 {
				return fmt.Errorf("%s are at version %s, not %s", i.Resource, i.ResourceVersion, version)
			}
		}
		return nil
	})
}

// replaceBinder changes a setting of the binder of a replica, which has another instance take over.
func replaceBinder(t *testing.T, r harness.Replica) {
	t.Helper()
	before := harness.Instances(harness.Status(t, r.Manager))
	harness.Edit(t, r.Manager, func(c *manager.Config) {
		c.Controllers.PersistentVolumeBinder.SyncPeriod = &metav1.Duration{Duration: 2 * time.Second}
	})
	const name = "persistentvolume-binder-controller"
	harness.Wait(t, r.Manager, "another instance runs", func(s *kcmruntime.Status) error {
		if now, runs := harness.Instances(*s)[name]; !runs || now == before[name] {
			return errors.New("the instance was not replaced")
		}
		return nil
	})
	r.Works(t)
}

// succeeds stops a replica and has another one continue.
func succeeds(t *testing.T, leader harness.Replica) harness.Replica {
	t.Helper()
	successor := cluster.Behind(t, onlyBinder)
	must.Succeed(t, leader.Stop())
	successor.Works(t)
	return successor
}

// deletable makes a directory that the binder may delete, and a volume with it.
func (b binding) deletable(name string) (path string) {
	b.Helper()
	root := must.Get(os.MkdirTemp("/tmp", "binder"))(b)
	b.Cleanup(func() { _ = os.RemoveAll(root) })
	path = b.directory(root)
	b.volume(name, inDirectory(path), reclaimedBy(corev1.PersistentVolumeReclaimDelete))
	return path
}

// keeps fails unless a file of a directory exists.
func (b binding) keeps(path string) {
	b.Helper()
	must.Get(os.Stat(filepath.Join(path, "file")))(b)
}

// The cache does not show the claim of a volume that would be deleted if the claim were gone. It does not help
// to start the controller again, or another one.
//
// Pins PVB-76, PVB-100 and PVB-110.
func TestAVolumeIsNotReleasedWhileTheCacheLacksItsClaim(t *testing.T) {
	b, leader := startBinder(t)
	b.settled(leader)
	held := leader.HoldEvents(claimEvents)
	claim := b.claim("claim", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = b.of("volume") })
	asked := ofClaim("get", b.namespace, "claim")
	before := leader.Seen(asked)
	path := b.deletable("volume")
	b.patchVolume("volume", map[string]any{"spec": map[string]any{"claimRef": map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": b.namespace, "name": "claim", "uid": claim.UID}}})
	leader.Asked(t, asked, before)
	leader.Restart(t, binder, func() {})
	leader.Asked(t, asked, leader.Seen(asked)+1)
	b.keeps(path)
	b.volumeIs("volume", corev1.VolumeBound) // it is the volume that the claim names
	successor := succeeds(t, leader)
	held.Lift()
	b.bound("claim", "volume")
	b.keeps(path)

	late := successor.HoldEvents(volumeEvents)
	b.drop("claim") // and after all it is deleted once the claim is gone
	awaitGone(t, volumes().client, b.of("volume"))
	late.Lift()
}

// A volume is about to be deleted, and is read before that. Meanwhile it is given to another claim, whose
// events are late as well as its own.
//
// Pins PVB-84a, PVB-115 and PVB-107.
func TestAVolumeThatIsTakenMeanwhileIsNotDeleted(t *testing.T) {
	b, leader := startBinder(t)
	path := b.deletable("volume")
	b.claim("claim")
	b.bound("claim", "volume")
	reads := leader.HoldRequests(ofVolume("get", b.of("volume")))
	b.drop("claim")
	b.volumeIs("volume", corev1.VolumeReleased)
	leader.Asked(t, ofVolume("get", b.of("volume")), 0)
	b.settled(leader)
	lateVolumes, lateClaims := leader.HoldEvents(volumeEvents), leader.HoldEvents(claimEvents)
	next := b.claim("next", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = b.of("volume") })
	b.patchVolume("volume", map[string]any{"spec": map[string]any{"claimRef": map[string]any{"name": "next", "uid": next.UID, "resourceVersion": nil}}})
	reads.Lift()
	leader.Asked(t, ofClaim("get", b.namespace, "next"), 0)
	b.keeps(path)
	leader.Restart(t, binder, func() {})
	b.keeps(path)
	lateVolumes.Lift()
	lateClaims.Lift()
	b.bound("next", "volume")
	succeeds(t, leader)
	b.examined("later")
	b.bound("next", "volume")
	b.keeps(path)
}

// The deletion of a volume is on its way while the volume goes and another one of its name is created. The
// successor sees the new one only.
//
// Pins PVB-116 and PVB-107.
func TestAnotherVolumeOfTheNameIsNotDeleted(t *testing.T) {
	b, leader := startBinder(t)
	b.deletable("volume")
	b.claim("claim")
	b.bound("claim", "volume")
	deletion := leader.HoldRequests(ofVolume("delete", b.of("volume")))
	b.drop("claim")
	leader.Asked(t, ofVolume("delete", b.of("volume")), 0)
	volumes().delete(t, b.of("volume"))
	awaitGone(t, volumes().client, b.of("volume"))
	path := b.deletable("volume")
	second := b.volumeIs("volume", corev1.VolumeAvailable)
	deletion.Lift()
	b.examined("later")
	b.keeps(path)
	succeeds(t, leader)
	b.examined("latest")
	if v := b.volumeIs("volume", corev1.VolumeAvailable); v.UID != second.UID || v.DeletionTimestamp != nil {
		t.Errorf("the volume is %s, deleted at %v", v.UID, v.DeletionTimestamp)
	}
	b.keeps(path)
}

// The update that unbinds a volume is on its way while somebody gives the volume to another claim.
//
// Pins PVB-80, PVB-33 and PVB-95.
func TestAVolumeThatIsTakenMeanwhileIsNotUnbound(t *testing.T) {
	b, leader := startBinder(t)
	b.volume("first")
	claim := b.claim("claim")
	b.bound("claim", "first")
	b.settled(leader)
	updates := ofVolume("update", b.of("second"))
	held := leader.HoldRequests(updates)
	b.volume("second", reservedFor(b.namespace, "claim", claim.UID)) // of a claim that has the first
	leader.Asked(t, updates, 0)
	late := leader.HoldEvents(volumeEvents)
	b.patchVolume("second", map[string]any{"spec": map[string]any{"claimRef": map[string]any{"name": "next", "uid": nil}}})
	held.Lift()
	leader.Asked(t, updates, 2) // at least one was refused
	if v := must.Get(admin.CoreV1().PersistentVolumes().Get(t.Context(), b.of("second"), metav1.GetOptions{}))(t); v.Spec.ClaimRef == nil || v.Spec.ClaimRef.Name != "next" {
		t.Fatalf("the volume is of %v", v.Spec.ClaimRef)
	}
	leader.Restart(t, binder, func() {})
	successor := succeeds(t, leader)
	late.Lift()
	b.claim("next", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = b.of("second") })
	b.bound("next", "second")
	b.bound("claim", "first")
	_ = successor
}

// While a pod empties a volume the controller is started again, and waits for the same pod. Another process
// cannot know what the pod has done, and starts another one.
//
// Pins PVB-120, PVB-110 and PVB-85c.
func TestARecycleGoesOnAfterARestart(t *testing.T) {
	b, leader := startBinder(t)
	b.volume("volume", inDirectory("/data"), reclaimedBy(corev1.PersistentVolumeReclaimRecycle))
	b.claim("claim")
	b.bound("claim", "volume")
	b.drop("claim")
	pod := b.recyclerPod("volume", "")
	replaceBinder(t, leader)
	b.examined("later")
	if live := b.recyclerPod("volume", ""); live.UID != pod.UID || live.DeletionTimestamp != nil {
		t.Errorf("the pod is %s, deleted at %v", live.UID, live.DeletionTimestamp)
	}
	v := b.volumeIs("volume", corev1.VolumeReleased)
	successor := cluster.Behind(t, onlyBinder)
	must.Succeed(t, leader.Stop())
	successor.Works(t)
	second := b.recyclerPod("volume", pod.UID)
	b.event(metav1.NamespaceDefault, v.UID, "Warning VolumeFailedRecycle Recycle failed: old recycler pod found, will retry later")
	replaceBinder(t, successor)
	b.succeed(second)
	b.volumeIs("volume", corev1.VolumeAvailable)
	b.awaitRecyclerGone(second)
}

// While a pod empties a volume, that goes, and another one of its name is created for another claim. The
// controller does not see it before the pod has succeeded, nor before another instance waits for the pod.
//
// Pins PVB-85, PVB-107 and PVB-120.
func TestAnotherVolumeOfTheNameIsNotEmptied(t *testing.T) {
	b, leader := startBinder(t)
	b.volume("volume", inDirectory("/data"), reclaimedBy(corev1.PersistentVolumeReclaimRecycle))
	b.claim("claim")
	b.bound("claim", "volume")
	b.drop("claim")
	pod := b.recyclerPod("volume", "")
	held := leader.HoldEvents(volumeEvents)
	volumes().delete(t, b.of("volume"))
	awaitGone(t, volumes().client, b.of("volume"))
	next := b.claim("next", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = b.of("volume") })
	second := b.volume("volume", inDirectory("/data"), reclaimedBy(corev1.PersistentVolumeReclaimRecycle), reservedFor(b.namespace, "next", next.UID))
	replaceBinder(t, leader)
	of := faultproxy.Requests{Resource: corev1.Resource("persistentvolumes"), Verbs: []string{"get", "update"}, Name: b.of("volume")}
	before := leader.Seen(of)
	if b.succeedIfThere(pod) {
		leader.Asked(t, of, before)
	}
	creates := faultproxy.Requests{Resource: corev1.Resource("pods"), Verbs: []string{"create"}}
	created := leader.Seen(creates)
	held.Lift()
	b.bound("next", "volume")
	successor := succeeds(t, leader)
	b.examined("later")
	b.bound("next", "volume")
	if n := leader.Seen(creates) - created + successor.Seen(creates); n != 0 {
		t.Errorf("%d pods were created for it", n)
	}
	if live := b.volumeIs("volume", corev1.VolumeBound); live.UID != second.UID || live.Spec.ClaimRef.UID != next.UID {
		t.Errorf("volume %s is of %v", live.UID, live.Spec.ClaimRef)
	}
}

// A pod that uses the volume lives, and the cache does not show it. Its claim is gone because nobody protected
// it.
//
// Pins PVB-85 and PVB-115.
func TestAVolumeIsNotEmptiedWhileAPodUsesIt(t *testing.T) {
	b, leader := startBinder(t)
	b.volume("volume", inDirectory("/data"), reclaimedBy(corev1.PersistentVolumeReclaimRecycle))
	b.claim("claim")
	b.bound("claim", "volume")
	held := leader.HoldEvents(podEvents)
	createPod(t, b.namespace, "user", using("claim"))
	b.drop("claim")
	v := b.volumeIs("volume", corev1.VolumeReleased)
	used := fmt.Sprintf("Normal VolumeFailedRecycle Volume is used by pods: %s/user", b.namespace)
	b.event(metav1.NamespaceDefault, v.UID, used)
	creates := faultproxy.Requests{Resource: corev1.Resource("pods"), Verbs: []string{"create"}}
	leader.Restart(t, binder, func() {})
	leader.Asked(t, podLists(b.namespace), leader.Seen(podLists(b.namespace))+1)
	successor := succeeds(t, leader)
	held.Lift()
	b.examined("later")
	if n := leader.Seen(creates) + successor.Seen(creates); n != 0 {
		t.Fatalf("%d pods were created", n)
	}
	cluster.DeletePodNow(t, b.namespace, "user")
	b.succeed(b.recyclerPod("volume", ""))
	b.volumeIs("volume", corev1.VolumeAvailable)
}

// The cache shows neither that a claim is gone nor the claim that has its name now. The volume is not bound to
// that, and data is not lost to it.
//
// Pins PVB-107, PVB-61, PVB-63 and PVB-117.
func TestACacheThatIsBehindLosesNoClaim(t *testing.T) {
	b, leader := startBinder(t)
	b.settled(leader)
	held := leader.HoldEvents(volumeEvents)
	b.volume("volume")
	claim := b.claim("claim", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName = b.of("volume")
		c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	})
	reads := ofVolume("get", b.of("volume"))
	leader.Asked(t, reads, 1) // the answer to the first has had its effect
	leader.Restart(t, binder, func() {})
	leader.Asked(t, reads, leader.Seen(reads)+1)
	b.claimIs("claim", corev1.ClaimPending)
	succeeds(t, leader)
	held.Lift()
	b.bound("claim", "volume")
	if events := must.Get(cluster.EventsOf(t.Context(), b.namespace, claim.UID))(t); len(events) != 0 {
		t.Errorf("the events are %q", events)
	}
}
