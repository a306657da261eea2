package endpointslicemirroring

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/services/slicewrites"
)

// begin takes over the writes of the predecessor that the caches do not show.
func (c *mirroringController) begin(context.Context) error {
	unseen, _ := controller.TakeOver(c.Env, c) // nothing if there is no predecessor
	return c.written.Expect(unseen, c.slices)
}

// HandOver implements controller.HandsOver.
func (c *mirroringController) HandOver() slicewrites.Unseen {
	unseen, err := c.unseen()
	if err != nil {
		klog.Background().Error(err, "handing over without the unseen writes to EndpointSlices")
	}
	return unseen
}

// unseen collects the writes that the caches do not show. Those for Endpoints that are gone
// were forgotten with them.
func (c *mirroringController) unseen() (slicewrites.Unseen, error) {
	endpoints, err := c.endpoints.List(labels.Everything())
	if err != nil {
		return slicewrites.Unseen{}, fmt.Errorf("listing Endpoints: %w", err)
	}
	names := make([]types.NamespacedName, len(endpoints))
	for i, e := range endpoints {
		names[i] = types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
	}
	return c.written.Unseen(names, c.slices)
}
