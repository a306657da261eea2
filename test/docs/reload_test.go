package docs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime"
)

// docs/reload.md says of every field what a change of it does.
func TestReloadIsUpToDate(t *testing.T) {
	var table strings.Builder
	table.WriteString("| a change of | does |\n|---|---|\n")
	for _, r := range rows(t, tree(t)) {
		fmt.Fprintf(&table, "| `%s` | %s |\n", r.field, r.effect)
	}
	checkGenerated(t, "docs/reload.md", table.String())
}

func tree(t *testing.T) *fields.Field {
	t.Helper()
	tree, err := fields.Tree()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// effect is what a change of the field alone does in this build.
func effect(t *testing.T, f *fields.Field) string {
	t.Helper()
	what, err := f.Effect(runtime.Subjects(controllers.All()))
	if err != nil {
		t.Fatal(err)
	}
	return what
}

// row is one field or block, and what happens when it changes.
type row struct{ field, effect string }

// rows are the rows of a field, or those of the fields in it; one for the whole block if
// all of them are the same. What cannot be changed has none, nor what nothing reads.
func rows(t *testing.T, f *fields.Field) []row {
	t.Helper()
	if !f.IsBlock() {
		if what := effect(t, f); what != "" && what != fields.Nothing {
			return []row{{general(f.Path), what}}
		}
		return nil
	}
	var all []row
	for _, child := range f.Fields {
		all = append(all, rows(t, child)...)
	}
	same := !slices.ContainsFunc(all, func(r row) bool { return r.effect != all[0].effect })
	if same && len(all) > 1 {
		return []row{{general(f.Path) + ".*", all[0].effect}}
	}
	slices.SortStableFunc(all, func(a, b row) int { return cmp.Compare(a.field, b.field) })
	return slices.Compact(all)
}

// general is a path, without the name of the controller where all have the field.
func general(path string) string {
	parts := strings.Split(path, ".")
	if len(parts) == 3 && parts[0] == "controllers" {
		switch parts[2] {
		case "enabled", "paused", "pausedNamespaces", "concurrentSyncs", "resyncPeriod":
			parts[1] = "<name>"
		}
	}
	return strings.Join(parts, ".")
}
