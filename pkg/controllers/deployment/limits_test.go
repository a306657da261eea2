package deployment

import (
	"math"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Pins WL-80.
func TestFenceposts(t *testing.T) {
	value := func(s string) *intstr.IntOrString {
		if s == "" {
			return nil
		}
		return ptr.To(intstr.Parse(s))
	}
	for _, tc := range []struct {
		name               string
		surge, unavailable string
		desired            int32
		wantUp, wantDown   int32
		wantErr            bool
	}{
		{"percentages round up for surge, down for unavailable", "25%", "25%", 10, 3, 2, false},
		{"numbers are taken as they are", "3", "4", 10, 3, 4, false},
		{"nil is 0, and both 0 allow one unavailable", "", "", 10, 0, 1, false},
		{"both 0 allow one unavailable", "0", "0%", 10, 0, 1, false},
		{"both 0 by rounding allow one unavailable", "0%", "25%", 3, 0, 1, false},
		{"surge alone is enough", "1", "0", 10, 1, 0, false},
		{"a rounded surge is enough", "1%", "0", 1, 1, 0, false},
		{"nothing desired still allows one", "25%", "25%", 0, 0, 1, false},
		{"a bad surge is an error", "x", "1", 10, 0, 0, true},
		{"a bad unavailable is an error", "1", "x", 10, 0, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			up, down, err := fenceposts(value(tc.surge), value(tc.unavailable), tc.desired)
			if up != tc.wantUp || down != tc.wantDown || (err != nil) != tc.wantErr {
				t.Errorf("fenceposts() = %d, %d, %v, want %d, %d, error %t", up, down, err, tc.wantUp, tc.wantDown, tc.wantErr)
			}
		})
	}
}

// Pins WL-80.
func TestLimitsOfADeployment(t *testing.T) {
	for _, tc := range []struct {
		name            string
		d               *appsv1.Deployment
		wantUnavailable int32
		wantMax         int64
	}{
		{"rolling update", makeDeployment(10), 2, 13},
		{"unavailable is capped at the replicas", makeDeployment(3, rolling("1", "5")), 3, 4},
		{"no replicas, nothing unavailable", makeDeployment(0, rolling("1", "1")), 0, 1},
		{"both zero", makeDeployment(10, rolling("0", "0")), 1, 10},
		{"recreate has none", makeDeployment(10, recreating), 0, 10},
		{"unparsable limits are 0", makeDeployment(10, rolling("x", "5")), 0, 10},
		{"no rolling update parameters", makeDeployment(10, func(d *appsv1.Deployment) { d.Spec.Strategy.RollingUpdate = nil }), 1, 10},
		{"sums beyond 32 bits", makeDeployment(math.MaxInt32, rolling("100%", "0")), 0, 2 * math.MaxInt32},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := maxUnavailable(tc.d); got != tc.wantUnavailable {
				t.Errorf("maxUnavailable() = %d, want %d", got, tc.wantUnavailable)
			}
			if got := minAvailable(tc.d); got != replicasOf(tc.d)-tc.wantUnavailable {
				t.Errorf("minAvailable() = %d", got)
			}
			if got := maxReplicas(tc.d); got != tc.wantMax {
				t.Errorf("maxReplicas() = %d, want %d", got, tc.wantMax)
			}
		})
	}
}

// Pins DEP-11.
func TestDeadlineOfMaxIntIsNone(t *testing.T) {
	for deadline, want := range map[*int32]bool{
		nil:                          false,
		ptr.To[int32](math.MaxInt32): false,
		ptr.To[int32](600):           true,
	} {
		d := makeDeployment(1, func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = deadline })
		if got := hasDeadline(d); got != want {
			t.Errorf("hasDeadline(%v) = %t, want %t", ptr.Deref(deadline, -1), got, want)
		}
	}
}
