package resourcepoolstatusrequest

import (
	"context"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// answer returns the status for a request, nil while it has to wait.
func (c *statusController) answer(ctx context.Context, request *statusRequest) (*requestStatus, error) {
	now := metav1.NewTime(c.Clock.Now())
	driver, name := request.Spec.Driver, ptr.Deref(request.Spec.PoolName, "")
	key := index.Driver(driver)
	if name != "" {
		key = index.Pool(driver, name)
	}
	slices, err := index.Append[*resourcev1.ResourceSlice](nil, c.slices, index.SlicesByPool, key)
	if err != nil {
		return failed("Failed to list ResourceSlices: "+err.Error(), now), nil
	}
	pools := poolsOf(slices)
	if len(pools) == 0 {
		if none, err := c.confirmNone(ctx, request, driver, name); !none || err != nil {
			return nil, err
		}
	}
	count := len(pools)
	pools = pools[:min(count, int(ptr.Deref(request.Spec.Limit, resourcev1alpha3.ResourcePoolStatusRequestLimitDefault)))]
	statuses := make([]resourcev1alpha3.PoolStatus, 0, len(pools))
	for _, p := range pools {
		allocated, err := c.allocated(driver, p.name)
		if err != nil {
			return failed("Failed to list ResourceClaims: "+err.Error(), now), nil
		}
		status := p.status(driver, allocated)
		if status.ValidationError != nil {
			klog.FromContext(ctx).V(2).Info("Request waits for slices",
				"request", request.Name, "cause", *status.ValidationError)
			return nil, nil
		}
		statuses = append(statuses, status)
	}
	return calculated(count, statuses, now), nil
}

// confirmNone reports whether there is no pool that a request asks for. No version of the cache proves it: versions of
// slices and of requests cannot be compared. A pool that the cache does not show yet answers the request when it does.
func (c *statusController) confirmNone(ctx context.Context, request *statusRequest, driver, name string) (bool, error) {
	list, err := c.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(resourcev1.ResourceSliceSelectorDriver, driver).String(),
	})
	if err != nil {
		return false, fmt.Errorf("listing the ResourceSlices of driver %s: %w", driver, err)
	}
	for i := range list.Items {
		if name == "" || list.Items[i].Spec.Pool.Name == name {
			c.queue.AddAfter(request.Name, reconcile.RecheckAfter)
			return false, nil
		}
	}
	return true, nil
}

// calculated is the answer to a request that count pools match, of which these are returned.
func calculated(count int, pools []resourcev1alpha3.PoolStatus, now metav1.Time) *requestStatus {
	return &requestStatus{
		PoolCount: ptr.To(int32(count)), //nolint:gosec // not that many fit into memory
		Pools:     pools,
		Conditions: []metav1.Condition{{
			Type:               resourcev1alpha3.ResourcePoolStatusRequestConditionComplete,
			Status:             metav1.ConditionTrue,
			LastTransitionTime: now,
			Reason:             "CalculationComplete",
			Message:            fmt.Sprintf("Calculated status for %d pools", len(pools)),
		}},
	}
}

// failed is the answer to a request for which nothing can be calculated.
func failed(message string, now metav1.Time) *requestStatus {
	return &requestStatus{
		PoolCount: ptr.To[int32](0),
		Conditions: []metav1.Condition{{
			Type:               resourcev1alpha3.ResourcePoolStatusRequestConditionFailed,
			Status:             metav1.ConditionTrue,
			LastTransitionTime: now,
			Reason:             "CalculationFailed",
			Message:            message,
		}},
	}
}
