package docs

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/faults"
	"kcmd.dev/test/faults/results"
	"kcmd.dev/test/mutations"
	"kcmd.dev/test/suites"
)

// TestProofIsUpToDate: docs/proof.md lists the failures of the past that tests catch.
func TestProofIsUpToDate(t *testing.T) {
	var table strings.Builder
	table.WriteString("| issue | what happened | put back in | caught by |\n|---|---|---|---|\n")
	for _, c := range mutations.Cases() {
		var issues, files []string
		for _, n := range c.Issues {
			issues = append(issues, fmt.Sprintf("[#%d](https://github.com/kubernetes/kubernetes/issues/%d)", n, n))
		}
		for _, e := range c.Edits {
			if link := fmt.Sprintf("[%s](../%s)", path.Base(e.File), e.File); !strings.Contains(strings.Join(files, " "), link) {
				files = append(files, link)
			}
		}
		caught := "`" + c.Caught.Name + "`"
		if c.Caught.Row != "" {
			caught += ", row “" + c.Caught.Row + "”"
		}
		fmt.Fprintf(&table, "| %s | **%s.** %s | %s | %s in [%s](../%s) |\n", strings.Join(issues, ", "), capital(c.Name), c.Story,
			strings.Join(files, ", "), caught, path.Base(c.Caught.Package), c.Caught.Package)
	}
	checkGenerated(t, "docs/proof.md", table.String())
}

// TestInjectedFaultsAreUpToDate: docs/proof.md lists the injected faults.
func TestInjectedFaultsAreUpToDate(t *testing.T) {
	stored, err := results.Stored()
	if err != nil {
		t.Fatal(err)
	}
	var scenarios []string
	for _, s := range faults.Scenarios() {
		scenarios = append(scenarios, s.Name)
	}
	checkPart(t, "docs/proof.md", faultsMark, stored.Table(scenarios))
}

// TestSuitesAreUpToDate: docs/proof.md lists upstream's suites.
func TestSuitesAreUpToDate(t *testing.T) {
	version, err := binaries.Version(binaries.KubeAPIServer)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var table strings.Builder
	for _, s := range suites.Suites() {
		names = append(names, fmt.Sprintf("[%s](https://github.com/kubernetes/kubernetes/tree/%s/test/integration/%s)", s.Name, version, s.Name))
		for _, name := range slices.Sorted(maps.Keys(s.Left)) {
			fmt.Fprintf(&table, "| %s | %s | %s |\n", s.Name, name, s.Left[name])
		}
	}
	list := strings.Join(names, ",\n") + ".\n\n| suite | left out | because |\n|---|---|---|\n" + table.String()
	checkPart(t, "docs/proof.md", suitesMark, list)
}

// capital begins a sentence.
func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
