package docs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/config/upstream/conversion"
)

// docs/flags.md says of every flag what it is here, as the table does that converts it, and
// what a change of it does.
func TestFlagsAreUpToDate(t *testing.T) {
	root := tree(t)
	var table strings.Builder
	table.WriteString("| flag | field | a change |\n|---|---|---|\n")
	for _, row := range conversion.Table() {
		if row.Flag != "" {
			fmt.Fprintf(&table, "| `--%s` | %s | %s |\n", row.Flag, fieldCell(row), effectCell(t, root, row))
		}
	}
	checkGenerated(t, "docs/flags.md", table.String())
}

func fieldCell(row conversion.Row) string {
	if row.Field == "" {
		return "none: " + row.Why
	}
	cell := "`" + strings.Join(row.Fields(), "`, `") + "`"
	if row.Conversion() != "" {
		cell += ": " + row.Conversion()
	}
	return cell
}

func effectCell(t *testing.T, root *fields.Field, row conversion.Row) string {
	t.Helper()
	if row.Field == "" {
		return "–"
	}
	var effects []string
	for _, path := range row.Fields() {
		if what := effectAt(t, root, path); !slices.Contains(effects, what) {
			effects = append(effects, what)
		}
	}
	return strings.Join(effects, "; ")
}

func effectAt(t *testing.T, root *fields.Field, path string) string {
	t.Helper()
	if path == "featureGates" { // each gate has an effect of its own
		return "starts, stops or restarts the controllers that read the gate"
	}
	f, err := root.Find(strings.ReplaceAll(path, "<name>", "deployment-controller"))
	if err != nil {
		t.Fatal(err)
	}
	return effect(t, f)
}
