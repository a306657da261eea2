package monitoring

import (
	"os"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"

	"kcmd.dev/test/must"
)

// group is a group of rules.
type group struct {
	Name  string `json:"name"`
	Rules []rule `json:"rules"`
}

// rule is an alert, or a series to record.
type rule struct {
	Record      string            `json:"record,omitempty"`
	Alert       string            `json:"alert,omitempty"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// readRules are the groups of prometheusrule.yaml.
func readRules(t testing.TB) []group {
	t.Helper()
	var sampled struct{ Spec struct{ Groups []group } }
	must.Succeed(t, yaml.Unmarshal(must.Get(os.ReadFile(sample(t, "prometheusrule.yaml")))(t), &sampled))
	return sampled.Spec.Groups
}

// alerts are those of prometheusrule.yaml.
func alerts(t testing.TB) []rule {
	t.Helper()
	var all []rule
	for _, g := range readRules(t) {
		for _, r := range g.Rules {
			if r.Alert != "" {
				all = append(all, r)
			}
		}
	}
	return all
}

var window = regexp.MustCompile(`\[\d+[smhd]\]`)

// hasty is an alert that fires after a moment, and looks back a few seconds.
func hasty(r rule) []group {
	r.Expr = window.ReplaceAllString(r.Expr, "[8s]")
	r.For = "1s"
	return []group{{Name: "hasty", Rules: []rule{r}}}
}
