package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"kcmd.dev/pkg/controllers"
)

// The README says which controllers are in; somebody decides by that list what else a
// cluster needs.
func TestReadmeListsTheControllers(t *testing.T) {
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begun := strings.Cut(string(data), "<!-- controllers -->\n")
	got, _, ended := strings.Cut(rest, "<!-- end of controllers -->\n")
	if !begun || !ended {
		t.Fatal("README.md lacks the marks of the list of controllers")
	}
	var names []string
	for _, d := range controllers.All() {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	var want strings.Builder
	for _, name := range names {
		fmt.Fprintf(&want, "- `%s`\n", name)
	}
	if got != want.String() {
		t.Errorf("README.md lists\n%s\nbut there are\n%s", got, want.String())
	}
}
