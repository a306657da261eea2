package devicetainteviction

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// taintedIndex indexes slices with taints that evict pods, by index.Pool.
const taintedIndex = "evictingPool"

func taintedKeys(obj any) ([]string, error) {
	slice, ok := obj.(*resourcev1.ResourceSlice)
	if !ok || !hasEvicting(slice) {
		return nil, nil
	}
	return []string{index.Pool(slice.Spec.Driver, slice.Spec.Pool.Name)}, nil
}

func poolOf(slice *resourcev1.ResourceSlice) poolKey {
	return poolKey{slice.Spec.Driver, slice.Spec.Pool.Name}
}

// claimsBy returns the claims with a key in index.ClaimsByDevice.
func (c *evictionController) claimsBy(key string) []*resourcev1.ResourceClaim {
	claims, err := index.Append[*resourcev1.ResourceClaim](nil, c.using, index.ClaimsByDevice, key)
	if err != nil {
		return nil // without the index the controller was not built
	}
	return claims
}

// selectedBy returns the claims with allocated devices that a rule selects. The result may contain other
// claims. It lists all claims only if the rule does not name a driver.
func (c *evictionController) selectedBy(rule *resourcev1beta2.DeviceTaintRule) []*resourcev1.ResourceClaim {
	if rule.Spec.DeviceSelector == nil {
		return nil
	}
	if key := selectedKey(rule); key != "" {
		return c.claimsBy(key)
	}
	return all[*resourcev1.ResourceClaim](c.using)
}

// selectedKey returns the narrowest index key for the selector of a rule, or "" if it names no driver.
func selectedKey(rule *resourcev1beta2.DeviceTaintRule) string {
	s := rule.Spec.DeviceSelector
	switch {
	case s.Driver == nil:
		return ""
	case s.Pool == nil:
		return index.Driver(*s.Driver)
	case s.Device == nil:
		return index.Pool(*s.Driver, *s.Pool)
	default:
		return index.Device(*s.Driver, *s.Pool, *s.Device)
	}
}

// slicesOf returns the slices with devices that a rule selects. The result may contain other slices.
func (c *evictionController) slicesOf(rule *resourcev1beta2.DeviceTaintRule) ([]*resourcev1.ResourceSlice, error) {
	s := rule.Spec.DeviceSelector
	switch {
	case s == nil:
		return nil, nil
	case s.Driver == nil:
		return all[*resourcev1.ResourceSlice](c.slices), nil
	case s.Pool == nil:
		return index.Append[*resourcev1.ResourceSlice](nil, c.slices, index.SlicesByPool, index.Driver(*s.Driver))
	default:
		return index.Append[*resourcev1.ResourceSlice](nil, c.slices, index.SlicesByPool, index.Pool(*s.Driver, *s.Pool))
	}
}

// all returns the objects of a cache.
func all[T any](in cache.Indexer) []T {
	var found []T
	for _, obj := range in.List() {
		if typed, ok := obj.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// usersOf calls user with the key of each pod that is one of the consumers of a claim, or that belongs to
// a PodGroup that is one.
func (c *evictionController) usersOf(
	namespace string, consumers []resourcev1.ResourceClaimConsumerReference, user func(types.NamespacedName),
) {
	for i := range consumers {
		consumer := &consumers[i]
		key := types.NamespacedName{Namespace: namespace, Name: consumer.Name}
		switch {
		case consumer.APIGroup == "" && consumer.Resource == "pods":
			user(key)
		case c.podGroups && consumer.APIGroup == schedulingv1alpha2.GroupName && consumer.Resource == "podgroups":
			pods, err := index.Append[*corev1.Pod](nil, c.inGroup, index.PodsByGroup, key.String())
			if err != nil {
				return // without the index the controller was not built
			}
			for _, pod := range pods {
				user(reconcile.KeyOf(pod))
			}
		}
	}
}
