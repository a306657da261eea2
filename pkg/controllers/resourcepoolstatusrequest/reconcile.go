package resourcepoolstatusrequest

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// reconcile answers a request, unless it has been answered, which the cache may not show yet.
func (c *statusController) reconcile(ctx context.Context, name string) error {
	began := c.Clock.Now()
	request, err := writes.Read(c.written, func() (*statusRequest, error) { return c.requests.Get(name) })
	var stale *writes.StaleError
	if errors.As(err, &stale) {
		return nil
	}
	request, found, err := reconcile.Found(request, err)
	if !found || request.Status != nil {
		return err
	}
	status, err := c.answer(ctx, request)
	if status == nil {
		return err
	}
	err = c.write(ctx, request, status)
	c.metrics.attempted(request.Spec.Driver, c.Clock.Since(began), err)
	return err
}

func (c *statusController) write(ctx context.Context, request *statusRequest, status *requestStatus) error {
	answered := request.DeepCopy()
	answered.Status = status
	client := c.Client.ResourceV1alpha3().ResourcePoolStatusRequests()
	written, err := client.UpdateStatus(ctx, answered, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("updating the status of ResourcePoolStatusRequest %s: %w", request.Name, err)
	}
	c.written.Wrote(request, resource.GroupResource(), written.ResourceVersion)
	return nil
}
