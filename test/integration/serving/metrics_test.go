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

func edit(t *testing.T, m *manager.Process, change func(*manager.Config)) {
	t.Helper()
	if err := m.Edit(t.Context(), change); err != nil {
		t.Fatal(err)
	}
}
