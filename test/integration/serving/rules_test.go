package serving

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"kcmd.dev/test/manager"
)

// prometheusRule is what the operator of Prometheus reads.
type prometheusRule struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Metadata   map[string]any     `json:"metadata"`
	Spec       map[string][]rules `json:"spec"`
}

type rules struct {
	Name  string  `json:"name"`
	Rules []alert `json:"rules"`
}

// alert is an alert, or a series to record.
type alert struct {
	Record      string            `json:"record"`
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// complete reports whether an alert says all that it has to say.
func (a alert) complete() bool {
	return a.Record != "" || a.Alert != "" && a.For != "" && a.Labels["severity"] != "" && a.Annotations["summary"] != "" && a.Annotations["description"] != ""
}

var (
	// inExpression finds metrics in a rule: each has a selector.
	inExpression = regexp.MustCompile(`([a-z_:][a-zA-Z0-9_:]*)\{`)
	// inTable finds the metrics in the first column of tables of the documentation, with
	// their labels.
	inTable = regexp.MustCompile("(?m)^\\| `([a-z_]+)(?:\\{([a-z_,]*)\\})?` \\|")
)

// untilItHappens are metrics that have no series before there is something to count.
var untilItHappens = map[string]bool{
	"kcmd_controller_abandoned_instances_total":      true,
	"kcmd_deletions_stopped_since_timestamp_seconds": true,
	"kcmd_deletions_exceeded_timestamp_seconds":      true,

	"kcmd_credentials_automatic_reload_last_timestamp_seconds": true,
}

// documentedMetricsExist compares /metrics with the alerts and with the documentation.
func documentedMetricsExist(t *testing.T, m *manager.Process) {
	// Some series begin with the first restart, or pause.
	edit(t, m, func(c *manager.Config) {
		c.Controllers.Deployment.ConcurrentSyncs = ptr.To(int32(7))
		c.PausedNamespaces = []string{"nothing-is-in-it"}
	})
	if err := m.WaitRunning(t.Context()); err != nil {
		t.Fatal(err)
	}
	exposed := families(t, m)
	known := func(name string) bool {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			if family, found := strings.CutSuffix(name, suffix); found && exposed[family] != nil {
				return true
			}
		}
		return false
	}
	content, err := os.ReadFile("../../../configs/monitoring/prometheusrule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rule prometheusRule
	if err := yaml.UnmarshalStrict(content, &rule); err != nil {
		t.Fatal(err)
	}
	alerts := 0
	for _, group := range rule.Spec["groups"] {
		for _, a := range group.Rules {
			if a.Record == "" {
				alerts++
			}
			if !a.complete() {
				t.Errorf("the alert %q is not complete", a.Alert)
			}
			names := inExpression.FindAllStringSubmatch(a.Expr, -1)
			if len(names) == 0 {
				t.Errorf("%s names no metric: %s", a.Alert+a.Record, a.Expr)
			}
			for _, name := range names {
				// `up` is Prometheus' own.
				if name[1] != "up" && !known(name[1]) && !untilItHappens[name[1]] {
					t.Errorf("%s names %s, which is not in /metrics", a.Alert+a.Record, name[1])
				}
			}
		}
	}
	if rule.Kind != "PrometheusRule" || alerts < 5 {
		t.Errorf("it is a %s with %d alerts", rule.Kind, alerts)
	}
	page, err := os.ReadFile("../../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := inTable.FindAllStringSubmatch(string(page), -1)
	if len(documented) < 10 {
		t.Errorf("only %d metrics are documented", len(documented))
	}
	for _, metric := range documented {
		if !known(metric[1]) && !untilItHappens[metric[1]] {
			t.Errorf("the documentation names %s, which is not in /metrics", metric[1])
		}
	}
}
