package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kcmd.dev/test/controlplane/binaries"
)

// runbooks is where `runbook_url` leads: the page of this repository, at the home of the module.
const runbooks = "https://kcmd.dev/docs/runbooks.md#"

// parts are what a runbook says, in this order.
var parts = []string{"**Meaning.**", "**Impact.**", "**Cause.**", "**Action.**", "**Resolves**"}

var section = regexp.MustCompile(`(?m)^## (.+)$`)

// Every alert links to its runbook, every runbook is of an alert, and the page about operating
// lists them all.
func TestEveryAlertHasARunbook(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	alerts := alertsOf(t, root)
	if len(alerts) < 10 {
		t.Fatalf("there are only %d alerts", len(alerts))
	}
	page := read(t, filepath.Join(root, "docs", "runbooks.md"))
	books := map[string]string{}
	headings := section.FindAllStringSubmatchIndex(page, -1)
	for i, at := range headings {
		end := len(page)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		name := page[at[2]:at[3]]
		books[name] = page[at[1]:end]
		if _, ok := alerts[name]; !ok {
			t.Errorf("docs/runbooks.md has a section %q, which is no alert", name)
		}
	}
	operating := read(t, filepath.Join(root, "docs", "operating.md"))
	for name, url := range alerts {
		if want := runbooks + strings.ToLower(name); url != want {
			t.Errorf("%s links to %q, want %q", name, url, want)
		}
		if !inOrder(books[name], parts) {
			t.Errorf("the runbook of %s lacks one of %q, in this order:\n%s", name, parts, books[name])
		}
		if row := "| [`" + name + "`](runbooks.md#" + strings.ToLower(name) + ") |"; !strings.Contains(operating, row) {
			t.Errorf("the table of alerts in docs/operating.md has no row %s", row)
		}
	}
}

// alertsOf returns the alerts by name with their `runbook_url`.
func alertsOf(t *testing.T, root string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "configs", "monitoring", "prometheusrule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rule struct {
		Spec struct {
			Groups []struct {
				Rules []struct {
					Alert       string            `json:"alert"`
					Annotations map[string]string `json:"annotations"`
				} `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &rule); err != nil {
		t.Fatal(err)
	}
	alerts := map[string]string{}
	for _, group := range rule.Spec.Groups {
		for _, r := range group.Rules {
			if r.Alert != "" {
				alerts[r.Alert] = r.Annotations["runbook_url"]
			}
		}
	}
	return alerts
}

// inOrder reports whether a text contains all parts, none before the one that precedes it.
func inOrder(text string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool {
		_, after, found := strings.Cut(text, part)
		text = after
		return !found
	})
}
