package faults

import (
	"slices"
	"strings"
	"testing"

	"kcmd.dev/test/must"
)

func TestSeriesThatHaveMeasuredAreCompared(t *testing.T) {
	t.Parallel()
	public := func(text string) string { return strings.ReplaceAll(text, "web-x7k2p", "web-*") }
	read := func(lines ...string) series {
		return must.Get(seriesOf([]byte(strings.Join(lines, "\n")+"\n"), public))(t)
	}
	want := read(
		"# TYPE job_syncs_total counter", `job_syncs_total{result="success",action="created"} 3`, `job_syncs_total{result="error",action="created"} 1`,
		"# TYPE pods_deleted gauge", `pods_deleted{name="web-x7k2p"} 2`, `pods_deleted{name="other"} 0`,
		"# TYPE sync_seconds histogram", `sync_seconds_bucket{le="+Inf"} 1`, "sync_seconds_sum 0", "sync_seconds_count 1",
		"# TYPE replicaset_controller_stale_sync_skips_total counter", "replicaset_controller_stale_sync_skips_total 4",
		"# TYPE go_goroutines gauge", "go_goroutines 7",
	)
	if shown := (series{`job_syncs_total{action="created",result="success"}`, `pods_deleted{name="web-*"}`, `sync_seconds{}`}); !slices.Equal(want, shown) {
		t.Fatalf("the series are %q, want %q", want, shown)
	}
	got := read("# TYPE job_syncs_total counter", `job_syncs_total{result="success",action="created"} 9`, `job_syncs_total{result="success",action="deleted"} 1`)
	differences := []string{`missing: metric pods_deleted{name="web-*"}`, "missing: metric sync_seconds{}", `too much: metric job_syncs_total{action="deleted",result="success"}`}
	if found := unlike(want, got); !slices.Equal(found, differences) {
		t.Errorf("they differ in %q, want %q", found, differences)
	}
}
