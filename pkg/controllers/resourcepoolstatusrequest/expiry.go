package resourcepoolstatusrequest

import (
	"context"
	"fmt"
	"time"

	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
)

const (
	// passPeriod is the time between the end of a pass and the next one.
	passPeriod = 10 * time.Minute
	// answeredKept is how long a request is kept that has been answered.
	answeredKept = time.Hour
	// pendingKept is how long a request is kept that has not been answered.
	pendingKept = 24 * time.Hour
)

// pass finds and deletes requests once. No further one is started once ctx has ended; API
// requests use the context working.
func (c *statusController) pass(ctx, working context.Context) {
	logger := klog.FromContext(ctx)
	all, err := c.requests.List(labels.Everything())
	if err != nil {
		logger.Error(err, "Unable to list ResourcePoolStatusRequests")
		return
	}
	for _, request := range all {
		if ctx.Err() != nil {
			return
		}
		if !isExpired(request, c.Clock.Now()) {
			continue
		}
		if err := c.delete(working, request); err != nil {
			logger.Error(err, "Expired ResourcePoolStatusRequest was not deleted", "request", request.Name)
		}
	}
}

// isExpired reports whether a request is to be deleted. One whose time is not known stays.
func isExpired(request *statusRequest, now time.Time) bool {
	since, kept := request.CreationTimestamp, pendingKept
	if request.Status != nil {
		since, kept = answeredAt(request), answeredKept
	}
	return !since.IsZero() && now.Sub(since.Time) > kept
}

// answeredAt returns when a request was answered, or created, if its status does not say it.
func answeredAt(request *statusRequest) metav1.Time {
	for i := range request.Status.Conditions {
		switch condition := &request.Status.Conditions[i]; condition.Type {
		case resourcev1alpha3.ResourcePoolStatusRequestConditionComplete,
			resourcev1alpha3.ResourcePoolStatusRequestConditionFailed:
			return condition.LastTransitionTime
		}
	}
	return request.CreationTimestamp
}

// delete deletes a request. One without an answer must not have changed: it may have been answered just now, which the
// cache does not show yet.
func (c *statusController) delete(ctx context.Context, request *statusRequest) error {
	preconditions := &metav1.Preconditions{UID: &request.UID}
	if request.Status == nil {
		preconditions.ResourceVersion = &request.ResourceVersion
	}
	options := metav1.DeleteOptions{Preconditions: preconditions}
	err := c.Client.ResourceV1alpha3().ResourcePoolStatusRequests().Delete(ctx, request.Name, options)
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("deleting ResourcePoolStatusRequest %s: %w", request.Name, err)
}
