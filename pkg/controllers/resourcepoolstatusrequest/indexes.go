package resourcepoolstatusrequest

import (
	resourcev1 "k8s.io/api/resource/v1"

	"kcmd.dev/pkg/controllers/kit/index"
)

// pendingIndex indexes requests without an answer by driver.
const pendingIndex = "pendingByDriver"

func pendingKeys(obj any) ([]string, error) {
	request, ok := obj.(*statusRequest)
	if !ok || request.Status != nil {
		return nil, nil
	}
	return []string{request.Spec.Driver}, nil
}

// allocated returns the number of devices of a pool that are allocated, counting one as often as
// it is.
func (c *statusController) allocated(driver, pool string) (int32, error) {
	claims, err := index.Append[*resourcev1.ResourceClaim](nil, c.claims, index.ClaimsByDevice, index.Pool(driver, pool))
	if err != nil {
		return 0, err
	}
	var count int32
	for _, claim := range claims {
		for i := range claim.Status.Allocation.Devices.Results {
			if result := &claim.Status.Allocation.Devices.Results[i]; result.Driver == driver && result.Pool == pool {
				count++
			}
		}
	}
	return count, nil
}
