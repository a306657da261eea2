package resourcequota

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	countClaims = "count/resourceclaims.resource.k8s.io"
	// devicesOfClass follows a device class in the name that limits its devices.
	devicesOfClass = ".deviceclass.resource.k8s.io/devices"
)

// limitsDeviceClaim reports whether a quota of that name limits ResourceClaims, other than by an
// extended resource.
func limitsDeviceClaim(name corev1.ResourceName) bool {
	return name == countClaims || strings.HasSuffix(string(name), devicesOfClass)
}

// devicesByClass returns how many devices of each class a claim may be allocated. Requests can add up to more than an
// integer holds: the API limits no count.
func devicesByClass(claim *resourcev1.ResourceClaim) map[string]resource.Quantity {
	devices := map[string]resource.Quantity{}
	add := func(class string, count int64) {
		sum := devices[class]
		sum.Add(number(count))
		devices[class] = sum
	}
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if exact := request.Exactly; exact != nil {
			add(exact.DeviceClassName, deviceCount(exact.AllocationMode, exact.Count))
			continue
		}
		// Only one of the alternatives will be allocated. Each class is charged the most that any
		// of them may use of it.
		most := map[string]int64{}
		for _, alternative := range request.FirstAvailable {
			class := alternative.DeviceClassName
			most[class] = max(most[class], deviceCount(alternative.AllocationMode, alternative.Count))
		}
		for class, count := range most {
			add(class, count)
		}
	}
	return devices
}

func deviceCount(mode resourcev1.DeviceAllocationMode, count int64) int64 {
	switch mode {
	case resourcev1.DeviceAllocationModeExactCount:
		return count
	case resourcev1.DeviceAllocationModeAll:
		return resourcev1.AllocationResultsMaxSize
	}
	return 0
}

// deviceClaimUsage returns what a claim for some devices uses.
func deviceClaimUsage(devices map[string]resource.Quantity) corev1.ResourceList {
	used := corev1.ResourceList{countClaims: one}
	for class, count := range devices {
		used[corev1.ResourceName(class+devicesOfClass)] = count
	}
	return used
}
