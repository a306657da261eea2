package resourceclaim

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controller"
)

// consumer is somebody for whom a claim is reserved.
type consumer = resourcev1.ResourceClaimConsumerReference

func isPodConsumer(c consumer) bool { return c.APIGroup == corev1.GroupName && c.Resource == "pods" }

func isGroupConsumer(c consumer) bool {
	return c.APIGroup == schedulingv1alpha2.GroupName && c.Resource == "podgroups"
}

func podConsumer(ref *metav1.OwnerReference) consumer {
	return consumer{Resource: "pods", Name: ref.Name, UID: ref.UID}
}

// consumersOf returns those consumers of a claim that may still use it, and whether the end of one of them may cause no
// event.
func (c *claimController) consumersOf(ctx context.Context, claim *resourcev1.ResourceClaim) (remaining []consumer, unseen bool, err error) {
	for _, consumer := range claim.Status.ReservedFor {
		state := c.cachedState(claim.Namespace, consumer)
		if state == unknown {
			exists, err := c.existsLive(ctx, claim.Namespace, consumer)
			if err != nil {
				return nil, false, err
			}
			if !exists {
				continue
			}
			unseen = true
		}
		if state == alive && claim.DeletionTimestamp != nil && c.mayEndUnnoticed(claim.Namespace, consumer) {
			unseen = true
		}
		if state != ended {
			remaining = append(remaining, consumer)
		}
	}
	return remaining, unseen, nil
}

// state is what is known about a consumer without a request.
type state int

const (
	unknown state = iota
	alive
	ended
)

// cachedState returns what the cache proves about a consumer. A consumer that it does not show, or
// under another UID, may be newer than the cache.
func (c *claimController) cachedState(namespace string, of consumer) state {
	switch {
	case isPodConsumer(of):
		pod, err := c.pods.Pods(namespace).Get(of.Name)
		if err != nil || pod.UID != of.UID {
			return c.unlessGone(of)
		}
		if isDone(pod) {
			return ended
		}
	case isGroupConsumer(of) && c.podGroups:
		group, err := c.groups.PodGroups(namespace).Get(of.Name)
		if err != nil || group.UID != of.UID {
			return c.unlessGone(of)
		}
	}
	return alive // or of a kind that is none of our business
}

// mayEndUnnoticed reports whether the cache shows a pod that uses no claims by what is known of it: the scheduler reserves
// a claim of extended resources before it records that in the pod. If that update is not seen, the deletion is no event
// for this controller.
func (c *claimController) mayEndUnnoticed(namespace string, of consumer) bool {
	if !isPodConsumer(of) {
		return false
	}
	pod, err := c.pods.Pods(namespace).Get(of.Name)
	return err == nil && !usesClaims(pod)
}

func (c *claimController) unlessGone(of consumer) state {
	if c.memory.isGone(of.UID) {
		return ended
	}
	return unknown
}

// existsLive asks the API server whether a pod or a PodGroup exists. That it does not is remembered.
func (c *claimController) existsLive(ctx context.Context, namespace string, of consumer) (bool, error) {
	if c.memory.isGone(of.UID) {
		return false, nil
	}
	var object metav1.Object
	var err error
	if isPodConsumer(of) {
		object, err = c.Client.CoreV1().Pods(namespace).Get(ctx, of.Name, metav1.GetOptions{})
	} else {
		object, err = c.Client.SchedulingV1alpha2().PodGroups(namespace).Get(ctx, of.Name, metav1.GetOptions{})
	}
	if err != nil && !controller.Absent(err) {
		return false, fmt.Errorf("getting the consumer %s %s/%s: %w", of.Resource, namespace, of.Name, err)
	}
	if err != nil || object.GetUID() != of.UID {
		c.memory.ownerGone(identity(namespace, of.UID))
		return false, nil
	}
	return true, nil
}
