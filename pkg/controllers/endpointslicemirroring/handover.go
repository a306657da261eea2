package endpointslicemirroring

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/slicewrites"
)

// inherit takes over the writes of the predecessor that the caches do not show.
func (c *mirroringController) inherit() error {
	unseen, ok := c.predecessor().(slicewrites.Unseen)
	if !ok {
		return nil
	}
	return c.written.Expect(unseen, c.slices)
}

// HandOver implements controller.HandsOver.
func (c *mirroringController) HandOver() any {
	if !c.began {
		return c.predecessor() // Run ended before it began.
	}
	unseen, err := c.unseen()
	if err != nil {
		klog.Background().Error(err, "handing over without the unseen writes to EndpointSlices")
		return nil
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
