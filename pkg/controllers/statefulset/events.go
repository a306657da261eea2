package statefulset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// verb is what was done to a pod, as in reasons and messages of events.
type verb string

const (
	verbCreate verb = "Create"
	verbUpdate verb = "Update"
	verbDelete verb = "Delete"
)

// podEvent tells the set what became of doing something to a pod. Nothing is told about
// a request that was cut off because the instance ends.
func (c *statefulSetController) podEvent(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod, v verb, err error) {
	switch {
	case err == nil:
		c.events.Eventf(set, corev1.EventTypeNormal, "Successful"+string(v), "%s Pod %s in StatefulSet %s successful", v, pod.Name, set.Name)
	case ctx.Err() == nil:
		c.events.Eventf(set, corev1.EventTypeWarning, "Failed"+string(v), "%s Pod %s in StatefulSet %s failed error: %v", v, pod.Name, set.Name, err)
	}
}

// claimEvent tells the set what became of creating a claim.
func (c *statefulSetController) claimEvent(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, err error) {
	switch {
	case err == nil:
		c.events.Eventf(set, corev1.EventTypeNormal, "SuccessfulCreate", "%s Claim %s Pod %s in StatefulSet %s success", verbCreate, claim.Name, pod.Name, set.Name)
	case ctx.Err() == nil:
		c.events.Eventf(set, corev1.EventTypeWarning, "FailedCreate", "%s Claim %s for Pod %s in StatefulSet %s failed error: %v", verbCreate, claim.Name, pod.Name, set.Name, err)
	}
}

// conflictEvent tells the set that something else controls a claim. The message is the
// one that users know.
func (c *statefulSetController) conflictEvent(ctx context.Context, set *appsv1.StatefulSet, claim *corev1.PersistentVolumeClaim) {
	if ctx.Err() != nil {
		return
	}
	c.events.Eventf(set, corev1.EventTypeWarning, "ConflictingController",
		"PersistentVolumeClaim %s has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim", claim.Name)
}
