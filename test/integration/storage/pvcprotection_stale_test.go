package storage

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

func claimProtection(c *manager.Config) **bool {
	return &c.Controllers.PersistentVolumeClaimProtection.Enabled
}

var (
	podEvents   = faultproxy.Requests{Resource: corev1.Resource("pods"), Verbs: []string{"watch"}}
	claimEvents = faultproxy.Requests{Resource: corev1.Resource("persistentvolumeclaims"), Verbs: []string{"watch"}}
	claimWrites = faultproxy.Requests{Resource: corev1.Resource("persistentvolumeclaims"), Verbs: []string{"update"}}
)

// podLists are the questions of the controller. What fills the cache is no list of a namespace.
func podLists(namespace string) faultproxy.Requests {
	return faultproxy.Requests{Resource: corev1.Resource("pods"), Verbs: []string{"list"}, Namespace: namespace}
}

// A pod is not in the cache while it lives, and is never seen after that. Nor does it help to start
// the controller again.
//
// Pins PVCP-28, PVCP-40 and PVCP-46.
func TestAPodThatTheCacheDoesNotShowHoldsItsClaim(t *testing.T) {
	rest(t)
	namespace := cluster.Namespace(t)
	r := cluster.Behind(t, only(claimProtection))
	r.Works(t)
	createClaim(t, namespace, "claim")
	held := r.HoldEvents(podEvents)
	createPod(t, namespace, "user", using("claim"))
	deleteClaim(t, namespace, "claim")
	r.Asked(t, podLists(namespace), 1) // twice: the first answer has had its effect
	isHeld(t, namespace, "claim")

	r.Restart(t, claimProtection, func() { isHeld(t, namespace, "claim") })
	r.Asked(t, podLists(namespace), r.Seen(podLists(namespace))+1)
	isHeld(t, namespace, "claim")

	cluster.DeletePodNow(t, namespace, "user")
	awaitClaimGone(t, namespace, "claim")
	held.Lift()
}

// The write that releases a claim is on its way while the claim goes, and another one of its name is
// created and used. The controller is started again meanwhile.
//
// Pins PVCP-34 and PVCP-41.
func TestAnotherClaimOfTheNameIsNotReleased(t *testing.T) {
	rest(t)
	namespace := cluster.Namespace(t)
	r := cluster.Behind(t, only(claimProtection))
	r.Works(t)
	first := createClaim(t, namespace, "claim")
	writes := r.HoldRequests(claimWrites)
	deleteClaim(t, namespace, "claim")
	r.Asked(t, claimWrites, 0)
	second := replaceClaim(t, namespace)
	createPod(t, namespace, "user", using("claim"))
	deleteClaim(t, namespace, "claim")
	writes.Lift()
	r.Restart(t, claimProtection, func() {})

	createClaim(t, namespace, "later")
	deleteClaim(t, namespace, "later")
	awaitClaimGone(t, namespace, "later")
	isHeld(t, namespace, "claim")
	if got := getClaim(t, namespace, "claim").UID; got != second.UID || got == first.UID {
		t.Errorf("the claim is %s, want %s", got, second.UID)
	}
	cluster.DeletePodNow(t, namespace, "user")
	awaitClaimGone(t, namespace, "claim")
}

// The controller sees neither that a claim is gone, nor the one that has its name now.
//
// Pins PVCP-34.
func TestAClaimThatTheCacheDoesNotShowIsNotReleased(t *testing.T) {
	rest(t)
	namespace := cluster.Namespace(t)
	r := cluster.Behind(t, only(claimProtection))
	r.Works(t)
	createClaim(t, namespace, "claim")
	createPod(t, namespace, "first", using("claim"))
	deleteClaim(t, namespace, "claim")
	createClaim(t, namespace, "seen")
	deleteClaim(t, namespace, "seen")
	awaitClaimGone(t, namespace, "seen") // so the deletion before it was seen as well

	held := r.HoldEvents(claimEvents)
	second := replaceClaim(t, namespace)
	sent := r.Seen(claimWrites)
	cluster.DeletePodNow(t, namespace, "first") // the first claim, as cached, can go
	r.Asked(t, claimWrites, sent)
	r.Asked(t, claimWrites, sent+1) // the first answer has had its effect
	if claim := getClaim(t, namespace, "claim"); claim.UID != second.UID || !slices.Contains(claim.Finalizers, claimFinalizer) {
		t.Errorf("claim %s has finalizers %q", claim.UID, claim.Finalizers)
	}
	held.Lift()
}

// replaceClaim ends a claim and creates another one of its name.
func replaceClaim(t *testing.T, namespace string) *corev1.PersistentVolumeClaim {
	t.Helper()
	end(t, admin.CoreV1().PersistentVolumeClaims(namespace), "claim")
	awaitClaimGone(t, namespace, "claim")
	return createClaim(t, namespace, "claim")
}

// A leader that does not see the pod stops while it has asked and before it has an answer. Its
// successor sees the claim late.
//
// Pins PVCP-28 and PVCP-40.
func TestASuccessorAsksAgain(t *testing.T) {
	rest(t)
	namespace := cluster.Namespace(t)
	leader := cluster.Behind(t, only(claimProtection))
	leader.Works(t)
	successor := cluster.Behind(t, only(claimProtection))
	createClaim(t, namespace, "claim")
	createClaim(t, namespace, "unused")
	leader.HoldEvents(podEvents)
	lists := leader.HoldRequests(podLists(namespace))
	createPod(t, namespace, "user", using("claim"))
	deleteClaim(t, namespace, "claim")
	leader.Asked(t, podLists(namespace), 0)
	stopped := make(chan error, 1)
	go func() { stopped <- leader.Stop() }()
	lists.Lift()
	must.Succeed(t, <-stopped)
	isHeld(t, namespace, "claim")

	successor.Works(t)
	late := successor.HoldEvents(podEvents)
	deleteClaim(t, namespace, "unused")
	awaitClaimGone(t, namespace, "unused")
	isHeld(t, namespace, "claim")
	cluster.DeletePodNow(t, namespace, "user")
	late.Lift()
	awaitClaimGone(t, namespace, "claim")
}
