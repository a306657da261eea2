package app

import (
	"os"
	"strings"
	"testing"
)

// selfContained are the commands of the examples that need no file and no process.
var selfContained = []string{"config explain", "config print-defaults", "controllers"}

// What the documentation shows is what the commands write.
func TestExamplesOfTheDocumentation(t *testing.T) {
	data, err := os.ReadFile("../../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := map[string]bool{}
	blocks := strings.Split(string(data), "```console\n")
	for _, block := range blocks[1:] {
		example, _, _ := strings.Cut(block, "```")
		line, shown, _ := strings.Cut(example, "\n")
		args, found := strings.CutPrefix(line, "$ kube-controller-manager ")
		for _, prefix := range selfContained {
			if !found || !strings.HasPrefix(args, prefix+" ") {
				continue
			}
			checked[prefix] = true
			got := command(strings.Fields(args)...)
			if got.stdout+got.stderr != shown {
				t.Errorf("docs/commands.md shows of %s\n%s\nit is\n%s%s", args, shown, got.stdout, got.stderr)
			}
		}
	}
	if len(checked) != len(selfContained) {
		t.Errorf("examples were found of %v, want of all of %v", checked, selfContained)
	}
}
