package deployment

import (
	"math"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// fenceposts resolves how many pods a rolling update may have above and below the desired
// number. Percentages of surge are rounded up, of unavailable down; nil is 0. If both are 0 an
// update could not proceed, so unavailable is then 1.
func fenceposts(surge, unavailable *intstr.IntOrString, desired int32) (int32, int32, error) {
	above, err := scaled(surge, desired, true)
	if err != nil {
		return 0, 0, err
	}
	below, err := scaled(unavailable, desired, false)
	if err != nil {
		return 0, 0, err
	}
	if above == 0 && below == 0 {
		below = 1
	}
	return above, below, nil
}

func scaled(value *intstr.IntOrString, of int32, roundUp bool) (int32, error) {
	n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(value, intstr.FromInt32(0)), int(of), roundUp)
	return int32(min(n, math.MaxInt32)), err
}

// limits returns the fenceposts of a Deployment; 0 and 0 if it does not use rolling updates or
// if they cannot be parsed.
func limits(d *appsv1.Deployment) (surge, unavailable int32) {
	if !isRollingUpdate(d) {
		return 0, 0
	}
	rolling := ptr.Deref(d.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
	surge, unavailable, err := fenceposts(rolling.MaxSurge, rolling.MaxUnavailable, replicasOf(d))
	if err != nil {
		return 0, 0
	}
	return surge, unavailable
}

// maxUnavailable returns how many of the desired pods may be unavailable.
func maxUnavailable(d *appsv1.Deployment) int32 {
	_, unavailable := limits(d)
	return min(unavailable, replicasOf(d))
}

// minAvailable returns the number of pods that an update has to keep available.
func minAvailable(d *appsv1.Deployment) int32 { return replicasOf(d) - maxUnavailable(d) }

// maxReplicas returns the number of pods that a Deployment may have during an update. The sum
// of two int32 may overflow an int32.
func maxReplicas(d *appsv1.Deployment) int64 {
	surge, _ := limits(d)
	return int64(replicasOf(d)) + int64(surge)
}

func isRollingUpdate(d *appsv1.Deployment) bool {
	return d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType
}

func isRecreate(d *appsv1.Deployment) bool {
	return d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
}

// hasDeadline reports whether a Deployment reports progress.
func hasDeadline(d *appsv1.Deployment) bool {
	return ptr.Deref(d.Spec.ProgressDeadlineSeconds, math.MaxInt32) != math.MaxInt32
}

// replicasOf returns the desired number of pods of a Deployment, which the API defaults to 1.
func replicasOf(d *appsv1.Deployment) int32 { return ptr.Deref(d.Spec.Replicas, 1) }

// sizeOf returns the desired number of pods of a ReplicaSet, which the API defaults to 1.
func sizeOf(rs *appsv1.ReplicaSet) int32 { return ptr.Deref(rs.Spec.Replicas, 1) }
