package storage

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/await"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

func attachDetach(c *manager.Config) **bool {
	return &c.Controllers.PersistentVolumeAttachDetach.Enabled
}

var (
	nodeEvents       = faultproxy.Requests{Resource: corev1.Resource("nodes"), Verbs: []string{"watch"}}
	nodeReads        = faultproxy.Requests{Resource: corev1.Resource("nodes"), Verbs: []string{"get"}}
	nodeWrites       = faultproxy.Requests{Resource: corev1.Resource("nodes"), Verbs: []string{"patch"}}
	attachmentEvents = faultproxy.Requests{Resource: storagev1.Resource("volumeattachments"), Verbs: []string{"watch"}}
	attachmentWrites = faultproxy.Requests{Resource: storagev1.Resource("volumeattachments"), Verbs: []string{"create", "delete"}}
	detaches         = faultproxy.Requests{Resource: storagev1.Resource("volumeattachments"), Verbs: []string{"delete"}}
)

// attached runs a replica, and a pod whose volume is attached to a node.
func attached(t *testing.T) (r harness.Replica, a *attacher, namespace, node string) {
	t.Helper()
	rest(t)
	namespace = cluster.Namespace(t)
	r = cluster.Behind(t, only(attachDetach))
	r.Works(t)
	a = attach(t, namespace)
	a.createVolume(namespace, "data", once)
	node = a.createNode(namespace)
	createUser(t, namespace, node, "pod", "data")
	a.awaitShown(node, "data")
	a.awaitVA(node, isAttached)
	return r, a, namespace, node
}

// The controller does not see that a kubelet has mounted a volume.
//
// Pins ATT-39h.
func TestAVolumeThatTheCacheDoesNotShowAsUsedStays(t *testing.T) {
	r, a, namespace, node := attached(t)
	held := r.HoldEvents(nodeEvents)
	a.reports(node, corev1.ConditionTrue, "data")
	cluster.DeletePodNow(t, namespace, "pod")
	r.Asked(t, nodeReads, 0)
	r.Asked(t, nodeReads, 1) // the first answer has had its effect
	if va := a.awaitVA(node, isAttached); va.DeletionTimestamp != nil {
		t.Errorf("VolumeAttachment %s is being deleted", va.Name)
	}
	a.reports(node, corev1.ConditionTrue)
	held.Lift()
	a.awaitNoVA(node)
}

// The deletion of a VolumeAttachment is on its way while that goes, and another one of its name is created.
//
// Pins ATT-81.
func TestAnotherVolumeAttachmentOfTheNameIsNotDeleted(t *testing.T) {
	r, a, namespace, node := attached(t)
	old := a.awaitVA(node, isAttached)
	events := r.HoldEvents(attachmentEvents)
	writes := r.HoldRequests(detaches)
	cluster.DeletePodNow(t, namespace, "pod")
	r.Asked(t, detaches, 0)
	second := a.replaceVA(old)
	sent := r.Seen(detaches)
	writes.Lift()
	r.Asked(t, detaches, sent) // tried again, since it was refused
	if va := a.awaitVA(node, exists); va.UID != second.UID || va.DeletionTimestamp != nil {
		t.Errorf("VolumeAttachment %s is deleted at %v, want %s", va.UID, va.DeletionTimestamp, second.UID)
	}
	events.Lift()
	a.awaitNoVA(node) // now that it is known, it is found to be for nobody
}

// replaceVA ends a VolumeAttachment and creates another one of its name.
func (a *attacher) replaceVA(old *storagev1.VolumeAttachment) *storagev1.VolumeAttachment {
	a.t.Helper()
	client := admin.StorageV1().VolumeAttachments()
	must.Succeed(a.t, client.Delete(a.t.Context(), old.Name, metav1.DeleteOptions{}))
	awaitGone(a.t, client, old.Name)
	next := &storagev1.VolumeAttachment{Spec: old.Spec}
	next.Name = old.Name
	return must.Get(client.Create(a.t.Context(), next, metav1.CreateOptions{}))(a.t)
}

// An instance ends while it waits for an attacher. The next one waits for the same VolumeAttachment, and sends
// nothing.
//
// Pins ATT-73 and ATT-84.
func TestARestartInTheMiddleOfAnAttach(t *testing.T) {
	r, a, namespace, node := attached(t)
	a.Stop()
	pv := a.createVolume(namespace, "more", once)
	pod := createUser(t, namespace, node, "second", "more")
	r.Asked(t, attachmentWrites, 1)
	sent := r.Seen(attachmentWrites)
	r.Restart(t, attachDetach, func() {})
	a.GoOn()
	a.awaitShown(node, "data", "more")
	cluster.WaitForEvents(t, namespace, pod.UID, attachSucceeded(pv))
	if n := r.Seen(attachmentWrites); n != sent {
		t.Errorf("%d VolumeAttachments were created or deleted after the restart", n-sent)
	}
}

// Pins ATT-73 and ATT-84.
func TestARestartInTheMiddleOfADetach(t *testing.T) {
	r, a, namespace, node := attached(t)
	a.Stop()
	cluster.DeletePodNow(t, namespace, "pod")
	a.awaitVA(node, isBeingDeleted)
	a.awaitShown(node)
	sent := r.Seen(attachmentWrites)
	r.Restart(t, attachDetach, func() {})
	other := a.createNode(namespace + "-2")
	createUser(t, namespace, other, "next", "data")
	a.GoOn()
	a.awaitNoVA(node)
	a.awaitShown(other, "data")
	if n := r.Seen(attachmentWrites); n != sent+1 {
		t.Errorf("%d VolumeAttachments were created or deleted after the restart, want 1", n-sent)
	}
}

// A detach was not begun: the node could not be told. Another process does it.
//
// Pins ATT-39f, ATT-71, ATT-73.
func TestATakeoverInTheMiddleOfADetach(t *testing.T) {
	leader, a, namespace, node := attached(t)
	successor := cluster.Behind(t, only(attachDetach))
	writes := leader.HoldRequests(nodeWrites)
	sent := leader.Seen(nodeWrites)
	cluster.DeletePodNow(t, namespace, "pod")
	leader.Asked(t, nodeWrites, sent)
	a.awaitVA(node, isAttached)
	stopped := make(chan error, 1)
	go func() { stopped <- leader.Stop() }()
	a.awaitShown(node, "data")
	writes.Lift()
	must.Succeed(t, <-stopped)
	successor.Works(t)
	a.reports(node, corev1.ConditionTrue) // a kubelet reports now and then
	a.awaitNoVA(node)
	a.awaitShown(node)
}

// An attach has been asked for. Another process waits for it, and keeps what is attached.
//
// Pins ATT-71, ATT-73.
func TestATakeoverInTheMiddleOfAnAttach(t *testing.T) {
	leader, a, namespace, node := attached(t)
	successor := cluster.Behind(t, only(attachDetach))
	a.Stop()
	a.createVolume(namespace, "more", once)
	createUser(t, namespace, node, "second", "more")
	leader.Asked(t, attachmentWrites, 1)
	must.Succeed(t, leader.Stop())
	successor.Works(t)
	a.awaitShown(node, "data")
	a.GoOn()
	a.awaitShown(node, "data", "more")
	if n := successor.Seen(detaches); n > 0 {
		t.Errorf("%d volumes were detached", n)
	}
}

// A pod, its claim and its volume are created again under their names while the controller sees nothing of it.
//
// Pins ATT-35, ATT-44 and ATT-67.
func TestAPodIsCreatedAgainUnderItsName(t *testing.T) {
	r, a, namespace, node := attached(t)
	other := a.createNode(namespace + "-2")
	awaitReady(t, namespace, "pod")
	held := r.HoldEvents(podEvents)
	cluster.DeletePodNow(t, namespace, "pod")
	createUser(t, namespace, other, "pod", "data")
	held.Lift()
	a.awaitShown(other, "data")
	a.awaitNoVA(node)
	a.awaitShown(node)
}

// awaitReady waits until a pod is Ready whose node was created just before it. kwok can overlook such a pod while it
// begins to manage the node, and finds it when the pod changes.
func awaitReady(t *testing.T, namespace, name string) {
	t.Helper()
	changes := 0
	await.That(t, "the pod "+name+" is Ready", func(ctx context.Context) error {
		pod, err := admin.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil || harness.IsReady(pod) {
			return err
		}
		changes++
		cluster.PatchPod(t, namespace, name, fmt.Sprintf(`{"metadata":{"annotations":{"changes":"%d"}}}`, changes))
		return errors.New("it is not")
	})
}

// A node is out of service when the controller begins to force a detach, and then is back and uses the volume. The
// cache shows that late. Neither this instance of the controller nor the next one detaches the volume, nor does
// another process.
//
// Pins ATT-80, ATT-60 and ATT-71.
func TestANodeThatIsBackKeepsItsVolume(t *testing.T) {
	leader, a, namespace, node := attached(t)
	va := a.awaitVA(node, isAttached)
	a.reports(node, corev1.ConditionUnknown, "data")
	other := a.createNode(namespace + "-2")
	a.createVolume(namespace, "other", once)
	createUser(t, namespace, other, "seen", "other")
	a.awaitShown(other, "other") // so the report before it was seen
	cluster.DeletePodNow(t, namespace, "pod")
	reads := leader.HoldRequests(nodeReads)
	before := leader.Seen(nodeReads)
	shown := make(chan string, 100)
	observed := leader.DropEvents(nodeEvents, func(e faultproxy.Event) bool {
		shown <- e.ResourceVersion
		return false
	})
	a.taint(node, corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute})
	leader.Asked(t, nodeReads, before)
	written := must.Get(admin.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{}))(t)
	for <-shown != written.ResourceVersion { // the next instance waits for what this one has written
	}
	events := leader.HoldEvents(nodeEvents)
	observed.Lift()
	a.taint(node)
	a.reports(node, corev1.ConditionTrue, "data")
	reads.Lift()
	leader.Asked(t, nodeReads, before+1) // the first answer has had its effect
	leader.Restart(t, attachDetach, func() {})
	leader.Asked(t, nodeReads, leader.Seen(nodeReads)+1)
	successor := cluster.Behind(t, only(attachDetach)) // sooner, it would have the lease while the leader runs nothing
	must.Succeed(t, leader.Stop())
	successor.Works(t)
	a.createVolume(namespace, "more", once)
	createUser(t, namespace, node, "second", "more")
	a.awaitShown(node, "more")
	if n := leader.Seen(detaches) + successor.Seen(detaches); n > 0 {
		t.Errorf("%d volumes were detached", n)
	}
	if live := must.Get(admin.StorageV1().VolumeAttachments().Get(t.Context(), va.Name, metav1.GetOptions{}))(t); live.UID != va.UID {
		t.Errorf("the VolumeAttachment is %s, want %s", live.UID, va.UID)
	}
	events.Lift()
	a.reports(node, corev1.ConditionTrue, "more")
	a.awaitShown(node, "more")
}

// A detach has been forced, and the attacher has not completed it. Neither a restart nor a takeover attaches the
// volume elsewhere before that.
//
// Pins ATT-60, ATT-73 and ATT-80.
func TestAForcedDetachIsCompletedByOthers(t *testing.T) {
	leader, a, namespace, node := attached(t)
	a.reports(node, corev1.ConditionUnknown, "data")
	cluster.DeletePodNow(t, namespace, "pod")
	writes := leader.HoldRequests(detaches)
	a.taint(node, corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute})
	leader.Asked(t, detaches, 0)
	a.Stop() // what is deleted from here on stays until the attacher goes on
	writes.Lift()
	a.awaitVA(node, isBeingDeleted)
	leader.Restart(t, attachDetach, func() {})
	other := a.createNode(namespace + "-2")
	createUser(t, namespace, other, "next", "data")
	successor := cluster.Behind(t, only(attachDetach))
	must.Succeed(t, leader.Stop())
	successor.Works(t)
	a.awaitShown(node)
	a.awaitNoVA(other)
	a.GoOn()
	a.awaitNoVA(node)
	a.awaitShown(other, "data")
}
