package operations

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics/testutil"

	"kcmd.dev/test/controllertest"
)

// The driver of a FlexVolume may have bytes that are no UTF-8.
//
// Pins PVX-22 and PVX-42.
func TestMetrics(t *testing.T) {
	env := controllertest.New(t)
	m := New(env.Metrics)
	m.Observe(Operation{Plugin: "a", Name: "expand_volume"}, 3*time.Second, nil)
	m.Observe(Operation{Plugin: "b\xff", Name: "expand_volume", Migrated: true}, time.Hour, errors.New("boom"))
	var want strings.Builder
	want.WriteString("# HELP storage_operation_duration_seconds [ALPHA] Storage operation duration\n# TYPE storage_operation_duration_seconds histogram\n")
	for _, series := range []struct {
		labels, sum string
		buckets     [14]int
	}{
		{`migrated="false",operation_name="expand_volume",status="success",volume_plugin="a"`, "3", [14]int{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		{`migrated="true",operation_name="expand_volume",status="fail-unknown",volume_plugin="b` + "\uFFFD" + `"`, "3600", [14]int{13: 1}},
	} {
		for i, bound := range []string{"0.1", "0.25", "0.5", "1", "2.5", "5", "10", "15", "25", "50", "120", "300", "600", "+Inf"} {
			want.WriteString("storage_operation_duration_seconds_bucket{" + series.labels + `,le="` + bound + `"} ` + string(rune('0'+series.buckets[i])) + "\n")
		}
		want.WriteString("storage_operation_duration_seconds_sum{" + series.labels + "} " + series.sum + "\n")
		want.WriteString("storage_operation_duration_seconds_count{" + series.labels + "} 1\n")
	}
	if err := testutil.GatherAndCompare(env.Metrics, strings.NewReader(want.String()), "storage_operation_duration_seconds"); err != nil {
		t.Error(err)
	}
}
