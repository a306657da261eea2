package serving

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"kcmd.dev/test/await"
	"kcmd.dev/test/manager"
)

// families reads /metrics.
func families(t *testing.T, m *manager.Process) map[string]*dto.MetricFamily {
	t.Helper()
	body, err := m.Get(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// labelValues are the values of a label in a family.
func labelValues(f *dto.MetricFamily, label string) []string {
	var values []string
	for _, one := range f.GetMetric() {
		for _, l := range one.Label {
			if l.GetName() == label && !slices.Contains(values, l.GetValue()) {
				values = append(values, l.GetValue())
			}
		}
	}
	slices.Sort(values)
	return values
}

// metricsFollowOptions edits the options of metrics, and the file they name.
func metricsFollowOptions(t *testing.T, m *manager.Process) {
	const goroutines, depth = "go_goroutines", "workqueue_depth"
	before := families(t, m)
	if before[goroutines] == nil || len(labelValues(before[depth], "name")) < 10 {
		t.Fatalf("there is no %s, or %s has only the values %v", goroutines, depth, labelValues(before[depth], "name"))
	}
	manifest := filepath.Join(m.Dir(), "labels.yaml")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(manifest, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names := func(want ...string) {
		t.Helper()
		await.That(t, fmt.Sprintf("%s has the names %v", depth, want), func(context.Context) error {
			if got := labelValues(families(t, m)[depth], "name"); !slices.Equal(got, want) {
				return fmt.Errorf("it has %v", got)
			}
			return nil
		})
	}
	write(`"workqueue_depth,name": "deployment"`)
	edit(t, m, func(c *manager.Config) {
		c.Metrics.DisabledMetrics = []string{goroutines}
		c.Metrics.AllowListMappingManifest = manifest
	})
	names("deployment", "unexpected")
	if families(t, m)[goroutines] != nil {
		t.Error("a disabled metric is shown")
	}
	write(`"workqueue_depth,name": "deployment,replicaset"`)
	names("deployment", "replicaset", "unexpected")

	write(`not: {a: mapping}`)
	bad := m.Edit(t.Context(), func(c *manager.Config) { c.Metrics.DisabledMetrics = nil })
	if bad == nil || !strings.Contains(bad.Error(), "labels.yaml") {
		t.Errorf("an edit with a manifest that cannot be read: %v", bad)
	}
	names("deployment", "replicaset", "unexpected")

	edit(t, m, func(c *manager.Config) { c.Metrics.DisabledMetrics, c.Metrics.AllowListMappingManifest = nil, "" })
	await.That(t, "everything is shown again", func(context.Context) error {
		now := families(t, m)
		if now[goroutines] == nil || len(labelValues(now[depth], "name")) != len(labelValues(before[depth], "name")) {
			return errors.New("it is not")
		}
		return nil
	})
}

// metricsOfUpstreamExist looks for the labels and some values of the metrics that libraries publish.
func metricsOfUpstreamExist(t *testing.T, m *manager.Process) {
	all := families(t, m)
	for name, labels := range map[string][]string{
		"informer_queued_items":               {"group", "name", "resource", "version"},
		"informer_processing_latency_seconds": {"group", "name", "resource", "version"},
		"kubernetes_feature_enabled":          {"name", "stage"},
		"kubernetes_build_info":               {"build_date", "compiler", "git_commit", "git_tree_state", "git_version", "go_version", "major", "minor", "platform"},
		"version_info":                        {"binary", "component", "emulation", "min_compat"},
		"registered_metrics_total":            {"deprecated_version", "stability_level"},
	} {
		if all[name] == nil {
			t.Errorf("there is no %s", name)
			continue
		}
		var got []string
		for _, l := range all[name].GetMetric()[0].GetLabel() {
			got = append(got, l.GetName())
		}
		if slices.Sort(got); !slices.Equal(got, labels) {
			t.Errorf("%s has the labels %q, want %q", name, got, labels)
		}
	}
	if got := labelValues(all["kubernetes_feature_enabled"], "stage"); !slices.Equal(got, []string{"", "ALPHA", "BETA", "DEPRECATED"}) {
		t.Errorf("the stages of gates are %q", got)
	}
	if got := labelValues(all["informer_queued_items"], "name"); !slices.Contains(got, "kube-controller-manager") {
		t.Errorf("the informers are those of %q", got)
	}
	before := m.Config().EmulatedVersion
	edit(t, m, func(c *manager.Config) { c.EmulatedVersion = "1.35" })
	now := families(t, m)["version_info"]
	if emulation, oldest := labelValues(now, "emulation"), labelValues(now, "min_compat"); !slices.Equal(emulation, []string{"1.35"}) || !slices.Equal(oldest, []string{"1.34"}) {
		t.Errorf("emulated is %q, compatible with %q", emulation, oldest)
	}
	edit(t, m, func(c *manager.Config) { c.EmulatedVersion = before })
}

func edit(t *testing.T, m *manager.Process, change func(*manager.Config)) {
	t.Helper()
	if err := m.Edit(t.Context(), change); err != nil {
		t.Fatal(err)
	}
}
