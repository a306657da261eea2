package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"kcmd.dev/pkg/runtime/supervisor"
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

// When the instance that is stuck is replaced, what it worked on counts from zero again: the alert
// has to fire a minute before that, or it never does.
func TestTheAlertAboutStuckWorkFiresInTime(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	const name = "KubeControllerManagerWorkIsStuck"
	rules := rulesOf(t, root)
	i := slices.IndexFunc(rules, func(r rule) bool { return r.Alert == name })
	if i < 0 {
		t.Fatalf("there is no alert %s", name)
	}
	_, threshold, _ := strings.Cut(rules[i].Expr, `(workqueue_longest_running_processor_seconds{job="kube-controller-manager"}) > `)
	seconds, err := strconv.Atoi(strings.TrimSpace(threshold))
	if err != nil {
		t.Fatalf("%s has no threshold in seconds: %s", name, rules[i].Expr)
	}
	lasts, err := time.ParseDuration(rules[i].For)
	if err != nil {
		t.Fatal(err)
	}
	if fires := time.Duration(seconds)*time.Second + lasts; fires+time.Minute > supervisor.DefaultStuckAfter {
		t.Errorf("%s fires after %s, and the instance is replaced after %s", name, fires, supervisor.DefaultStuckAfter)
	}
}

// rule is an alert, or a series to record.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Annotations map[string]string `json:"annotations"`
}

// alertsOf returns the alerts by name with their `runbook_url`.
func alertsOf(t *testing.T, root string) map[string]string {
	t.Helper()
	alerts := map[string]string{}
	for _, r := range rulesOf(t, root) {
		if r.Alert != "" {
			alerts[r.Alert] = r.Annotations["runbook_url"]
		}
	}
	return alerts
}

func rulesOf(t *testing.T, root string) []rule {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "configs", "monitoring", "prometheusrule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Spec struct {
			Groups []struct {
				Rules []rule `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	var rules []rule
	for _, group := range file.Spec.Groups {
		rules = append(rules, group.Rules...)
	}
	return rules
}

// inOrder reports whether a text contains all parts, none before the one that precedes it.
func inOrder(text string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool {
		_, after, found := strings.Cut(text, part)
		text = after
		return !found
	})
}
