package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

const once, many = corev1.ReadWriteOnce, corev1.ReadWriteMany

// What the controller tells pods about the volume "data".

func attachSucceeded(pv *corev1.PersistentVolume) string {
	return fmt.Sprintf("attachdetach-controller Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume %q ", pv.Name)
}

func attachFailed(pv *corev1.PersistentVolume, text string) string {
	return fmt.Sprintf("attachdetach-controller Warning FailedAttachVolume: AttachVolume.Attach failed for volume %q : %s", pv.Name, text)
}

func multiAttach(pv *corev1.PersistentVolume, text string) string {
	return fmt.Sprintf("attachdetach-controller Warning FailedAttachVolume: Multi-Attach error for volume %q Volume is already %s", pv.Name, text)
}

func heldElsewhere(pv *corev1.PersistentVolume) string {
	return multiAttach(pv, "exclusively attached to one node and can't be attached to another")
}

// A volume is attached before kubelet may mount it, and detached when nothing uses it. The node is told
// first that it goes.
//
// Pins ATT-1, ATT-23, ATT-40, ATT-40f, ATT-48, ATT-75 and ATT-89.
func TestAVolumeComesAndGoesWithAPod(t *testing.T) {
	namespace := cluster.Namespace(t)
	a := attach(t, namespace)
	pv, node := a.createVolume(namespace, "data", once), a.createNode(namespace)
	from := must.Get(cluster.Audit().Mark())(t)
	pod := createUser(t, namespace, node, "pod", "data")
	va := a.awaitVA(node, isAttached)
	sum := sha256.Sum256([]byte("data" + a.Driver + node))
	if want := "csi-" + hex.EncodeToString(sum[:]); va.Name != want || *va.Spec.Source.PersistentVolumeName != pv.Name {
		t.Errorf("VolumeAttachment %s is for %s", va.Name, *va.Spec.Source.PersistentVolumeName)
	}
	a.awaitShown(node, "data")
	cluster.WaitForEvent(t, namespace, pod.UID, attachSucceeded(pv))

	a.reports(node, corev1.ConditionTrue, "data")
	other := a.createNode(namespace + "-2")
	a.createVolume(namespace, "other", once)
	createUser(t, namespace, other, "seen", "other")
	a.awaitShown(other, "other") // so the report before it was seen
	cluster.DeletePodNow(t, namespace, "pod")
	a.awaitShown(node, "data")
	a.reports(node, corev1.ConditionTrue)
	a.awaitNoVA(node)
	a.awaitShown(node)

	want := []string{"create volumeattachments", "patch nodes/status", "patch nodes/status", "delete volumeattachments"}
	await.That(t, fmt.Sprintf("the requests are %q", want), func(context.Context) error {
		events, err := cluster.Audit().Since(from, func(e *auditv1.Event) bool {
			ref := e.ObjectRef
			return e.User.Username == "system:serviceaccount:kube-system:attachdetach-controller" && ref != nil &&
				(ref.Resource == "nodes" && ref.Name == node && e.Verb != "watch" || ref.Resource == "volumeattachments" && ref.Name == va.Name)
		})
		if err != nil {
			return err
		}
		var got []string
		for _, e := range events {
			request := e.Verb + " " + e.ObjectRef.Resource
			if e.ObjectRef.Subresource != "" {
				request += "/" + e.ObjectRef.Subresource
			}
			got = append(got, request)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("they are %q", got)
		}
		return nil
	})
}

// Pins ATT-40c, ATT-40i.
func TestAVolumeIsAttachedToOneNodeAtATime(t *testing.T) {
	namespace := cluster.Namespace(t)
	a := attach(t, namespace)
	pv, first, second := a.createVolume(namespace, "data", once), a.createNode(namespace+"-1"), a.createNode(namespace+"-2")
	createUser(t, namespace, first, "first", "data")
	a.awaitShown(first, "data")
	a.reports(first, corev1.ConditionTrue, "data")
	waiting := createUser(t, namespace, second, "second", "data")
	cluster.WaitForEvent(t, namespace, waiting.UID, multiAttach(pv, "used by pod(s) first"))
	cluster.DeletePodNow(t, namespace, "first")
	a.reports(first, corev1.ConditionTrue)
	a.awaitShown(second, "data")
	a.awaitShown(first)
	a.awaitNoVA(first)
	cluster.WaitForEvent(t, namespace, waiting.UID, attachSucceeded(pv))
}

// Pins ATT-38.
func TestAVolumeIsSharedByNodes(t *testing.T) {
	namespace := cluster.Namespace(t)
	a := attach(t, namespace)
	a.createVolume(namespace, "data", many)
	first, second := a.createNode(namespace+"-1"), a.createNode(namespace+"-2")
	createUser(t, namespace, first, "first", "data")
	createUser(t, namespace, second, "second", "data")
	a.awaitShown(first, "data")
	a.awaitShown(second, "data")
	cluster.DeletePodNow(t, namespace, "first")
	a.awaitShown(first)
	a.awaitShown(second, "data")
}

// Pins ATT-40e and ATT-59.
func TestAnAttachThatFailsIsTriedAgain(t *testing.T) {
	namespace := cluster.Namespace(t)
	a := attach(t, namespace)
	a.Fail("no space")
	pv, node := a.createVolume(namespace, "data", once), a.createNode(namespace)
	pod := createUser(t, namespace, node, "pod", "data")
	cluster.WaitForEvent(t, namespace, pod.UID, attachFailed(pv, "no space"))
	a.awaitShown(node)
	a.GoOn()
	a.awaitShown(node, "data")
	cluster.WaitForEvent(t, namespace, pod.UID, attachSucceeded(pv))
}

// A volume whose detach has failed is not shown as attached until it has been detached and attached again.
//
// Pins ATT-57.
func TestAVolumeIsNotUsedWhileItsDetachFails(t *testing.T) {
	namespace := cluster.Namespace(t)
	a := attach(t, namespace)
	pv, node := a.createVolume(namespace, "data", once), a.createNode(namespace)
	createUser(t, namespace, node, "pod", "data")
	a.awaitShown(node, "data")
	old := a.awaitVA(node, isAttached)
	a.Fail("busy")
	cluster.DeletePodNow(t, namespace, "pod")
	a.awaitVA(node, isBeingDeleted)
	next := createUser(t, namespace, node, "next", "data")
	cluster.WaitForEvent(t, namespace, next.UID, attachFailed(pv, "volume attachment is being deleted"))
	a.awaitShown(node)
	a.GoOn()
	a.awaitShown(node, "data")
	if va := a.awaitVA(node, isAttached); va.UID == old.UID {
		t.Error("the VolumeAttachment is the one that was deleted")
	}
}

// Pins ATT-39d, ATT-39e, ATT-52 and ATT-60.
func TestTheTaintOutOfServiceForcesADetach(t *testing.T) {
	namespace := cluster.Namespace(t)
	a := attach(t, namespace)
	pv, first, second := a.createVolume(namespace, "data", once), a.createNode(namespace+"-1"), a.createNode(namespace+"-2")
	createUser(t, namespace, first, "first", "data")
	a.awaitShown(first, "data")
	a.reports(first, corev1.ConditionUnknown, "data")
	cluster.DeletePodNow(t, namespace, "first")
	waiting := createUser(t, namespace, second, "second", "data")
	cluster.WaitForEvent(t, namespace, waiting.UID, heldElsewhere(pv))
	a.awaitShown(first, "data")
	a.taint(first, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
	a.awaitShown(second, "data")
	a.awaitShown(first)
	a.awaitNoVA(first)
}

// Pins ATT-37 and ATT-43.
func TestANodeThatIsCreatedAgainIsToldAgain(t *testing.T) {
	namespace := cluster.Namespace(t)
	a := attach(t, namespace)
	a.createVolume(namespace, "data", once)
	node := a.createNode(namespace)
	createUser(t, namespace, node, "pod", "data")
	a.awaitShown(node, "data")
	must.Succeed(t, admin.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{}))
	a.createNode(node)
	a.awaitShown(node, "data")
}

// Pins ATT-45.
func TestADriverThatAttachesNothingAnyMore(t *testing.T) {
	namespace := cluster.Namespace(t)
	a := attach(t, namespace)
	a.createVolume(namespace, "data", once)
	node := a.createNode(namespace)
	createUser(t, namespace, node, "pod", "data")
	a.awaitShown(node, "data")
	drivers := admin.StorageV1().CSIDrivers()
	must.Get(drivers.Create(t.Context(), &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: a.Driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: ptr.To(false)},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = drivers.Delete(context.Background(), a.Driver, metav1.DeleteOptions{}) })
	a.awaitNoVA(node)
	a.awaitShown(node)
	must.Succeed(t, drivers.Delete(t.Context(), a.Driver, metav1.DeleteOptions{}))
	a.awaitShown(node, "data")
}

// Pins ATT-69.
func TestVolumeAttachmentsOfOthersAreLeftAlone(t *testing.T) {
	namespace := cluster.Namespace(t)
	a := attach(t, namespace)
	pv, node := a.createVolume(namespace, "data", once), a.createNode(namespace)
	foreign := must.Get(admin.StorageV1().VolumeAttachments().Create(t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-foreign"},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: a.Driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name},
		},
	}, metav1.CreateOptions{}))(t)
	createUser(t, namespace, node, "pod", "data")
	a.awaitShown(node, "data")
	cluster.DeletePodNow(t, namespace, "pod")
	a.awaitShown(node)
	await.That(t, "only the foreign VolumeAttachment is left", func(context.Context) error {
		if all := a.All(); len(all) != 1 || all[0].UID != foreign.UID || all[0].DeletionTimestamp != nil {
			return fmt.Errorf("there are %v", all)
		}
		return nil
	})
}
