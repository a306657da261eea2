package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kcmd.dev/test/controlplane/binaries"
)

// grafana is what a reviewer looks at in a dashboard.
type grafana struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct{ List []struct{ Name string } }
	Panels        []grafanaPanel
}

type grafanaPanel struct {
	ID                       int
	Type, Title, Description string
	Datasource               *struct{ UID string }
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct{ RefID, Expr string }
}

var (
	variable = regexp.MustCompile(`\$(\w+)`)
	// builtIn are variables of Grafana itself.
	builtIn = []string{"__rate_interval"}
)

// The dashboard can be read and changed by hand: each panel says what it shows and in which unit,
// has a number of its own that stays, and a place of its own. The data itself is tested with
// Prometheus, in test/integration/monitoring.
func TestTheDashboardIsComplete(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "configs", "monitoring", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d grafana
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 39 || len(d.Panels) < 20 || d.Panels[0].Type != "row" {
		t.Errorf("it is %q, %q, in version %d, with %d panels", d.UID, d.Title, d.SchemaVersion, len(d.Panels))
	}
	variables := slices.Clone(builtIn)
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	operating := read(t, filepath.Join(root, "docs", "operating.md"))
	ids, titles := map[int]bool{}, map[string]bool{}
	for n, p := range d.Panels {
		if ids[p.ID] || titles[p.Title] || p.Title == "" {
			t.Errorf("there are two panels with the number %d or the title %q", p.ID, p.Title)
		}
		ids[p.ID], titles[p.Title] = true, true
		for _, other := range d.Panels[:n] {
			if p.overlaps(other) {
				t.Errorf("%q lies on %q", p.Title, other.Title)
			}
		}
		if p.Type == "row" {
			if !strings.Contains(operating, "\n| "+p.Title+" | ") {
				t.Errorf("docs/operating.md does not say what is in the row %q", p.Title)
			}
			continue
		}
		p.check(t, variables)
	}
}

func (p grafanaPanel) overlaps(other grafanaPanel) bool {
	a, b := p.GridPos, other.GridPos
	return a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H
}

func (p grafanaPanel) check(t *testing.T, variables []string) {
	t.Helper()
	if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource == nil || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
		t.Errorf("%q lacks a description, a unit, the data source of the variable, or a query", p.Title)
	}
	if g := p.GridPos; g.X < 0 || g.W <= 0 || g.H <= 0 || g.X+g.W > 24 {
		t.Errorf("%q lies at %+v, outside of the 24 columns", p.Title, g)
	}
	refs := map[string]bool{}
	for _, target := range p.Targets {
		if refs[target.RefID] || target.RefID == "" {
			t.Errorf("%q has two queries %q", p.Title, target.RefID)
		}
		refs[target.RefID] = true
		for _, used := range variable.FindAllStringSubmatch(target.Expr, -1) {
			if !slices.Contains(variables, used[1]) {
				t.Errorf("%q uses the variable %s, which does not exist", p.Title, used[1])
			}
		}
	}
}
